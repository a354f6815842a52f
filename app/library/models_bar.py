"""What the models page has in its bar: ways to its parts, and this machine's facts."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.library.machine import MachineFacts
from app.sizes import size_text
from app.theme import Theme
from app.translation import localised, tr
from app.widgets.buttons import TextButton
from app.widgets.label import ElidingLabel

_NARROW_PX = 560  # below this the facts have no room beside the ways


class ModelsBar(QWidget):
    """Stands beside the page's title.

    Signals:
        here_requested, search_requested, downloads_requested: show this part.
    """

    here_requested = Signal()
    search_requested = Signal()
    downloads_requested = Signal()

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.setMinimumWidth(1)  # a window may be narrower than all this
        here = TextButton(theme, tr("On this machine"))
        here.clicked.connect(self.here_requested)
        find = TextButton(theme, tr("Find"))
        find.clicked.connect(self.search_requested)
        self._ways = (find, here)  # that which goes first, first
        self._num_downloads = 0
        self._downloads = TextButton(theme, "")
        self._downloads.clicked.connect(self.downloads_requested)
        self._downloads.hide()
        self._machine = ElidingLabel("", "muted")
        self._machine.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._row = QHBoxLayout(self)
        for button in (here, find, self._downloads):
            self._row.addWidget(button)
        self._row.addWidget(self._machine, 1)
        self._row.addStretch()  # for when the words of the machine have no room
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    @property
    def facts(self) -> str:
        """This machine in words."""
        return self._machine.whole_text

    def show_machine(self, facts: MachineFacts) -> None:
        """Say what this machine has."""
        parts = [tr("{size} memory", size=size_text(facts.memory))]
        if facts.bandwidth:
            parts.append(tr("{rate} GB/s measured", rate=localised(f"{facts.bandwidth / 1e9:.0f}")))
        parts.append(tr("{size} disk free", size=size_text(facts.disk_free)))
        self._machine.set_whole_text(" · ".join(parts))

    def show_downloads(self, count: int) -> None:
        """Say how many downloads there are."""
        self._downloads.setText(tr("Downloads ({count})", count=count))
        self._num_downloads = count
        self._fit_width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def _fit_width(self) -> None:
        """The way to the downloads is the last to go: the search field is in sight, the others a scroll away."""
        self._downloads.setVisible(self._num_downloads > 0)
        room = self.width() - (self._downloads.sizeHint().width() if self._num_downloads else 0)
        for button in reversed(self._ways):
            room -= button.sizeHint().width() + self._row.spacing()
            button.setVisible(room >= 0)
        self._machine.setVisible(self.width() >= self._theme.px(_NARROW_PX))

    def _apply_metrics(self) -> None:
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(self._theme.px(4))
