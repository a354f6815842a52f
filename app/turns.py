"""Work in pieces, one in each turn of the event loop, so that keys and pictures come in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, QTimer


class Turns(QObject):
    """Does ``steps`` one after the other, the first one in the next turn; deleted with its parent or at the end.

    A step that gives True is done again in the turn after; one that fails is not.
    """

    def __init__(self, steps: Iterable[Callable[[], object]], parent: QObject) -> None:
        super().__init__(parent)
        self._steps = deque(steps)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_turn)
        self._timer.start(0)

    def _on_turn(self) -> None:
        if not self._steps:
            self._timer.stop()
            self.deleteLater()
            return
        step = self._steps.popleft()
        if step() is True:
            self._steps.appendleft(step)
