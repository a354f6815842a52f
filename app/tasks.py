"""Between the GUI thread and others: a mailbox with one pending wake-up, a thread that runs tasks in order.

The one way to run work beside the GUI thread. Results arrive on the GUI thread; those of a closed runner are
dropped.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal

_log = logging.getLogger(__name__)

_LEAST_LOAN_S = 1e-3  # less work than what lending a core costs its owner


class Mailbox(QObject):
    """Hands items from any thread to ``on_items`` on the thread that made the mailbox.

    However many items are posted, at most one wake-up waits in Qt's queue, and deliveries are ``interval_ms``
    apart; after a pause the first item is delivered at once. With a ``share`` they are so much further apart, up to
    ``max_interval_ms``, that what the thread computes from one to the next, pictures and all, takes no more than
    that share of the time.

    ``lend_core(True)`` is called before a delivery that may take long, and ``lend_core(False)`` once what comes of
    it is painted: whoever keeps all cores busy can leave this thread one meanwhile.
    """

    _woken = Signal()

    def __init__(
        self,
        on_items: Callable[[list[Any]], None],
        interval_ms: int = 0,
        parent: QObject | None = None,
        *,
        share: float = 1.0,
        max_interval_ms: int = 0,
        lend_core: Callable[[bool], None] = lambda is_lent: None,
    ) -> None:
        super().__init__(parent)
        self._on_items = on_items
        self._least_s = self._interval_s = interval_ms / 1000
        self._most_s = max(interval_ms, max_interval_ms) / 1000
        self._share = share
        self._lend_core = lend_core
        self._last_work_s = time.thread_time()  # processor time of the thread at the last delivery
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_pending = False
        self._is_closed = False
        self._last_delivery = float("-inf")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._deliver_in_turn)
        self._over = QTimer(self)  # behind the picture of what was delivered, which Qt paints in the same turn
        self._over.setSingleShot(True)
        self._over.timeout.connect(self._return_core)
        self._woken.connect(self._arm, Qt.ConnectionType.QueuedConnection)

    def set_pace(self, interval_ms: int, share: float) -> None:
        """Deliver as often, and take as much of the time, from now on."""
        self._least_s, self._share = interval_ms / 1000, share
        self._interval_s = self._least_s

    def post(self, item: Any) -> None:
        """Add an item; callable from any thread, never waits."""
        self._items.put(item)
        with self._lock:
            if self._is_pending or self._is_closed:
                return
            self._is_pending = True
            self._woken.emit()

    def deliver(self) -> None:
        """Hand over what is there now, without waiting for the wake-up."""
        with self._lock:
            self._is_pending = False
        self._timer.stop()
        items = []
        with contextlib.suppress(queue.Empty):
            while True:
                items.append(self._items.get_nowait())
        if items:
            self._last_delivery = time.monotonic()
            work_s = time.thread_time()
            wanted_s = (work_s - self._last_work_s) / self._share
            self._interval_s = min(max(self._least_s, wanted_s), self._most_s)
            self._last_work_s = work_s
            self._on_items(items)

    def close(self) -> None:
        """Wake nobody any more; items can still be taken with ``deliver``."""
        with self._lock:
            self._is_closed = True
        self._timer.stop()

    def _arm(self) -> None:
        remaining_s = self._interval_s - (time.monotonic() - self._last_delivery)
        if remaining_s <= 0:
            self._deliver_in_turn()
        else:
            self._timer.start(int(remaining_s * 1000) + 1)

    def _deliver_in_turn(self) -> None:
        """Deliver, with a core for this thread alone where the last time says that it takes a while."""
        if time.thread_time() - self._last_work_s > _LEAST_LOAN_S:
            self._over.start(0)
            self._lend_core(True)
        self.deliver()

    def _return_core(self) -> None:
        self._lend_core(False)


class TaskRunner(QObject):
    """One background thread that runs tasks in the order in which they were submitted."""

    def __init__(self, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tasks: queue.SimpleQueue[tuple[Callable[[], Any], Any, Any] | None] = queue.SimpleQueue()
        self._results = Mailbox(self._on_results, parent=self)
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(
        self,
        work: Callable[[], Any],
        on_done: Callable[[Any], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Run ``work`` on the thread, then ``on_done(result)`` or ``on_error(exception)`` on the GUI thread.

        Raises RuntimeError when the runner is closed. Without ``on_error`` an exception is logged.
        """
        if self._is_closed:
            raise RuntimeError(f"the task runner {self._thread.name} is closed")
        self._tasks.put((work, on_done, on_error))

    def post(self, callback: Callable[[Any], None], value: Any) -> None:
        """From within a task: call ``callback(value)`` on the GUI thread."""
        self._results.post((callback, value))

    def close(self, timeout_s: float) -> bool:
        """Finish what was submitted; False when that takes longer than ``timeout_s``. Results are dropped."""
        if not self._is_closed:
            self._is_closed = True
            self._results.close()
            self._tasks.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            work, on_done, on_error = task
            try:
                result = work()
            except Exception as error:
                if on_error is None:
                    _log.exception("a task failed in %s", self._thread.name)
                else:
                    self._results.post((on_error, error))
            else:
                if on_done is not None:
                    self._results.post((on_done, result))

    def _on_results(self, results: list[tuple[Callable[[Any], None], Any]]) -> None:
        for callback, value in results:
            try:
                callback(value)
            except Exception:  # one that fails keeps no other from its result
                sys.excepthook(*sys.exc_info())
