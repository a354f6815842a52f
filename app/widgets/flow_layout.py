"""A layout in rows, which wrap like words."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QSizePolicy, QWidget


class FlowLayout(QLayout):
    """Lays widgets out in rows, as many as their widths need.

    A widget whose horizontal policy is to ignore its hint gets the width that its row has left.
    """

    def __init__(self, spacing: int, *, align_right: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._align_right = align_right
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    def set_align_right(self, is_right: bool) -> None:
        """Let the rows end at the right, or begin at the left."""
        if is_right != self._align_right:
            self._align_right = is_right
            self.invalidate()

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), is_test=True)

    def setGeometry(self, rectangle: QRect) -> None:
        super().setGeometry(rectangle)
        self._arrange(rectangle, is_test=False)

    def sizeHint(self) -> QSize:
        items = self._shown()
        widths = [item.sizeHint().width() for item in items]
        heights = [item.sizeHint().height() for item in items]
        return QSize(sum(widths) + self.spacing() * max(0, len(widths) - 1), max(heights, default=0))

    def minimumSize(self) -> QSize:
        sizes = [item.minimumSize() for item in self._shown()]
        return QSize(
            max((size.width() for size in sizes), default=0), max((size.height() for size in sizes), default=0)
        )

    def _shown(self) -> list[QLayoutItem]:
        """What is hidden takes no room."""
        return [item for item in self._items if not item.isEmpty()]

    def _arrange(self, room: QRect, *, is_test: bool) -> int:
        """Place the items, or only measure; gives the height that they need."""
        rows: list[list[QLayoutItem]] = []
        used = 0
        for item in self._shown():
            width = item.sizeHint().width()
            if not rows or (rows[-1] and used + self.spacing() + width > room.width()):
                rows.append([])
                used = -self.spacing()
            rows[-1].append(item)
            used += self.spacing() + width
        top = room.top()
        for row in rows:
            height = max(item.sizeHint().height() for item in row)
            if not is_test:
                self._place(row, QRect(room.left(), top, room.width(), height))
            top += height + self.spacing()
        return max(0, top - self.spacing() - room.top())

    def _place(self, row: list[QLayoutItem], room: QRect) -> None:
        widths = [min(item.sizeHint().width(), room.width()) for item in row]
        for index, item in enumerate(row):
            widget = item.widget()
            if widget is not None and widget.sizePolicy().horizontalPolicy() is QSizePolicy.Policy.Ignored:
                widths[index] += room.width() - sum(widths) - self.spacing() * (len(row) - 1)
                break
        total = sum(widths) + self.spacing() * (len(row) - 1)
        left = room.right() + 1 - total if self._align_right else room.left()
        for item, width in zip(row, widths, strict=True):
            height = item.sizeHint().height()
            item.setGeometry(QRect(left, room.top() + (room.height() - height) // 2, width, height))
            left += width + self.spacing()
