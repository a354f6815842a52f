"""Margins and spacing in pixels of the design, which stay true while the size of all text is changed."""

from __future__ import annotations

from typing import TypeVar

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QLayout

from app.theme import Theme

L = TypeVar("L", bound=QLayout)
Margins = tuple[float, float, float, float]


def spaced(
    theme: Theme,
    layout: L,
    *,
    spacing: float | None = None,
    margins: Margins | None = None,
) -> L:
    """``layout`` with this spacing and margins (left, top, right, bottom), now and after each change of the zoom.

    For what is laid out once and lives on; what none is given for stays as it is.
    """
    _Spacing(theme, layout, spacing, margins)
    return layout


class _Spacing(QObject):
    """Lives as long as its layout, so that nothing is set on one that is gone."""

    def __init__(
        self,
        theme: Theme,
        layout: QLayout,
        spacing: float | None,
        margins: Margins | None,
    ) -> None:
        super().__init__(layout)
        self._theme = theme
        self._layout = layout
        self._spacing = spacing
        self._margins = margins
        theme.changed.connect(self._apply)
        self._apply()

    def _apply(self) -> None:
        px = self._theme.px
        if self._spacing is not None:
            self._layout.setSpacing(px(self._spacing))
        if self._margins is not None:
            self._layout.setContentsMargins(*(px(margin) for margin in self._margins))
