"""The list of conversations: drawn rows, renaming in place, a menu for each. It says what the person wants."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QFont, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemDelegate,
    QAbstractItemView,
    QLineEdit,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.chat.conversation_list_model import (
    CONVERSATION_ID,
    IS_BUSY,
    IS_HEADING,
    IS_PINNED,
    WHEN,
    ConversationListModel,
)
from app.theme import Theme

_Index = QModelIndex | QPersistentModelIndex


class ConversationDelegate(QStyledItemDelegate):
    """Draws headings and conversations in the theme's colours."""

    def __init__(self, theme: Theme, parent: QListView) -> None:
        super().__init__(parent)
        self._theme = theme
        self._view = parent

    def sizeHint(self, _option: QStyleOptionViewItem, index: _Index) -> QSize:
        is_heading = bool(index.data(IS_HEADING))
        return QSize(10, self._theme.px((26 if index.row() == 0 else 33) if is_heading else 35))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box: QRect = option.rect
        if index.data(IS_HEADING):
            self._paint_heading(painter, box, str(index.data()))
        else:
            self._paint_conversation(painter, box, option.state, index)
        painter.restore()

    def createEditor(self, parent: QWidget, _option: QStyleOptionViewItem, _index: _Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setProperty("look", "rename")
        editor.setAccessibleName("Title of the chat")
        editor.setMaxLength(200)
        editor.setFont(self._theme.font(13.5))
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, _index: _Index) -> None:
        px = self._theme.px
        box: QRect = option.rect
        editor.setGeometry(box.adjusted(px(8), px(2), -px(8), -px(2)))

    def _paint_heading(self, painter: QPainter, box: QRect, text: str) -> None:
        px = self._theme.px
        font = self._theme.font(11, weight=QFont.Weight.DemiBold)
        font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, px(1) * 0.4)
        painter.setFont(font)
        painter.setPen(self._theme.colour("muted"))
        area = box.adjusted(px(16), 0, -px(16), -px(6))
        painter.drawText(area, int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom), text.upper())

    def _paint_conversation(self, painter: QPainter, box: QRect, state: QStyle.StateFlag, index: _Index) -> None:
        px, theme = self._theme.px, self._theme
        is_selected = bool(state & QStyle.StateFlag.State_Selected)
        is_hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        surface = QRectF(box.adjusted(px(8), 0, -px(8), 0)).adjusted(0, 0.5, 0, -0.5)
        if is_selected or is_hovered:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.colour("accent_wash" if is_selected else "hover"))
            painter.drawRoundedRect(surface, px(8), px(8))
        if self._view.hasFocus() and index == self._view.currentIndex():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(theme.colour("accent"), 1))
            painter.drawRoundedRect(surface.adjusted(0.5, 0.5, -0.5, -0.5), px(8), px(8))
        weight = QFont.Weight.DemiBold if is_selected else QFont.Weight.Normal
        inner = box.adjusted(px(18), 0, -px(18), 0)
        right = inner.right()
        if index.data(IS_BUSY):
            side = px(8)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.colour("accent"))
            painter.drawEllipse(QRectF(right - side + 1, box.center().y() - side / 2 + 1, side, side))
            right -= side + px(8)
        else:
            small = theme.font(12)
            painter.setFont(small)
            painter.setPen(theme.colour("muted"))
            text = str(index.data(WHEN))
            painter.drawText(inner, int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter), text)
            right -= QFontMetrics(small).horizontalAdvance(text) + px(10)
        font = theme.font(14, weight=weight)
        painter.setFont(font)
        painter.setPen(theme.colour("text"))
        title_box = QRect(inner.left(), inner.top(), max(0, right - inner.left()), inner.height())
        title = QFontMetrics(font).elidedText(str(index.data()), Qt.TextElideMode.ElideRight, title_box.width())
        painter.drawText(title_box, int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter), title)


class ConversationList(QListView):
    """The conversations; one click or Enter opens.

    Signals:
        open_requested(id), rename_requested(id, title), pin_requested(id, is_pinned), delete_requested(id)
        rename_left: Enter or Escape ended the editing of a title.
    """

    open_requested = Signal(str)
    rename_requested = Signal(str, str)
    rename_left = Signal()
    pin_requested = Signal(str, bool)
    delete_requested = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("conversationList")
        self.setAccessibleName("Chats")
        self._model = ConversationListModel(self)
        self.setModel(self._model)
        self.setItemDelegate(ConversationDelegate(theme, self))
        self.setMouseTracking(True)
        self.setUniformItemSizes(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        # Queued: the rows are made anew, and with the editor still open the focus would go to any neighbour.
        self._model.rename_requested.connect(self.rename_requested, Qt.ConnectionType.QueuedConnection)
        theme.changed.connect(self.scheduleDelayedItemsLayout)

    @property
    def conversations(self) -> ConversationListModel:
        """The rows."""
        return self._model

    def select(self, conversation_id: str) -> None:
        """Mark the conversation that is open."""
        row = self._model.row_of(conversation_id)
        if row < 0:
            self.setCurrentIndex(QModelIndex())
            self.clearSelection()
        elif self.currentIndex().row() != row or not self.selectionModel().isSelected(self._model.index(row)):
            self.setCurrentIndex(self._model.index(row))

    @property
    def chosen_id(self) -> str:
        """The conversation under the keyboard's cursor; "" when there is none."""
        index = self.currentIndex()
        return str(index.data(CONVERSATION_ID)) if index.isValid() else ""

    def begin_rename(self, conversation_id: str) -> None:
        """Edit a title in place."""
        row = self._model.row_of(conversation_id)
        if row >= 0:
            self.edit(self._model.index(row))

    def closeEditor(self, editor: QWidget, hint: QAbstractItemDelegate.EndEditHint) -> None:
        had_focus = editor.hasFocus()
        super().closeEditor(editor, hint)
        if had_focus and self.state() != QAbstractItemView.State.EditingState:
            self.rename_left.emit()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        index = self.indexAt(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and index.isValid() and not index.data(IS_HEADING):
            self.open_requested.emit(str(index.data(CONVERSATION_ID)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        is_enter = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space}
        if is_enter and index.isValid() and self.state() != QAbstractItemView.State.EditingState:
            self.open_requested.emit(str(index.data(CONVERSATION_ID)))
        else:
            super().keyPressEvent(event)

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
        """What can be done with the conversation at ``index``."""
        conversation_id = str(index.data(CONVERSATION_ID))
        is_pinned = bool(index.data(IS_PINNED))
        menu = QMenu(self)
        rename = menu.addAction(self._theme.icon("edit"), "Rename\tF2")
        rename.triggered.connect(lambda: self.begin_rename(conversation_id))
        pin = menu.addAction(self._theme.icon("pin"), "Unpin" if is_pinned else "Pin")
        pin.triggered.connect(lambda: self.pin_requested.emit(conversation_id, not is_pinned))
        menu.addSeparator()
        delete = menu.addAction(self._theme.icon("trash"), "Delete")
        delete.triggered.connect(lambda: self.delete_requested.emit(conversation_id))
        return menu

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.FontChange:
            self.scheduleDelayedItemsLayout()
        return super().viewportEvent(event)
