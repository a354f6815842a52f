"""Widgets one below the other, each as high as it must be at the width that it is given."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QWidget


class GrowingColumn(QWidget):
    """A column of widgets, of which the last ones grow.

    Unlike Qt's layouts it can be told to place everything at once, before the next picture, asks none for its
    height that has not changed, and never squeezes the others into a height that is not true any more.
    """

    def __init__(self, spacing: int = 0, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._items: list[QWidget] = []
        self._spaces: list[int] = []  # above each item that is not the first one
        self._heights: list[int | None] = []  # of each item; None where it must be asked, 0 for what is hidden
        self._measured_width = -1  # at which they are so high
        self._total: int | None = None  # the height of the column with them; None where one must be asked
        self._num_placed = 0  # so many of the first ones stand where they must
        self._spacing = spacing
        self._top = self._bottom = 0  # room above and below
        self._height = -1  # that everything needed last
        self._num_telling = 0  # so many of the first ones have ``remeasure`` called when they need another height
        self.setAttribute(Qt.WidgetAttribute.WA_StaticContents)  # it grows below: what is above is not drawn anew
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def insert(self, index: int, widget: QWidget) -> None:
        """Take ``widget`` in at a place, counted from the top."""
        self._items.insert(index, widget)
        self._spaces.insert(index, self._spacing)
        self._heights.insert(index, None)
        self._total = None
        self._num_placed = min(self._num_placed, index)
        widget.setParent(self)
        widget.show()

    def remove(self, widget: QWidget) -> None:
        """Let ``widget`` go; it stays a child that nothing places."""
        index = self._items.index(widget)
        del self._items[index], self._spaces[index], self._heights[index]
        self._total = None
        self._num_placed = min(self._num_placed, index)

    def join(self, index: int, *, is_joined: bool) -> None:
        """Leave no room between an item and the one above it, or as much as between others."""
        space = 0 if is_joined else self._spacing
        if self._spaces[index] != space:
            self._spaces[index] = space
            self._total = None
            self._num_placed = min(self._num_placed, index)

    def forget(self, first: int = 0) -> None:
        """Ask the widgets from ``first`` on for their heights again when these are needed."""
        self._heights[first:] = [None] * (len(self._items) - first)
        self._total = None
        self._num_placed = min(self._num_placed, first)

    def remeasure(self, widget: QWidget) -> bool:
        """Ask ``widget`` for its height again; True where it is another one, of which the column's holder hears."""
        if widget not in self._items:
            return False
        index = self._items.index(widget)
        if self._heights[index] == height_at(widget, self._measured_width):
            return False
        self.forget(index)
        self.updateGeometry()
        return True

    def settle(self, changed: QWidget | None = None) -> None:
        """Take the height that everything needs, and place it now; ``changed`` may have another one than before."""
        if changed is not None and changed in self._items:
            index = self._items.index(changed)
            self._heights[index] = self._total = None
            self._num_placed = min(self._num_placed, index)
        height = self.heightForWidth(self.width())
        if height != self._height:
            self._height = height
            self._take_height(height)
        self._place()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        """The height of all that is shown, with the room around it."""
        inner = self._span(width)[1]
        if inner != self._measured_width:
            self._measured_width = inner
            self.forget()
        if self._total is not None:
            return self._total
        total, is_first = 0, True
        for index, height in enumerate(self._heights):
            if height is None:
                height = self._heights[index] = height_at(self._items[index], inner)
            if height:
                total += height if is_first else self._spaces[index] + height
                is_first = False
        self._total = self._top + total + self._bottom
        return self._total

    def _span(self, width: int) -> tuple[int, int]:
        """Where the widgets begin, and how wide they are, in a column of ``width`` pixels."""
        return 0, width

    def _take_height(self, _height: int) -> None:
        """The column needs another height than before: whoever holds it hears of that."""
        self.updateGeometry()

    def _place(self) -> None:
        """Give every widget its place that does not stand there yet."""
        left, width = self._span(self.width())
        if width != self._measured_width or self._total is None:
            self.heightForWidth(self.width())
            self._num_placed = 0
        first, self._num_placed = self._num_placed, len(self._items)
        if first == len(self._items):
            return
        bottom = 0  # of the last one that is shown
        for index, height in enumerate(self._heights[:first]):
            if height:
                bottom = (bottom + self._spaces[index] if bottom else self._top) + height
        for index, height in enumerate(self._heights[first:], first):
            if height:
                widget, top = self._items[index], bottom + self._spaces[index] if bottom else self._top
                if widget.geometry().getRect() != (left, top, width, height):
                    widget.setGeometry(left, top, width, height)
                bottom = top + height

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.forget(self._num_telling)  # whoever asked for it, Qt does not say
            self.settle()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.settle()


def height_at(widget: QWidget, width: int) -> int:
    """How high ``widget`` must be at a width; 0 while it is hidden."""
    if widget.isHidden():
        return 0
    height = widget.heightForWidth(width) if widget.hasHeightForWidth() else widget.sizeHint().height()
    return max(1, min(max(height, widget.minimumHeight()), widget.maximumHeight()))
