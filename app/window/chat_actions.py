"""What the menus do with the chats that are chosen in the sidebar, or with the open one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtWidgets import QWidget

from app.chat.chat_page import ChatPage
from app.chat.controller import ChatController
from app.storage.records import ConversationRecord
from app.window.deleting import delete_chats, undo_deletion
from app.window.exchange_dialogs import export_chats, import_chats
from app.window.sidebar import Sidebar


class ChatActions:
    """Acts on chats for a window; ``show_sidebar`` lets the person see the list of them."""

    def __init__(
        self,
        window: QWidget,
        controller: ChatController,
        sidebar: Sidebar,
        page: ChatPage,
        show_sidebar: Callable[[], None],
    ) -> None:
        self._window = window
        self._controller = controller
        self._sidebar = sidebar
        self._page = page
        self._show_sidebar = show_sidebar

    @property
    def chosen_ids(self) -> list[str]:
        """The chats an action is about: several that are chosen, one in a list with the keyboard, or the open."""
        chosen = self._sidebar.list.chosen_ids
        counts = len(chosen) > 1 or self._sidebar.list.hasFocus()
        return chosen if chosen and counts else [self._controller.current_id]

    def record(self, conversation_id: str) -> ConversationRecord | None:
        """What is known of a chat; None where nothing is kept of it yet."""
        return next((record for record in self._controller.conversations if record.id == conversation_id), None)

    def rename(self) -> None:
        """Let the person name the chat that is chosen in the list, or the open one, where it stands there."""
        self._show_sidebar()
        chats = self._sidebar.list
        chats.begin_rename(chats.current_id if chats.hasFocus() else self._controller.current_id)

    def toggle_pin(self) -> None:
        """Pin the chosen chats, or let them go where the first of them is pinned."""
        ids = self.chosen_ids
        record = self.record(ids[0])
        if record is not None:
            self._controller.pin_conversations(ids, not record.is_pinned)

    def make_folder(self) -> None:
        """Make a folder and let the person name it."""
        self._show_sidebar()
        self._sidebar.make_folder()

    def delete(self, conversation_ids: Sequence[str]) -> None:
        """Put chats into the trash."""
        delete_chats(self._controller, self._page, self._records(conversation_ids))

    def undo_deletion(self) -> bool:
        """Take the last deletion back; False when there is none."""
        return undo_deletion(self._controller, self._page)

    def export(self, conversation_ids: Sequence[str]) -> None:
        """Ask for a file and write chats into it."""
        if records := self._records(conversation_ids):
            export_chats(self._window, self._controller.exchange, records)

    def import_all(self) -> None:
        """Ask for a file of exported chats and read it."""
        import_chats(self._window, self._controller.exchange)

    def _records(self, conversation_ids: Sequence[str]) -> list[ConversationRecord]:
        return [record for id_ in conversation_ids if (record := self.record(id_)) is not None]
