"""Deleting chats from the window, and taking it back."""

from __future__ import annotations

from collections.abc import Sequence

from app.chat.chat_page import ChatPage
from app.chat.controller import ChatController
from app.storage.records import ConversationRecord
from app.translation import tr


def delete_chats(controller: ChatController, page: ChatPage, records: Sequence[ConversationRecord]) -> None:
    """Put chats into the trash; a button beside the word about it brings them back."""
    if not records:
        return
    ids = [record.id for record in records]
    controller.delete_conversations(ids)
    text = (
        tr("“{title}” was put into the trash.", title=records[0].title[:60])
        if len(ids) == 1
        else tr("{count} chats were put into the trash.", count=len(ids))
    )
    page.offer_undo(text, lambda: controller.restore_conversations(ids))


def undo_deletion(controller: ChatController, page: ChatPage) -> bool:
    """Take the last deletion back and say so; False when there is none."""
    sentence = controller.undo_deletion()
    if sentence:
        page.show_notice(sentence)
    return bool(sentence)
