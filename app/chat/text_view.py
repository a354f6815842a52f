"""A read-only text in the transcript: as tall as its content, selectable with its neighbours, loading nothing."""

from __future__ import annotations

import math

from PySide6.QtCore import QMimeData, QRect, QRectF, QSize, Qt, QUrl
from PySide6.QtGui import (
    QContextMenuEvent,
    QDesktopServices,
    QFocusEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCursor,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QSizePolicy,
    QTextBrowser,
    QWidget,
)

from app.chat.selection import mime_data, selection_around
from app.theme import Theme
from app.widgets.growing_column import GrowingColumn

_SAFE_SCHEMES = {"http", "https", "mailto"}


class TextView(QTextBrowser):
    """A read-only text as tall as its content, selectable, with links that open outside on a click.

    Attributes:
        has_caret: it shows where the answer is being written.
        is_following: it is a part of the text above it, and not only below it.
    """

    is_following = False

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._ground = ""
        self.has_caret = False
        self._is_marked = False
        self._heights: dict[int, int] = {}  # of the text at widths, as it is in a revision of the document
        self._revision = -1
        self._end = QTextCursor(self.document())
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(0)
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.viewport().setAutoFillBackground(False)
        for part in (self, self.viewport()):
            part.setAttribute(
                Qt.WidgetAttribute.WA_StaticContents
            )  # a text that grows below is not drawn anew above
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.DefaultContextMenu)
        self.anchorClicked.connect(_open_outside)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        """The height of the text at ``width``; asked for often, so it is kept until the text changes."""
        revision = self.document().revision()
        if revision != self._revision:
            self._revision = revision
            self._heights.clear()
        height = self._heights.get(width)
        if height is None:
            height = self._heights[width] = self._measure(width)
        return height

    def _measure(self, width: int) -> int:
        wraps = self.lineWrapMode() == QTextBrowser.LineWrapMode.WidgetWidth
        if width > 0 and wraps:
            self._lay_out(width)
        height = max(1, math.ceil(self.document().size().height()))
        if wraps and self.viewport().width() not in {width, 0}:
            self._lay_out(self.viewport().width())  # only a question: what is drawn keeps its width
        return height + self._extra_height(width)

    def tell_height(self) -> None:
        """Say that the text needs another height, perhaps, to a column that would not ask."""
        column = self.parentWidget()
        if isinstance(column, GrowingColumn):
            column.remeasure(self)
        else:
            self.updateGeometry()

    def _lay_out(self, width: int) -> None:
        if self.document().textWidth() != width:  # Qt would lay out all of it anew, for the same width, too
            self.document().setTextWidth(width)

    def resizeEvent(self, event: QResizeEvent) -> None:
        wraps = self.lineWrapMode() == QTextBrowser.LineWrapMode.WidgetWidth
        if wraps and self.document().textWidth() == self.viewport().width():
            self.verticalScrollBar().setRange(0, 0)  # it is as high as its text, which is laid out for this width
        else:
            super().resizeEvent(event)

    def sizeHint(self) -> QSize:
        width = max(self.width(), 1)
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:
        """Nothing: an answer cannot make the app read a file or an address."""
        return None

    def wheelEvent(self, event: QWheelEvent) -> None:
        delta = event.angleDelta()
        if abs(delta.x()) > abs(delta.y()) and self.horizontalScrollBar().maximum() > 0:
            super().wheelEvent(event)
        else:
            event.ignore()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() not in {Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason}:
            cursor = self.textCursor()
            cursor.clearSelection()
            self.setTextCursor(cursor)
            if (selection := selection_around(self)) is not None:
                selection.clear()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        selection = selection_around(self)
        if selection is not None and event.button() == Qt.MouseButton.LeftButton:
            selection.begin(self, self.textCursor().anchor())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        selection = selection_around(self)
        is_dragging = selection is not None and bool(event.buttons() & Qt.MouseButton.LeftButton)
        if not (is_dragging and selection is not None and selection.drag(event.globalPosition().toPoint())):
            super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if (selection := selection_around(self)) is not None:
            selection.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        selection = selection_around(self)
        if selection is not None and event.matches(QKeySequence.StandardKey.Copy) and selection.views:
            selection.copy()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        event.ignore()  # the message has one menu for all of its texts

    def createMimeDataFromSelection(self) -> QMimeData:
        return mime_data([(self.selected_cursor(), False)])

    def selected_cursor(self) -> QTextCursor:
        """A cursor that has selected what is selected here, as it is to be copied."""
        return self.textCursor()

    def whole_cursor(self) -> QTextCursor:
        """A cursor that has all of the text selected, as it is to be copied."""
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        return cursor

    def selected_markdown(self) -> str:
        """What is selected as Markdown, where that is not what its looks say; else ""."""
        return ""

    def set_caret(self, is_shown: bool) -> None:
        """Show where the answer is being written."""
        if is_shown != self.has_caret:
            self.has_caret = is_shown
            self.viewport().update()

    def set_ground(self, colour_name: str) -> None:
        """Paint what is behind the text here, in a colour of the theme; with "" it is transparent.

        When the text grows nothing below it is drawn then: neither the message nor the column around it.
        """
        self._ground = colour_name
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent, bool(colour_name))
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._ground or self.has_caret or self._is_marked:
            painter = QPainter(self.viewport())
            if self._ground:
                painter.fillRect(event.rect(), self._theme.colour(self._ground))
            if self._is_marked:
                self._paint_marks(painter, event.rect())
            if self.has_caret:  # behind the last word, where no text is drawn over it
                painter.fillRect(self._caret(), self._theme.colour("text"))
            painter.end()
        super().paintEvent(event)

    def end_cursor(self) -> QTextCursor:
        """A cursor behind the last character. It is kept, for it follows the end: to find that takes long."""
        if not self._end.atEnd():
            self._end.movePosition(QTextCursor.MoveOperation.End)
        return self._end

    def _caret(self) -> QRectF:
        px, place = self._theme.px, self.cursorRect(self.end_cursor())
        return QRectF(place.left() + px(2), place.bottom() - px(17), px(4), px(16))

    def _paint_marks(self, _painter: QPainter, _visible: QRect) -> None:
        """What is drawn under the text while ``_is_marked``."""

    def rest_cursor(self) -> None:
        """Put the cursor to where reading begins, if nothing is selected: the view would scroll after it."""
        cursor, start = self.textCursor(), self._reading_start()
        if cursor.position() != start and not cursor.hasSelection():
            cursor.setPosition(start)
            self.setTextCursor(cursor)

    def _reading_start(self) -> int:
        return 0

    def _extra_height(self, _width: int) -> int:
        return 0


def _open_outside(url: QUrl) -> None:
    if url.scheme().lower() in _SAFE_SCHEMES:
        QDesktopServices.openUrl(url)
