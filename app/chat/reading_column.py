"""The column in which the messages stand, and where in it a person reads, in a form that outlives the widgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QMargins, QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from engine.plain_data import dataclass

if TYPE_CHECKING:
    from app.chat.message_view import MessageWidget

COLUMN_PX = 760


class ReadingColumn(QWidget):
    """Holds the messages. Its height follows from its width; it is never asked for that of another one.

    Attributes:
        messages: the layout that holds their widgets.
    """

    def __init__(self) -> None:
        super().__init__()
        self.messages = QVBoxLayout()
        self.messages.setSpacing(0)
        self._outer = QVBoxLayout(self)
        self._outer.setSpacing(0)
        self._outer.addLayout(self.messages)
        self._outer.addStretch(1)

    def activate(self) -> None:
        """Lay out now what is due."""
        self.messages.activate()
        self._outer.activate()

    def fit(self, width: int, bar_width: int, px: Callable[[float], int]) -> None:
        """Stand in the middle of ``width`` pixels, as wide as a line reads well, narrower where the window is.

        A scroll bar of ``bar_width`` stands in the right margin, so that it moves no text when it appears.
        """
        left = max(px(24), (width - px(COLUMN_PX)) // 2)
        right = max(px(24), width - px(COLUMN_PX) - left)
        margins = QMargins(left, px(28), right - bar_width, px(12))
        if margins != self._outer.contentsMargins():
            self._outer.setContentsMargins(margins)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def sizeHint(self) -> QSize:
        return self.size()


class Centred(QWidget):
    """Holds one widget in the middle, no wider than it reads well."""

    def __init__(self, inner: QWidget) -> None:
        super().__init__()
        self._max_width = 0
        self._margin = 0
        self._row = QHBoxLayout(self)
        self._row.addWidget(inner)

    def set_metrics(self, max_width: int, margin: int) -> None:
        """How wide the inner widget may be, and its least distance from the sides."""
        self._max_width, self._margin = max_width, margin
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        left = max(self._margin, (self.width() - self._max_width) // 2)
        self._row.setContentsMargins(left, 0, max(self._margin, self.width() - self._max_width - left), 0)


@dataclass(frozen=True)
class ReadingPlace:
    """The message at the upper edge of the view.

    Attributes:
        message_id: which one.
        share: of its height that lies above the edge; negative where the edge is above it.
    """

    message_id: str
    share: float

    def offset_in(self, widget: MessageWidget) -> int:
        """Pixels from the column's top to the edge, while ``widget`` shows the message."""
        return widget.y() + round(self.share * widget.height())


def reading_place(widgets: Sequence[MessageWidget], value: int) -> ReadingPlace | None:
    """The place while the view begins ``value`` pixels below the top of the column that holds ``widgets``."""
    for widget in widgets:
        if widget.geometry().bottom() >= value:
            return ReadingPlace(widget.message_id, (value - widget.y()) / max(1, widget.height()))
    return None
