"""The pauses of a GUI thread, seen from within."""

from __future__ import annotations

import time

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QWidget


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


class FrameWatch(Watchdog):
    """A watchdog that tells the turns in which a window was painted.

    Attributes:
        frames_ms: how long the thread computed in each of them, with what led to the picture.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__()
        self.frames_ms: list[float] = []
        self._is_painted = False
        window.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        self._is_painted = self._is_painted or event.type() == QEvent.Type.UpdateRequest
        return False

    def _tick(self) -> None:
        super()._tick()
        if self._is_painted:
            self.frames_ms.append(self.works_ms[-1])
            self._is_painted = False
