"""The list of conversations and folders: choosing, renaming in place, dragging, a menu. It says what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import (
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeyEvent,
    QMouseEvent,
)
from PySide6.QtWidgets import QAbstractItemDelegate, QAbstractItemView, QListView, QMenu, QWidget

from app.chat.conversation_delegate import ConversationDelegate
from app.chat.conversation_list_model import (
    CONVERSATION_ID,
    FOLDER_ID,
    IS_FOLDED,
    IS_FOLDER,
    IS_HEADING,
    IS_PINNED,
    MIME_TYPE,
    NO_SEARCH,
    ConversationListModel,
    Search,
)
from app.chat.conversation_rows import Shelf
from app.storage.records import ConversationRecord
from app.theme import Theme
from app.translation import tr

_Index = QModelIndex | QPersistentModelIndex


class ConversationList(QListView):
    """The conversations; one click or Enter opens, Ctrl and Shift choose several, dragging moves them to a folder.

    Signals: as declared; ``ids`` are lists of conversation ids.
        rename_left: Enter or Escape ended the editing of a title.
    """

    open_requested = Signal(str)
    rename_requested = Signal(str, str)  # conversation id, title
    rename_left = Signal()
    pin_requested = Signal(list, bool)  # ids, whether to pin
    delete_requested = Signal(list)  # ids
    export_requested = Signal(list)  # ids
    move_requested = Signal(list, object)  # ids, folder id or None
    move_to_new_requested = Signal(list)  # ids
    fold_requested = Signal(str, bool)  # folder id, whether to fold
    folder_rename_requested = Signal(str, str)  # folder id, name
    folder_delete_requested = Signal(str)
    new_chat_requested = Signal(str)  # folder id

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shelves: tuple[Shelf, ...] = ()
        self.setObjectName("conversationList")
        self.setAccessibleName(tr("Chats"))
        self._model = ConversationListModel(self)
        self.setModel(self._model)
        self._delegate = ConversationDelegate(theme, self)
        self.setItemDelegate(self._delegate)
        self.setMouseTracking(True)
        self.setUniformItemSizes(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
        self.setDefaultDropAction(Qt.DropAction.MoveAction)
        self.setDropIndicatorShown(False)  # the delegate marks the folder
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        # Queued: the rows are made anew, and with the editor still open the focus would go to any neighbour.
        queued = Qt.ConnectionType.QueuedConnection
        self._model.rename_requested.connect(self.rename_requested, queued)
        self._model.folder_rename_requested.connect(self.folder_rename_requested, queued)
        self._model.move_requested.connect(self.move_requested, queued)
        theme.changed.connect(self.scheduleDelayedItemsLayout)

    @property
    def conversations(self) -> ConversationListModel:
        """The rows."""
        return self._model

    def show_records(
        self,
        records: Sequence[ConversationRecord],
        busy_ids: Iterable[str],
        shelves: Sequence[Shelf] = (),
        search: Search = NO_SEARCH,
    ) -> None:
        """Show other rows; what was chosen stays chosen as far as it is still there."""
        self._shelves = tuple(shelves)
        chosen = self.chosen_ids
        at_top = self._rows_at_top()
        self.setUniformItemSizes(not search.excerpts)  # asking each row for its height takes longest of all
        self._model.show_records(records, busy_ids, shelves, search)
        if len(chosen) > 1 and self.chosen_ids != chosen:
            self._choose(chosen)
        self._scroll_back(at_top)

    def draw_anew(self) -> None:
        """Draw what is in sight again."""
        self.viewport().update()  # asked for here alone: the first time, Qt's classes of widgets become Python's

    def _rows_at_top(self) -> list[tuple[QPersistentModelIndex, int]]:
        """The first rows in sight and where they are, while the list is scrolled down."""
        if self.verticalScrollBar().value() == 0:
            return []
        first = self.indexAt(QPoint(self.viewport().width() // 2, 0)).row()
        indices = [self._model.index(row) for row in range(max(0, first), first + 3)]
        return [
            (QPersistentModelIndex(index), self.visualRect(index).top()) for index in indices if index.isValid()
        ]

    def _scroll_back(self, at_top: Sequence[tuple[QPersistentModelIndex, int]]) -> None:
        """Let what was in sight stay where it was, though rows came or went above; one of them may have moved."""
        if not at_top:
            return
        self.executeDelayedItemsLayout()
        steps = [
            self.visualRect(self._model.index(index.row())).top() - top for index, top in at_top if index.isValid()
        ]
        if step := min(steps, key=abs, default=0):
            bar = self.verticalScrollBar()
            bar.setValue(bar.value() + step)

    def select(self, conversation_id: str) -> None:
        """Mark the conversation that is open; a choice of several that it belongs to stays."""
        self._model.mark_open(conversation_id)
        row = self._model.row_of(conversation_id)
        index = self._model.index(row) if row >= 0 else QModelIndex()
        if row < 0:
            self.setCurrentIndex(index)
            self.clearSelection()
        elif not (self.selectionModel().isSelected(index) and self._is_settled(row)):
            self._make_current(index)

    def _make_current(self, index: QModelIndex) -> None:
        """Choose this row alone, whereas setCurrentIndex heeds the keys that are down: those of a shortcut."""
        self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)

    def _is_settled(self, row: int) -> bool:
        return self.currentIndex().row() == row or len(self.chosen_ids) > 1

    @property
    def chosen_ids(self) -> list[str]:
        """The conversations that are selected, from the top."""
        rows = sorted(self.selectedIndexes(), key=lambda index: index.row())
        return [str(index.data(CONVERSATION_ID)) for index in rows if index.data(CONVERSATION_ID)]

    @property
    def current_id(self) -> str:
        """The conversation under the keyboard's cursor; "" when there is none."""
        index = self.currentIndex()
        return str(index.data(CONVERSATION_ID) or "") if index.isValid() else ""

    def enter(self, *, at_top: bool) -> None:
        """Take the keyboard, at the first conversation where it should or where none is at hand."""
        self.setFocus(Qt.FocusReason.OtherFocusReason)
        if at_top or not self.current_id:
            rows = (self._model.index(row) for row in range(self._model.rowCount()))
            if (first := next((index for index in rows if index.data(CONVERSATION_ID)), None)) is not None:
                self._make_current(first)

    def begin_rename(self, conversation_id: str) -> None:
        """Edit a title in place."""
        self._edit_row(self._model.row_of(conversation_id))

    def begin_folder_rename(self, folder_id: str) -> None:
        """Edit a folder's name in place."""
        self._edit_row(self._model.row_of_folder(folder_id))

    def _edit_row(self, row: int) -> None:
        if row < 0:
            return
        index = self._model.index(row)
        self.scrollTo(index)
        if self.state() == QAbstractItemView.State.EditingState:
            if index == self.currentIndex():
                return
            self.setFocus(Qt.FocusReason.OtherFocusReason)  # an editor that loses it gives what was typed
        self._make_current(index)
        self.edit(index)

    def _choose(self, conversation_ids: Iterable[str]) -> None:
        selection = QItemSelection()
        for row in map(self._model.row_of, conversation_ids):
            if row >= 0:
                selection.select(self._model.index(row), self._model.index(row))
        self.selectionModel().select(selection, QItemSelectionModel.SelectionFlag.ClearAndSelect)

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:
        had_focus = editor.hasFocus()
        super().closeEditor(editor, hint)
        if had_focus and self.state() != QAbstractItemView.State.EditingState:
            self.rename_left.emit()

    # ------------------------------------------------------------------------------------ mouse and keyboard

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        index = self.indexAt(event.position().toPoint())
        is_plain = event.modifiers() in {Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier}
        if event.button() == Qt.MouseButton.LeftButton and is_plain and index.isValid():
            self._activate(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        is_free = index.isValid() and self.state() != QAbstractItemView.State.EditingState
        key = event.key()
        if is_free and key in {Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space}:
            self._activate(index)
        elif is_free and index.data(IS_FOLDER) and key in {Qt.Key.Key_Left, Qt.Key.Key_Right}:
            is_rtl = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
            self.fold_requested.emit(index.data(FOLDER_ID), (key == Qt.Key.Key_Left) != is_rtl)
        else:
            super().keyPressEvent(event)

    def _activate(self, index: QModelIndex) -> None:
        if index.data(IS_FOLDER):
            self.fold_requested.emit(str(index.data(FOLDER_ID)), not index.data(IS_FOLDED))
        elif not index.data(IS_HEADING):
            self.open_requested.emit(str(index.data(CONVERSATION_ID)))

    # ------------------------------------------------------------------------------------ drag and drop

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasFormat(MIME_TYPE):
            event.acceptProposedAction()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        super().dragMoveEvent(event)  # scrolls near the edges
        if event.mimeData().hasFormat(MIME_TYPE):
            index = self.indexAt(event.position().toPoint())
            folder = self._model.row_of_folder(str(index.data(FOLDER_ID))) if index.isValid() else -1
            self._mark_drop(QPersistentModelIndex(self._model.index(folder)) if folder >= 0 else None)
            event.setDropAction(Qt.DropAction.MoveAction)
            event.accept()
        else:
            event.ignore()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        super().dragLeaveEvent(event)
        self._mark_drop(None)

    def dropEvent(self, event: QDropEvent) -> None:
        self._mark_drop(None)
        index = self.indexAt(event.position().toPoint())
        if self._model.dropMimeData(event.mimeData(), Qt.DropAction.MoveAction, -1, 0, index):
            event.setDropAction(Qt.DropAction.MoveAction)
            event.accept()
        self.stopAutoScroll()
        self.setState(QAbstractItemView.State.NoState)
        self.draw_anew()

    def _mark_drop(self, target: QPersistentModelIndex | None) -> None:
        self._delegate.drop_target = target or QPersistentModelIndex()
        self.draw_anew()

    # ------------------------------------------------------------------------------------ menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        is_by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if is_by_key else self.indexAt(event.pos())
        if not index.isValid() or index.data(IS_HEADING):
            return
        place = self.visualRect(index).center() if is_by_key else event.pos()
        menu = self.make_menu(index)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.viewport().mapToGlobal(QPoint(place)))

    def make_menu(self, index: QModelIndex) -> QMenu:
        """What can be done with the row at ``index``, or with all that are chosen when it is one of them."""
        return self._folder_menu(index) if index.data(IS_FOLDER) else self._conversation_menu(index)

    def _conversation_menu(self, index: QModelIndex) -> QMenu:
        menu = QMenu(self)
        conversation_id = str(index.data(CONVERSATION_ID))
        ids = chosen if conversation_id in (chosen := self.chosen_ids) else [conversation_id]
        is_pinned = bool(index.data(IS_PINNED))
        if len(ids) == 1:
            rename = menu.addAction(self._theme.icon("edit"), tr("Rename\tF2"))
            rename.triggered.connect(lambda: self.begin_rename(conversation_id))
        pin = menu.addAction(self._theme.icon("pin"), tr("Unpin") if is_pinned else tr("Pin"))
        pin.triggered.connect(lambda: self.pin_requested.emit(ids, not is_pinned))
        self._add_move_menu(menu, ids)
        export = menu.addAction(self._theme.icon("file"), tr("Export…"))
        export.triggered.connect(lambda: self.export_requested.emit(ids))
        menu.addSeparator()
        delete = menu.addAction(
            self._theme.icon("trash"), tr("Delete") if len(ids) == 1 else tr("Delete {count} chats", count=len(ids))
        )
        delete.triggered.connect(lambda: self.delete_requested.emit(ids))
        return menu

    def _add_move_menu(self, menu: QMenu, ids: list[str]) -> None:
        move = menu.addMenu(self._theme.icon("folder"), tr("Move to"))
        for shelf in self._shelves:
            action = move.addAction(shelf.record.name.replace("&", "&&"))
            action.triggered.connect(lambda _on=False, id_=shelf.record.id: self.move_requested.emit(ids, id_))
        if self._shelves:
            move.addSeparator()
        new = move.addAction(tr("A new folder"))
        new.triggered.connect(lambda: self.move_to_new_requested.emit(ids))
        out = move.addAction(tr("No folder"))
        out.triggered.connect(lambda: self.move_requested.emit(ids, None))

    def _folder_menu(self, index: QModelIndex) -> QMenu:
        menu = QMenu(self)
        folder_id = str(index.data(FOLDER_ID))
        new = menu.addAction(tr("New chat here"))
        new.triggered.connect(lambda: self.new_chat_requested.emit(folder_id))
        rename = menu.addAction(self._theme.icon("edit"), tr("Rename\tF2"))
        rename.triggered.connect(lambda: self.begin_folder_rename(folder_id))
        menu.addSeparator()
        delete = menu.addAction(self._theme.icon("trash"), tr("Delete the folder, keep its chats"))
        delete.triggered.connect(lambda: self.folder_delete_requested.emit(folder_id))
        return menu

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.scheduleDelayedItemsLayout()

    def dataChanged(self, first: _Index, last: _Index, roles: Sequence[int] = ()) -> None:
        """Draw these rows anew, and lay nothing out, as a list view would: they keep their heights."""
        QAbstractItemView.dataChanged(self, first, last, list(roles))
