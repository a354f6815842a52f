"""An engine that is made beside the window: importing it takes a second, and nobody should wait for that to read.

What is submitted before is kept and handed over in order.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from app.engine_client import Engine, EngineFactory
from app.translation import tr
from engine.protocol import Command, EngineStopped, Event, Notice

_log = logging.getLogger(__name__)


class LateEngine:
    """Has an engine's face from the first moment on; ``make`` is called on a thread of its own."""

    def __init__(self, make: EngineFactory, on_event: Callable[[Event], None]) -> None:
        self._make = make
        self._on_event = on_event
        self._lock = threading.Lock()
        self._waiting: list[Command] = []
        self._engine: Engine | None = None
        self._is_stopped = False
        self._thread = threading.Thread(target=self._begin, name="engine import", daemon=True)

    def start(self) -> None:
        """Make the engine and start it; returns at once."""
        self._thread.start()

    def submit(self, command: Command) -> None:
        """Hand a command to the engine as soon as there is one."""
        with self._lock:
            if self._engine is None:
                self._waiting.append(command)
            else:
                self._engine.submit(command)

    def lend_core(self, is_lent: bool) -> None:
        """Leave a core to the calling thread, or take it back; an engine that is not there yet uses none."""
        if self._engine is not None:
            self._engine.lend_core(is_lent)

    def stop(self, timeout_s: float = 5) -> bool:
        """End the engine; False when it did not end in time. One that is not there yet never begins."""
        with self._lock:
            self._is_stopped = True
            engine = self._engine
        return engine is None or engine.stop(timeout_s)

    def _begin(self) -> None:
        try:
            engine = self._make(self._on_event)
        except Exception as error:
            _log.exception("the engine cannot be started")
            self._on_event(Notice(tr("The engine cannot be started: {error}.", error=error)))
            self._on_event(EngineStopped())
            return
        with self._lock:
            if self._is_stopped:
                return
            for command in self._waiting:
                engine.submit(command)
            self._waiting.clear()
            engine.start()  # and finds what the settings say, before it deletes what it may not keep
            self._engine = engine
