"""The dashed line in the transcript: what stands above it is not read by the model any more."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import Theme
from app.translation import tr


class ContextLine(QWidget):
    """A dashed line with its words in the middle."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._words = tr("above here is outside the context")
        self.setAccessibleName(tr("The messages above are outside the context: the model does not read them."))
        self.setToolTip(self.accessibleName())
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(200), self._theme.px(34))

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, px = self._theme, self._theme.px
        painter = QPainter(self)
        painter.setFont(theme.font(12))
        words = painter.fontMetrics().horizontalAdvance(self._words) + px(24)
        middle = self.height() // 2
        painter.setPen(QPen(theme.colour("outline"), 1, Qt.PenStyle.DashLine))
        left = (self.width() - words) // 2
        painter.drawLine(0, middle, left, middle)
        painter.drawLine(left + words, middle, self.width(), middle)
        painter.setPen(theme.colour("muted"))
        painter.drawText(self.rect(), int(Qt.AlignmentFlag.AlignCenter), self._words)
        painter.end()
