"""What the engine keeps of read chats on the disk: how much it may, and what it must delete."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.engine_client import EngineClient
from app.settings import Settings
from engine.protocol import SnapshotStorage

_KEYS = ("keeps_chats", "kept_chats_gb")


class KeptChats(QObject):
    """Tells the engine what the settings allow, and which conversations are gone for good."""

    def __init__(self, client: EngineClient, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._settings = settings
        settings.changed.connect(self._on_setting)
        self._send_quota()

    def forget(self, conversation_ids: list[str]) -> None:
        """Delete what is kept of conversations that cannot come back."""
        for conversation_id in conversation_ids:
            self._client.forget(conversation_id)

    def ask(self, on_answer: Callable[[SnapshotStorage], None]) -> None:
        """Find out what is kept; only the newest call is answered."""
        self._client.ask_storage(on_answer)

    def clear(self) -> None:
        """Delete what is kept of all conversations."""
        self._client.clear_snapshots()

    def _on_setting(self, key: str) -> None:
        if key in _KEYS:
            self._send_quota()

    def _send_quota(self) -> None:
        value = self._settings.value
        self._client.set_snapshot_quota(int(value("kept_chats_gb") * 1e9) if value("keeps_chats") else 0)
