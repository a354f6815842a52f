"""Asking where chats are exported to and imported from."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from app.chat.exchange import FILTERS, ChatExchange, file_name_for
from app.storage.records import ConversationRecord
from app.translation import tr
from app.widgets.file_dialogs import choose_file, choose_target


def export_chats(parent: QWidget, exchange: ChatExchange, records: Sequence[ConversationRecord]) -> None:
    """Ask for a file and write chats into it; one without an ending gets that of the kind that is chosen."""
    suggestion = file_name_for(records[0].title) if len(records) == 1 else tr("Chats")
    path = choose_target(parent, tr("Export"), f"{suggestion}.json", FILTERS)
    if path is not None:
        exchange.write([record.id for record in records], path)


def import_chats(parent: QWidget, exchange: ChatExchange) -> None:
    """Ask for a file of exported chats and read it."""
    path = choose_file(parent, tr("Import chats"), tr("Exported chats (*.json);;All files (*)"))
    if path is not None:
        exchange.read(path)
