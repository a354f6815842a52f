"""The pauses of a GUI thread, seen from within."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, Qt, QTimer


class Watchdog(QObject):
    """Ticks every few milliseconds and remembers the pauses between two ticks.

    Attributes:
        pauses_ms: how long they were.
        works_ms: how long the thread computed in them: what a pause is on a machine that does nothing else.
    """

    def __init__(self, interval_ms: int = 2) -> None:
        super().__init__()
        self.pauses_ms: list[float] = []
        self.works_ms: list[float] = []
        self._last = time.perf_counter()
        self._last_work = time.thread_time()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self._timer.start(interval_ms)

    def _tick(self) -> None:
        now = time.perf_counter()
        work = time.thread_time()
        self.pauses_ms.append((now - self._last) * 1000)
        self.works_ms.append((work - self._last_work) * 1000)
        self._last, self._last_work = now, work

    @property
    def longest_ms(self) -> float:
        """The longest pause so far."""
        return max(self.pauses_ms, default=0.0)
