"""When Python looks for garbage: through all that there is only while nobody waits for the window.

Such a look takes some hundredths of a second and would else come in the midst of an answer, on any thread.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

EVERY_MS = 20_000
MAX_PUT_OFF = 15
"""How often in a row it may be put off, because something is being computed."""
_NEVER = 1_000_000_000


class GarbageTurns(QObject):
    """Collects what has lived for long in a turn of the event loop of its own; what is young Python sees to itself.

    ``is_busy`` says whether this is no good moment.
    """

    def __init__(self, is_busy: Callable[[], bool], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._is_busy = is_busy
        self._num_put_off = 0
        self._before = gc.get_threshold()
        gc.set_threshold(*self._before[:2], _NEVER)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_time)
        self._timer.start(EVERY_MS)

    def close(self) -> None:
        """Leave all of it to Python again."""
        self._timer.stop()
        gc.set_threshold(*self._before)

    def _on_time(self) -> None:
        if self._is_busy() and self._num_put_off < MAX_PUT_OFF:
            self._num_put_off += 1
            return
        self._num_put_off = 0
        gc.collect()
