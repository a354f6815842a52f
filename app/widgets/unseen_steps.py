"""Work on what a widget shows, in short steps, of which only the last one is seen."""

from __future__ import annotations

import time
from collections.abc import Iterator

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

TURN_S = 0.012  # of work in each turn of the event loop


class UnseenSteps(QObject):
    """Goes through one piece of work at a time; the widget keeps its last picture until that is done."""

    def __init__(self, widget: QWidget, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._widget = widget
        self._steps: Iterator[None] | None = None
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_turn)

    @property
    def is_busy(self) -> bool:
        """Whether there is work left."""
        return self._steps is not None

    def begin(self, steps: Iterator[None]) -> None:
        """Take up other work; what was left of the last one is dropped. Work of one step is done at once."""
        self._steps = steps
        self._widget.setUpdatesEnabled(False)
        self._timer.start(0)
        self._step(ends=0)

    def _on_turn(self) -> None:
        self._step(ends=time.thread_time() + TURN_S)

    def _step(self, ends: float) -> None:
        steps = self._steps
        try:
            while steps is not None and self._steps is steps:
                next(steps)
                if time.thread_time() > ends:
                    return
        except StopIteration:
            self._end()
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        self._steps = None
        self._timer.stop()
        if isValid(self._widget):
            self._widget.setUpdatesEnabled(True)
