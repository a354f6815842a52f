"""Asking where chats are exported to and imported from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from app.chat.exchange import FILTERS, ChatExchange, file_name_for
from app.storage.records import ConversationRecord
from app.translation import tr


def export_chats(parent: QWidget, exchange: ChatExchange, records: Sequence[ConversationRecord]) -> None:
    """Ask for a file and write chats into it; one without an ending gets that of the kind that is chosen."""
    suggestion = file_name_for(records[0].title) if len(records) == 1 else tr("Chats")
    name, chosen = QFileDialog.getSaveFileName(parent, tr("Export"), f"{suggestion}.json", FILTERS)
    if name:
        path = Path(name)
        suffix = chosen[chosen.rfind("*") + 1 : -1] if chosen else ".json"
        exchange.write([record.id for record in records], path if path.suffix else path.with_suffix(suffix))


def import_chats(parent: QWidget, exchange: ChatExchange) -> None:
    """Ask for a file of exported chats and read it."""
    name, _ = QFileDialog.getOpenFileName(
        parent, tr("Import chats"), "", tr("Exported chats (*.json);;All files (*)")
    )
    if name:
        exchange.read(Path(name))
