"""One selection over many texts: dragging from one message into another, and copying what it covers.

Each block of a message is a text of its own; while the pointer drags beyond the one it began in, this selects the
rest of that one, all of those between, and the beginning of the one under the pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QMimeData, QObject, QPoint, QTimer
from PySide6.QtGui import QGuiApplication, QTextCursor, QTextDocumentFragment
from PySide6.QtWidgets import QScrollArea, QWidget

if TYPE_CHECKING:
    from app.chat.text_view import TextView

_SCROLL_MS = 30


class HasSelection(Protocol):
    """What holds the texts."""

    selection: TextSelection


class TextSelection(QObject):
    """The selection over the texts that ``texts`` gives, from top to bottom, inside a scroll area."""

    def __init__(self, area: QScrollArea, texts: Callable[[], Sequence[TextView]]) -> None:
        super().__init__(area)
        self._area = area
        self._texts = texts
        self._anchor: TextView | None = None
        self._anchor_position = 0
        self._pointer = QPoint()
        self._scroller = QTimer(self)
        self._scroller.setInterval(_SCROLL_MS)
        self._scroller.timeout.connect(self._scroll)

    def begin(self, view: TextView, position: int) -> None:
        """A drag begins in ``view`` at a position of its text; what was selected elsewhere is let go."""
        self._clear_except(view)
        self._anchor, self._anchor_position = view, position

    def drag(self, pointer: QPoint) -> bool:
        """The pointer moved to a place on the screen; True when the selection leaves the view it began in."""
        if self._anchor is None:
            return False
        self._pointer = pointer
        self._scroller.start() if self._distance_outside() else self._scroller.stop()
        return self._extend()

    def end(self) -> None:
        """The button was let go; the selection stays."""
        self._scroller.stop()

    def clear(self) -> None:
        """Select nothing."""
        self._clear_except(None)
        self._anchor = None

    def select_all(self, views: Sequence[TextView]) -> None:
        """Select some texts whole."""
        self.clear()
        for view in views:
            _select(view, 0, _end(view))

    @property
    def views(self) -> list[TextView]:
        """The texts of which something is selected, from top to bottom."""
        return [view for view in self._texts() if view.textCursor().hasSelection()]

    def text(self) -> str:
        """What is selected, as plain text."""
        return self.mime_data().text()

    def markdown(self) -> str:
        """What is selected, as Markdown."""
        parts = [(_markdown(view), view.is_following) for view in self.views]
        rows = [(_without_head(part) if index and follows else part) for index, (part, follows) in enumerate(parts)]
        return _joined([(part, follows) for part, (_, follows) in zip(rows, parts)], "\n\n")

    def mime_data(self) -> QMimeData:
        """What is selected, as plain and as rich text."""
        return mime_data([(view.selected_cursor(), view.is_following) for view in self.views])

    def copy(self) -> None:
        """Put what is selected on the clipboard."""
        QGuiApplication.clipboard().setMimeData(self.mime_data())

    def _extend(self) -> bool:
        texts = list(self._texts())
        if self._anchor not in texts:
            return False
        start = texts.index(self._anchor)
        target = texts.index(self._under_pointer(texts))
        for index, view in enumerate(texts):
            if index != start and not min(start, target) <= index <= max(start, target):
                _select(view, 0, 0)
        if target == start:
            return False
        is_down = target > start
        _select(self._anchor, self._anchor_position, _end(self._anchor) if is_down else 0)
        for view in texts[min(start, target) + 1 : max(start, target)]:
            _select(view, 0, _end(view))
        view = texts[target]
        place = view.cursorForPosition(view.viewport().mapFromGlobal(self._pointer)).position()
        _select(view, 0 if is_down else _end(view), place)
        return True

    def _under_pointer(self, texts: Sequence[TextView]) -> TextView:
        def distance(view: TextView) -> int:
            top = view.mapToGlobal(QPoint(0, 0)).y()
            return max(top - self._pointer.y(), self._pointer.y() - (top + view.height()), 0)

        return min(texts, key=distance)

    def _distance_outside(self) -> int:
        """How far above (negative) or below the visible part the pointer is."""
        viewport = self._area.viewport()
        y = viewport.mapFromGlobal(self._pointer).y()
        return min(y, 0) or max(y - viewport.height(), 0)

    def _scroll(self) -> None:
        bar = self._area.verticalScrollBar()
        bar.setValue(bar.value() + self._distance_outside())
        self._extend()

    def _clear_except(self, kept: TextView | None) -> None:
        for view in self._texts():
            if view is not kept and view.textCursor().hasSelection():
                _select(view, 0, 0)


def selection_around(widget: QWidget) -> TextSelection | None:
    """The selection of the transcript that ``widget`` stands in, if any."""
    parent = widget.parentWidget()
    while parent is not None:
        found = getattr(parent, "selection", None)
        if isinstance(found, TextSelection):
            return found
        parent = parent.parentWidget()
    return None


def mime_data(parts: Sequence[tuple[QTextCursor, bool]]) -> QMimeData:
    """What cursors have selected, as plain and as rich text; with each whether it goes on in the one before."""
    data = QMimeData()
    data.setText(_joined([(selected_text(cursor), is_following) for cursor, is_following in parts], "\n\n"))
    rich = [(QTextDocumentFragment(cursor).toHtml(), is_following) for cursor, is_following in parts]
    data.setData("text/html", _joined(rich, "<br>").encode("utf-8"))
    return data


def _joined(parts: Sequence[tuple[str, bool]], between: str) -> str:
    """The texts, with ``between`` before each but the first one and those that go on in the one before."""
    text = ""
    for index, (part, is_following) in enumerate(parts):
        text += ("\n" if is_following and index else between if index else "") + part
    return text


def selected_text(cursor: QTextCursor) -> str:
    """The plain text that a cursor has selected, with formulas as their source."""
    from app.chat.maths_text import SOURCE, fragments

    start, end = cursor.selectionStart(), cursor.selectionEnd()
    parts: list[str] = []
    block = cursor.document().findBlock(start)
    while block.isValid() and block.position() < end:
        line: list[str] = []
        for fragment in fragments(block):
            first, last = max(start, fragment.position()), min(end, fragment.position() + fragment.length())
            if first < last:
                source = fragment.charFormat().property(SOURCE)
                text = fragment.text()[first - fragment.position() : last - fragment.position()]
                line.append(str(source) * len(text) if fragment.charFormat().isImageFormat() and source else text)
        parts.append("".join(line))
        block = block.next()
    return "\n".join(parts).replace("\u2028", "\n").replace("\u200b", "")


def _markdown(view: TextView) -> str:
    return view.selected_markdown() or QTextDocumentFragment(view.selected_cursor()).toMarkdown().strip()


def _without_head(table: str) -> str:
    """The rows of a table that go on in another: Qt takes the first one for a head, and draws a line below it."""
    lines = table.split("\n")
    return "\n".join(line for index, line in enumerate(lines) if index != 1 or set(line) - set("|-:"))


def _end(view: TextView) -> int:
    return max(0, view.document().characterCount() - 1)


def _select(view: TextView, start: int, end: int) -> None:
    cursor = view.textCursor()
    if (cursor.anchor(), cursor.position()) == (start, end):
        return
    cursor.setPosition(start)
    cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
