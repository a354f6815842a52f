"""The icon set: line drawings in ``resources/icons``, recoloured on the way in and cached by colour and size."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

ICONS = Path(__file__).resolve().parents[2] / "resources" / "icons"

_PIXEL_RATIOS = (1.0, 1.25, 1.5, 2.0, 3.0)


@lru_cache(maxsize=256)
def pixmap(name: str, colour: str, size: int, pixel_ratio: float = 1.0) -> QPixmap:
    """The icon ``name`` in ``colour``, ``size`` logical pixels square and crisp at ``pixel_ratio``.

    Raises FileNotFoundError for a name that is not in the set.
    """
    renderer = _renderer(name, colour)
    side = max(1, round(size * pixel_ratio))
    image = QPixmap(QSize(side, side))
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    renderer.render(painter, QRectF(0, 0, side, side))
    painter.end()
    image.setDevicePixelRatio(pixel_ratio)
    return image


@lru_cache(maxsize=1)  # all sizes of an icon are drawn one after the other
def _renderer(name: str, colour: str) -> QSvgRenderer:
    source = (ICONS / f"{name}.svg").read_text(encoding="utf-8").replace("currentColor", colour)
    return QSvgRenderer(QByteArray(source.encode("utf-8")))


@lru_cache(maxsize=256)
def icon(name: str, colour: str, size: int = 16) -> QIcon:
    """The icon ``name`` in ``colour`` for buttons and menus, sharp on every screen."""
    result = QIcon()
    for pixel_ratio in _PIXEL_RATIOS:
        result.addPixmap(pixmap(name, colour, size, pixel_ratio))
    return result
