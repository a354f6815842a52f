"""The way to the hub as the person set it: its address and the access token. For background threads only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from app.settings import Settings

if TYPE_CHECKING:
    from engine.hub.client import HubClient


class HubAccess:
    """Makes clients of the hub."""

    def __init__(self, settings: Settings, token_file: Path) -> None:
        self._settings = settings
        self._token_file = token_file

    def client(self, endpoint: str = "") -> HubClient:
        """A client of the hub at ``endpoint``, "" for the one in the settings. May wait for the keyring."""
        # huggingface_hub takes half a second to import: a start without the hub does not pay for it.
        from engine.hub.address import chosen_endpoint
        from engine.hub.client import HubClient
        from engine.hub.tokens import TokenStore

        chosen = chosen_endpoint(str(self._settings.value("hub_endpoint")))
        endpoint = endpoint or chosen
        return HubClient(endpoint, TokenStore(self._token_file).get(endpoint, chosen))

    def set_token(self, token: str) -> bool:
        """Keep the access token of the hub in the settings; True when the system's keyring has it.

        Raises ValueError and OSError.
        """
        from engine.hub.tokens import TokenStore

        return TokenStore(self._token_file).set(token, str(self._settings.value("hub_endpoint")))
