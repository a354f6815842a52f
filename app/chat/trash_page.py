"""The trash as a page: what was deleted, how long it is kept; restore, delete for good, empty."""

from __future__ import annotations

import time
from datetime import datetime

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QListView,
    QVBoxLayout,
    QWidget,
)

from app.chat.blocks import displayable
from app.chat.controller import ChatController
from app.chat.conversation_list_model import CONVERSATION_ID, WHEN
from app.chat.conversation_rows import when
from app.chat.trash import KEPT_DAYS, Trash, days_left
from app.storage.records import TrashRecord
from app.theme import Theme
from app.translation import tr, trn
from app.widgets.buttons import LookButton
from app.widgets.flow_layout import FlowLayout
from app.widgets.label import Label
from app.widgets.notice_bar import NoticeBar
from app.widgets.page_parts import PageBar
from app.widgets.row_delegate import RowDelegate

_COLUMN_PX = 760
_ROW_PX = 40
_Index = QModelIndex | QPersistentModelIndex


class TrashModel(QAbstractListModel):
    """The deleted conversations, the last deleted first."""

    def __init__(self, trash: Trash, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._trash = trash
        self._records: list[TrashRecord] = trash.records()
        trash.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Show what is in the trash now."""
        self.beginResetModel()
        self._records = self._trash.records()
        self.endResetModel()

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self._records)

    def data(self, index: _Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> object:
        record = self._records[index.row()]
        title = displayable(record.conversation.title)
        now = time.time()
        deleted = when(record.deleted_at, datetime.fromtimestamp(now))
        left = days_left(record, now)
        fate = tr("removed at the next start") if left == 0 else trn("1 day left", "{count} days left", left)
        if role == int(Qt.ItemDataRole.DisplayRole):
            return title
        if role == int(Qt.ItemDataRole.AccessibleTextRole):
            return tr("{title}, deleted {deleted}, {fate}", title=title, deleted=deleted, fate=fate)
        return {
            CONVERSATION_ID: record.conversation.id,
            WHEN: tr("deleted {deleted} · {fate}", deleted=deleted, fate=fate),
        }.get(role)


class _TrashList(QListView):
    """Has a chat chosen whenever it has the keyboard, so that the buttons have something to act on.

    Signals: restore_requested: Enter.
    """

    restore_requested = Signal()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.choose_one()

    def choose_one(self) -> None:
        """Choose the chat at the cursor, or the first, where none is chosen."""
        if self.model().rowCount() and not self.selectedIndexes():
            self.setCurrentIndex(self.model().index(max(self.currentIndex().row(), 0), 0))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.restore_requested.emit()
        else:
            super().keyPressEvent(event)


class TrashPage(QWidget):
    """What was deleted in the last 30 days.

    Signals:
        closed: back to the chat.
    """

    closed = Signal()

    def __init__(self, controller: ChatController, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("trashPage")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._controller = controller
        self._theme = theme
        self._restore = LookButton(theme, tr("Restore"))
        self._purge = LookButton(theme, tr("Delete for good"))
        self._empty = LookButton(theme, tr("Empty the trash"))
        self._words = Label("", "help")
        self._words.setWordWrap(True)
        self.notice_bar = NoticeBar(theme)
        self.list = _TrashList()
        self.list.setObjectName("trashList")
        self.list.setAccessibleName(tr("Deleted chats"))
        self.list.setModel(TrashModel(controller.trash, self))
        self.list.setItemDelegate(RowDelegate(theme, self.list, WHEN, _ROW_PX))
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.first_focus = self.list
        self._body = QWidget()
        self._column = QVBoxLayout(self._body)
        for widget in (self._words, self.notice_bar):
            self._column.addWidget(widget)
        self._column.addWidget(self.list, 1)
        self._holder = QHBoxLayout()
        self._holder.addStretch(1)
        self._holder.addWidget(self._body, 1000)
        self._holder.addStretch(1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self._make_bar())
        whole.addLayout(self._holder, 1)
        self._wire()
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self._refresh()

    @property
    def chosen_ids(self) -> list[str]:
        """The conversations that are selected."""
        return [str(index.data(CONVERSATION_ID)) for index in self.list.selectedIndexes()]

    def _make_bar(self) -> PageBar:
        beside = QWidget()
        self._bar_row = FlowLayout(self._theme.px(8), align_right=True, parent=beside)
        for button in (self._restore, self._purge, self._empty):
            self._bar_row.addWidget(button)
        bar = PageBar(self._theme, tr("Trash"), beside)
        bar.closed.connect(self.closed)
        return bar

    def _wire(self) -> None:
        self._restore.clicked.connect(self._on_restore)
        self.list.restore_requested.connect(self._on_restore)
        self.list.doubleClicked.connect(self._on_restore)
        self._purge.clicked.connect(lambda: self._ask(self.chosen_ids))
        self._empty.clicked.connect(
            lambda: self._ask([record.conversation.id for record in self._controller.trash.records()])
        )
        self._controller.trash.changed.connect(self._refresh)
        self.list.selectionModel().selectionChanged.connect(self._refresh)

    def _on_restore(self) -> None:
        if ids := self.chosen_ids:
            self._controller.restore_conversations(ids)
            if len(ids) == 1:
                self.closed.emit()

    def _ask(self, ids: list[str]) -> None:
        question = trn(
            "Delete this chat for good? There is no way back.",
            "Delete these {count} chats for good? There is no way back.",
            len(ids),
        )
        self.notice_bar.show_text(
            question,
            action_name=tr("Delete for good"),
            action=lambda: self._controller.trash.purge(ids),
        )

    def _refresh(self) -> None:
        has_any = len(self._controller.trash) > 0
        self._words.setText(
            tr("A deleted chat is kept for {days} days and then removed for good.", days=KEPT_DAYS)
            if has_any
            else tr("The trash is empty. A deleted chat is kept here for {days} days.", days=KEPT_DAYS)
        )
        self._words.setAlignment(Qt.AlignmentFlag.AlignLeft if has_any else Qt.AlignmentFlag.AlignCenter)
        self.list.setVisible(has_any)
        if self.list.hasFocus():
            self.list.choose_one()
        has_chosen = bool(self.chosen_ids)
        self._restore.setEnabled(has_chosen)
        self._purge.setEnabled(has_chosen)
        self._empty.setEnabled(has_any)
        if not has_any:
            self.notice_bar.hide()

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._bar_row.setSpacing(px(8))
        self._holder.setContentsMargins(px(24), px(20), px(24), px(24))
        self._body.setMaximumWidth(px(_COLUMN_PX))
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(px(12))
