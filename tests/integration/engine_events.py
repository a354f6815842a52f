"""An engine thread with an inbox for its events, for tests."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from engine import EngineConfig, EngineThread
from engine.protocol import Channel, Command, Delta, Event, RequestFailed, RequestFinished

E = TypeVar("E")
WAIT_S = 300.0  # for a busy machine; kernels may have to be compiled first, too


class EventLog:
    """Collects events and waits for those that are wanted.

    Attributes:
        on_event: called with each event on the engine's thread, which waits for it.
    """

    def __init__(self) -> None:
        self.on_event: Callable[[Event], object] = lambda event: None
        self.events: list[Event] = []
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.thread: EngineThread

    def put(self, event: Event) -> None:
        self._queue.put(event)
        self.on_event(event)

    def submit(self, *commands: Command) -> None:
        for command in commands:
            self.thread.submit(command)

    def wait(self, kind: type[E], timeout_s: float = WAIT_S, where: Callable[[E], bool] = lambda event: True) -> E:
        """The next event of a kind; those before it are collected."""
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            assert left > 0, f"no {kind.__name__} within {timeout_s} s; last events: {self.events[-5:]}"
            try:
                event = self._queue.get(timeout=left)
            except queue.Empty:
                continue
            self.events.append(event)
            if isinstance(event, kind) and where(event):
                return event

    def wait_end(self, request_id: str, timeout_s: float = WAIT_S) -> RequestFinished | RequestFailed:
        """The last event of a request."""
        done: Any = self.wait(
            (RequestFinished, RequestFailed),  # type: ignore[arg-type]
            timeout_s,
            lambda event: event.request_id == request_id,
        )
        return done  # type: ignore[no-any-return]

    def drain(self) -> None:
        while True:
            try:
                self.events.append(self._queue.get_nowait())
            except queue.Empty:
                return

    def of(self, kind: type[E], request_id: str | None = None) -> list[E]:
        return [
            event
            for event in self.events
            if isinstance(event, kind) and (request_id is None or event.request_id == request_id)  # type: ignore[attr-defined]
        ]

    def text(self, request_id: str, channel: Channel = Channel.ANSWER) -> str:
        return "".join(delta.text for delta in self.of(Delta, request_id) if delta.channel is channel)


@contextmanager
def engine_thread(
    config: EngineConfig | None = None, *, log: EventLog | None = None, **options: Any
) -> Iterator[EventLog]:
    """An engine thread that is stopped at the end, which must succeed."""
    log = log or EventLog()
    log.thread = EngineThread(log.put, config, **options)
    log.thread.start()
    try:
        yield log
    finally:
        assert log.thread.stop(WAIT_S), "the engine thread ends when told to"
        log.drain()
