"""A thin bar in three parts: what was reused, what is fresh, what is free."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme import Theme


class Meter(QWidget):
    """Shares of a whole, from 0 to 1."""

    def __init__(self, theme: Theme, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._reused = 0.0
        self._used = 0.0
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.updateGeometry)

    def set_shares(self, reused: float, used: float) -> None:
        """``used`` includes ``reused``."""
        self._used = min(max(used, 0.0), 1.0)
        self._reused = min(max(reused, 0.0), self._used)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._theme.px(120), self._theme.px(6))

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect())
        shape = QPainterPath()
        shape.addRoundedRect(box, box.height() / 2, box.height() / 2)
        painter.setClipPath(shape)
        painter.fillRect(box, self._theme.colour("track"))
        painter.setPen(Qt.PenStyle.NoPen)
        reused = box.width() * self._reused
        fresh = box.width() * (self._used - self._reused)
        if self._used > self._reused:
            fresh = max(fresh, box.height() / 2)  # a few tokens are still seen
        painter.fillRect(QRectF(0, 0, reused + fresh, box.height()), self._theme.colour("accent"))
        painter.fillRect(QRectF(0, 0, reused, box.height()), self._theme.colour("muted"))
        painter.end()
