"""Formulas as images: LaTeX is set by ziamath on a thread of its own, and kept by source, size and colour.

A formula's source stands in its place until the image is there, and for good when it cannot be set. Setting one
takes 10 to 60 ms of pure Python, too long for the GUI thread; nothing is fetched and no font but ziamath's is read.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from PySide6.QtCore import QByteArray, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from app.tasks import TaskRunner
from engine.plain_data import dataclass

MAX_CHARACTERS = 2000
_MAX_KEPT = 400
_MAX_SIDE_PX = 4000
_VIEW_BOX = re.compile(r'<svg[^>]*?width="([\d.]+)" height="([\d.]+)" viewBox="([-\d.]+) ([-\d.]+) ')


@dataclass(frozen=True)
class Formula:
    """What to set.

    Attributes:
        source: LaTeX without its delimiters.
        is_display: on a line of its own, with large operators.
        font_px: height of the text around it.
        colour: "#rrggbb".
        pixel_ratio: of the screen.
    """

    source: str
    is_display: bool
    font_px: float
    colour: str
    pixel_ratio: float


@dataclass(frozen=True)
class FormulaImage:
    """A formula that was set; lengths in logical pixels."""

    image: QImage
    ascent: float
    depth: float

    @property
    def width(self) -> float:
        return self.image.width() / self.image.devicePixelRatio()


class FormulaSetter(QObject):
    """Sets formulas beside the GUI thread.

    Signals:
        was_set(Formula): its image is there now.
    """

    was_set = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runner: TaskRunner | None = None
        self._images: OrderedDict[Formula, FormulaImage | None] = OrderedDict()

    def image(self, formula: Formula) -> FormulaImage | None:
        """The formula's image; None while it is not there, or when it cannot be set."""
        if formula in self._images:
            self._images.move_to_end(formula)
            return self._images[formula]
        self._images[formula] = None
        while len(self._images) > _MAX_KEPT:
            self._images.popitem(last=False)
        if len(formula.source) <= MAX_CHARACTERS:
            if self._runner is None:
                self._runner = TaskRunner("formulas", self)
            self._runner.run(lambda: set_formula(formula), lambda result: self._on_set(formula, result))
        return None

    def close(self) -> None:
        """End the thread."""
        if self._runner is not None:
            self._runner.close(1.0)

    def _on_set(self, formula: Formula, result: FormulaImage | None) -> None:
        if result is not None:
            self._images[formula] = result
            self.was_set.emit(formula)


def set_formula(formula: Formula) -> FormulaImage | None:
    """Set a formula; None when it is no LaTeX that can be set. Callable on any thread."""
    from ziamath.config import config  # takes 0.3 s, which only a chat with maths should wait for
    from ziamath.zmath import Latex

    config.svg2 = False  # Qt draws no symbols, only paths
    try:
        latex = Latex(
            formula.source.strip(), size=formula.font_px, color=formula.colour, inline=not formula.is_display
        )
        svg = latex.svg()
    except Exception:  # a library that meets any text a model writes: whatever it raises, the text is shown instead
        return None
    found = _VIEW_BOX.match(svg)
    if found is None:
        return None
    width, height, _, top = (float(number) for number in found.groups())
    if not (0 < width < _MAX_SIDE_PX and 0 < height < _MAX_SIDE_PX):
        return None
    return FormulaImage(_painted(svg, width, height, formula.pixel_ratio), -top, height + top)


def _painted(svg: str, width: float, height: float, pixel_ratio: float) -> QImage:
    renderer = QSvgRenderer(QByteArray(svg.encode("utf-8")))
    size = QSize(max(1, round(width * pixel_ratio)), max(1, round(height * pixel_ratio)))
    image = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    renderer.render(painter, QRectF(0, 0, size.width(), size.height()))
    painter.end()
    image.setDevicePixelRatio(pixel_ratio)
    return image
