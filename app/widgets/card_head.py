"""The head of a card: its title, and its buttons beside it or, where they have no room, below it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QWidget

from app.theme import Theme
from app.widgets.buttons import LookButton
from app.widgets.flow_layout import FlowLayout
from app.widgets.label import ElidingLabel, Label

_SPACING_PX, _BUTTONS_PX = 10, 6
_ELIDED_PX = 120  # of a title that may be cut


class CardHead(QWidget):
    """Title and buttons; no button is ever cut off, and of a title that may be cut there is always some."""

    def __init__(self, theme: Theme, title: Label, buttons: Sequence[LookButton]) -> None:
        super().__init__()
        self._theme = theme
        self._title = title
        self._is_eliding = isinstance(title, ElidingLabel)
        self._buttons = FlowLayout(theme.px(_BUTTONS_PX), align_right=True)
        for button in buttons:
            self._buttons.addWidget(button)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.addWidget(title, int(self._is_eliding))
        self._row.addLayout(self._buttons, int(not self._is_eliding))
        self.setMinimumWidth(1)  # else it would ask for what it has beside each other
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def _fit_width(self) -> None:
        if self._is_eliding:
            needed = self._theme.px(_ELIDED_PX) + self._buttons.sizeHint().width()
        else:
            words = self._title.fontMetrics().horizontalAdvance(self._title.text())
            needed = words + self._buttons.minimumSize().width()
        is_wide = needed + self._row.spacing() <= self.width()
        directions = QBoxLayout.Direction
        self._row.setDirection(directions.LeftToRight if is_wide else directions.TopToBottom)
        self._buttons.set_align_right(is_wide)
        self._title.setWordWrap(not is_wide and not self._is_eliding)

    def _apply_metrics(self) -> None:
        self._row.setSpacing(self._theme.px(_SPACING_PX))
        self._buttons.setSpacing(self._theme.px(_BUTTONS_PX))
        self._fit_width()
