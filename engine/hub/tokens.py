"""The access token for the hub: in the system's keyring, or in a file of its own that only its owner may read."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path

from engine.hub.address import DEFAULT_ENDPOINT, chosen_endpoint, origin_of

_log = logging.getLogger(__name__)

SERVICE = "Fireside"
USER = "hub-access-token"
MAX_LENGTH = 500
KEYRING_WAIT_S = 5.0  # a keyring that asks the person for its password may wait for ever


class TokenStore:
    """Keeps one token and which hub it is of: the token alone is the public hub's.

    Asking the keyring may take seconds: not for a GUI thread.

    Attributes:
        file: where the token lies when there is no keyring.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def get(self, endpoint: str, chosen: str = "") -> str:
        """The token for the hub at ``endpoint``; "" where there is none for it.

        ``HF_TOKEN`` in the environment stands above what is kept; it is of the hub that was ``chosen``, "" for any.
        """
        if token := os.environ.get("HF_TOKEN", "").strip():
            return token if not chosen or _is_same_hub(endpoint, chosen) else ""
        kept = ""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            kept = self.file.read_text(encoding="utf-8").strip()
        kept = kept or _ask_keyring(lambda keyring: keyring.get_password(SERVICE, USER) or "") or ""
        token, _, of_hub = kept.partition(" ")
        return token if _is_same_hub(endpoint, of_hub or DEFAULT_ENDPOINT) else ""

    def set(self, token: str, endpoint: str) -> bool:
        """Keep a token of the hub at ``endpoint``, or forget it where it is ""; True when the keyring has it.

        Raises OSError, ValueError.
        """
        token = token.strip()
        if token and not is_token(token):
            raise ValueError("This is no access token: copy it once more from the hub's settings page.")
        if not token:
            _ask_keyring(lambda keyring: keyring.delete_password(SERVICE, USER))
            self.file.unlink(missing_ok=True)
            return False
        text = token if _is_same_hub(endpoint, DEFAULT_ENDPOINT) else f"{token} {chosen_endpoint(endpoint)}"
        kept = _ask_keyring(
            lambda keyring: keyring.set_password(SERVICE, USER, text) or keyring.get_password(SERVICE, USER)
        )
        if kept == text:
            self.file.unlink(missing_ok=True)
            return True
        self._write(text)
        return False

    def _write(self, token: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.file.with_suffix(".tmp")
        scratch.unlink(missing_ok=True)
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(token)
        os.replace(scratch, self.file)


def _is_same_hub(endpoint: str, other: str) -> bool:
    return origin_of(chosen_endpoint(endpoint)) == origin_of(chosen_endpoint(other))


def is_token(text: str) -> bool:
    """Whether this can be an access token, as it goes into a request's header."""
    return 0 < len(text) <= MAX_LENGTH and text.isascii() and text.isprintable() and " " not in text


def _ask_keyring(ask: object) -> str | None:
    """What ``ask`` returns of the keyring; None where there is none, it fails, or it does not answer in time."""
    assert callable(ask)
    answers: list[str | None] = []

    def work() -> None:
        try:
            import keyring
            from keyring.backends.fail import Keyring as NoKeyring

            if not isinstance(keyring.get_keyring(), NoKeyring):
                answers.append(ask(keyring))
        except Exception as error:  # whatever a system's keyring comes up with
            _log.info("the keyring cannot be used: %s", error)

    thread = threading.Thread(target=work, name="keyring", daemon=True)
    thread.start()
    thread.join(KEYRING_WAIT_S)
    return answers[0] if answers else None
