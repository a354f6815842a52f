"""Call something at most once per interval: the first time at once, later calls coalesced into the last one."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer


class Throttle(QObject):
    """Limits how often ``function`` runs; the last request is never lost.

    Attributes:
        is_pending: a call is due when the interval ends.
    """

    def __init__(self, interval_ms: int, function: Callable[[], None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._function = function
        self.is_pending = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(interval_ms)
        self._timer.timeout.connect(self._on_timeout)

    def request(self) -> None:
        """Run now, or once when the interval since the last run is over."""
        if self._timer.isActive():
            self.is_pending = True
            return
        self._timer.start()
        self._function()

    def delay(self) -> None:
        """Run once when the interval is over from now; each further call begins it anew."""
        self.is_pending = True
        self._timer.start()

    def flush(self) -> None:
        """Run now if a call is due."""
        if self.is_pending:
            self.cancel()
            self._function()

    def cancel(self) -> None:
        """Forget a call that is due."""
        self.is_pending = False
        self._timer.stop()

    def _on_timeout(self) -> None:
        if self.is_pending:
            self.is_pending = False
            self._timer.start()
            self._function()
