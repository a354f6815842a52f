"""The sidebar: New chat, search, the conversations, and the way to the other pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QMenu, QVBoxLayout, QWidget

from app.chat.controller import ChatController
from app.chat.conversation_list import ConversationList
from app.chat.conversation_list_model import Search
from app.chat.conversation_rows import Shelf
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import IconButton, LookButton
from app.widgets.label import Label
from app.window.pages import CHAT, PageEntry

WIDTH_PX = 264
_SEARCH_AFTER_MS = 120
_REFRESH_TIMES_MS = 60_000


class SearchField(QLineEdit):
    """The search over all chats; Escape empties it, Down goes to the list.

    Signals:
        left_down: the person goes on in the list.
    """

    left_down = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        elif event.key() == Qt.Key.Key_Down:
            self.left_down.emit()
        elif event.matches(QKeySequence.StandardKey.Undo) and not self.isUndoAvailable():
            event.ignore()  # the window may have something to take back
        else:
            super().keyPressEvent(event)


class Sidebar(QWidget):
    """Everything left of the page.

    Signals:
        page_requested(name): show another page.
        chat_requested: show the chat page.
        delete_requested(conversation_ids: list): delete, with a way back.
    """

    page_requested = Signal(str)
    chat_requested = Signal()
    delete_requested = Signal(list)

    def __init__(
        self,
        controller: ChatController,
        theme: Theme,
        pages: Sequence[PageEntry] = (),
        parent: QWidget | None = None,
    ) -> None:
        """``pages`` with a title are offered at the foot."""
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._controller = controller
        self._theme = theme
        self._new = LookButton(theme, tr("New chat"), "primary")
        self._new.setToolTip(tr("New chat (Ctrl+N)"))
        self._new_menu = IconButton(theme, "chevron-down", tr("New chat in a folder, new folder"))
        self._new_menu.setProperty("look", "")
        self._search = SearchField()
        self._search.setPlaceholderText(tr("Search all chats"))
        self._search.setToolTip(tr("Search all chats (Ctrl+Shift+F)"))
        self._search.setAccessibleName(tr("Search all chats"))
        self._search.setClearButtonEnabled(False)
        self.list = ConversationList(theme)
        self._empty = Label("", "help")
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._page_name = CHAT
        self._page_buttons = {entry.name: self._page_button(entry) for entry in pages if entry.title}
        self._column = QVBoxLayout(self)
        self._top = QVBoxLayout()
        self._foot = QVBoxLayout()
        self._new_row = QHBoxLayout()
        self._new_row.addWidget(self._new, 1)
        self._new_row.addWidget(self._new_menu)
        self._top.addLayout(self._new_row)
        self._top.addWidget(self._search)
        for button in self._page_buttons.values():
            self._foot.addWidget(button)
        self._column.addLayout(self._top)
        self._column.addWidget(self._empty)
        self._column.addWidget(self.list, 1)
        self._column.addLayout(self._foot)
        self._column.addStretch(0)
        self._search_timer = QTimer(self)
        self._search_timer.setSingleShot(True)
        self._search_timer.setInterval(_SEARCH_AFTER_MS)
        self._search_timer.timeout.connect(lambda: controller.search(self._search.text().strip()))
        self._clock = QTimer(self)
        self._clock.setInterval(_REFRESH_TIMES_MS)
        self._clock.timeout.connect(self._refresh)
        self._clock.timeout.connect(self.list.draw_anew)  # the times beside the titles
        self._clock.start()
        self._wire()
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self._refresh()

    def focus_search(self) -> None:
        """Let the person search."""
        self._search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._search.selectAll()

    def _go_down(self) -> None:
        """From the search into the list: what was found first is at hand, without opening it."""
        self._search_now()
        self.list.enter(at_top=bool(self._search.text().strip()))

    def mark_page(self, name: str) -> None:
        """Mark the page that is shown."""
        self._page_name = name
        for button_name, button in self._page_buttons.items():
            button.setChecked(button_name == name)
        self.list.select(self._controller.current_id if name == CHAT else "")

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(WIDTH_PX), self._theme.px(400))

    def _wire(self) -> None:
        controller = self._controller
        self._new.clicked.connect(lambda: self.new_chat())  # a click says whether it is checked: no folder's id
        self._search.textChanged.connect(lambda: self._search_timer.start())
        self._search.returnPressed.connect(self._open_first)
        self._search.left_down.connect(self._go_down)
        self._new_menu.clicked.connect(self._show_new_menu)
        chats, folders = self.list, controller.folders
        chats.open_requested.connect(self._open_found)
        chats.rename_requested.connect(controller.rename_conversation)
        chats.pin_requested.connect(controller.pin_conversations)
        chats.delete_requested.connect(self.delete_requested)
        chats.move_requested.connect(controller.move_conversations)
        chats.move_to_new_requested.connect(self.make_folder)
        chats.new_chat_requested.connect(self.new_chat)
        chats.fold_requested.connect(folders.set_folded)
        chats.folder_rename_requested.connect(folders.rename)
        chats.folder_delete_requested.connect(folders.delete)
        controller.conversations_changed.connect(self._refresh)
        controller.conversation_opened.connect(self._refresh)
        controller.generation_started.connect(self._refresh)
        controller.generation_finished.connect(self._refresh)

    def _refresh(self, *_ids: str) -> None:
        controller, records = self._controller, self._controller.conversations
        folders = [] if controller.is_searching else controller.folders.records()
        shelves = [Shelf(record, controller.folders.is_folded(record.id)) for record in folders]
        excerpts = (
            {record.id: controller.excerpt(record.id) for record in records} if controller.is_searching else {}
        )
        search = Search(controller.search_words, excerpts)
        self.list.show_records(records, controller.generating_ids, shelves, search)
        if self._page_name == CHAT:
            self.list.select(self._controller.current_id)
        searched = self._search.text().strip()
        if searched:
            self._empty.setText(tr("No chat has “{searched}” in its title or messages.", searched=searched[:60]))
        else:
            self._empty.setText(tr("Your chats will be listed here."))
        self._empty.setVisible(not records and not shelves)

    def new_chat(self, folder_id: str | None = None) -> None:
        """Open a new chat, in the whole list again."""
        self._search.clear()
        self._controller.new_conversation(folder_id)
        self.chat_requested.emit()

    def make_folder(self, conversation_ids: Sequence[str] = ()) -> None:
        """Make a folder for these chats and let the person name it."""
        self._search.clear()
        self._controller.search("")
        record = self._controller.folders.make(tr("New folder"))
        self._controller.move_conversations(conversation_ids, record.id)
        self.list.begin_folder_rename(record.id)

    def make_new_menu(self) -> QMenu:
        """What can be made: a chat in a folder, a folder."""
        menu = QMenu(self)
        for record in self._controller.folders.records():
            action = menu.addAction(
                self._theme.icon("folder"), tr("New chat in {name}", name=record.name).replace("&", "&&")
            )
            action.triggered.connect(partial(self.new_chat, record.id))
        menu.addSeparator()
        menu.addAction(tr("New folder")).triggered.connect(lambda: self.make_folder())
        return menu

    def _show_new_menu(self) -> None:
        menu = self.make_new_menu()
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._new.mapToGlobal(self._new.rect().bottomLeft() + QPoint(0, self._theme.px(4))))

    def open_chat(self, conversation_id: str) -> None:
        """Open a chat and show it."""
        if conversation_id != self._controller.current_id:
            self._controller.open_conversation(conversation_id)
        self.chat_requested.emit()

    def _open_found(self, conversation_id: str) -> None:
        """Open a chat of the list: while it shows what was found, at the message that was."""
        if self._controller.is_searching:
            self._controller.open_found(conversation_id)
            self.chat_requested.emit()
        else:
            self.open_chat(conversation_id)

    def _page_button(self, entry: PageEntry) -> LookButton:
        button = LookButton(self._theme, entry.title, "row")
        button.setToolTip(f"{entry.title} ({entry.keys})" if entry.keys else entry.title)
        button.setCheckable(True)
        button.clicked.connect(lambda: self._on_page(entry.name))
        return button

    def _on_page(self, name: str) -> None:
        self.mark_page(self._page_name)  # the click toggled the button; the page may not come
        self.page_requested.emit(name)

    def _open_first(self) -> None:
        self._search_now()
        records = self._controller.conversations
        if records and self._search.text().strip():
            self._open_found(records[0].id)

    def _search_now(self) -> None:
        self._search_timer.stop()
        self._controller.search(self._search.text().strip())

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self.setFixedWidth(px(WIDTH_PX))
        self._column.setContentsMargins(0, 0, 1, px(12))
        self._column.setSpacing(0)
        self._top.setContentsMargins(px(12), px(12), px(12), px(10))
        self._top.setSpacing(px(8))
        self._foot.setContentsMargins(px(8), px(8), px(8), 0)
        self._new_row.setSpacing(px(8))
        self._new.setFixedHeight(px(34))
        self._new_menu.setFixedSize(px(37), px(34))
        self._search.setFixedHeight(px(34))
        for button in self._page_buttons.values():
            button.setFixedHeight(px(35))
        self._empty.setContentsMargins(px(16), px(8), px(16), px(8))
