"""The column in which the messages stand, and where in it a person reads, in a form that outlives the widgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.theme import Theme
from app.widgets.growing_column import GrowingColumn
from engine.plain_data import dataclass

if TYPE_CHECKING:
    from app.chat.message_view import MessageWidget

COLUMN_PX = 760


class ReadingColumn(GrowingColumn):
    """Holds the messages, in the middle of a scroll area whose width alone says how wide they are.

    It paints the transcript's ground itself, every pixel: so what is scrolled is moved on the screen, not drawn
    anew.
    """

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._fitted = (0, 0)  # where the messages begin, and how wide they are
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def fit(self, area_width: int) -> None:
        """Stand in the middle of ``area_width`` pixels, as wide as a line reads well, narrower where the window is.

        The scroll bar stands in the right margin, so that it moves no text when it appears.
        """
        px = self._theme.px
        left = max(px(24), (area_width - px(COLUMN_PX)) // 2)
        right = max(px(24), area_width - px(COLUMN_PX) - left)
        self._top, self._bottom = px(28), px(12)
        self._fitted = (left, area_width - left - right)
        self.forget()
        self.settle()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.settle()  # each message has said by itself whether it is as high as before
            return True
        return super().event(event)

    def _span(self, _width: int) -> tuple[int, int]:
        return self._fitted

    def _take_height(self, height: int) -> None:
        """Grow in the same turn, so that the range of the scroll bar is true.

        Whoever follows the end scrolls now, before anything inside takes another place: Qt then moves the picture
        that there is, and draws only what has changed.
        """
        holder = self.parentWidget()
        self.resize(self.width(), max(height, holder.height() if holder is not None else 0))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def sizeHint(self) -> QSize:
        return self.size()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.colour("background"))  # fillRect asks for the 169 gradients of Qt as an enum
        painter.drawRect(event.rect())
        painter.end()


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
