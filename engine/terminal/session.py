"""A conversation with the engine thread, one event after the other, for a program that has nothing else to do."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from engine.config import EngineConfig
from engine.errors import EngineError
from engine.protocol import (
    AbortRequest,
    Command,
    Event,
    GenerateRequest,
    LoadModel,
    ModelInfo,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    Notice,
    RequestFailed,
    RequestFinished,
)
from engine.terminal.output import Output
from engine.thread import EngineThread

GIVE_CONTEXT = "shorten it, or give a larger --context"
"""What may be done about a prompt that is too long."""
POLL_S = 0.1  # a wait with an end lets Ctrl+C through on every system


def failure_of(event: RequestFailed, needs: str, remedy: str) -> str:
    """Why a request failed. Where it is too long that is said of what was asked for, ``needs``, with its remedy."""
    overflow = event.overflow
    if overflow is None:
        return event.message
    return f"{needs} {overflow.count} tokens but the context holds {overflow.context_length:,}; {remedy}."


class Session:
    """An engine thread with a loaded model. A context manager.

    Attributes:
        info: of the loaded model.
    """

    def __init__(self, path: Path, config: EngineConfig, output: Output) -> None:
        """Load the model, showing progress. Raises EngineError with the sentence of a load that fails."""
        self._events: queue.Queue[Event] = queue.Queue()
        self._output = output
        self._thread = EngineThread(self._events.put, config)
        self._thread.start()
        try:
            self.info = self._load(path)
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.stop()

    def generate(self, request: GenerateRequest) -> Iterator[Event]:
        """Events of the request to its end, which is the last one; a failure is an event, too."""
        self._thread.submit(request)
        while True:
            event = self._next()
            if getattr(event, "request_id", None) == request.request_id:
                yield event
                if isinstance(event, RequestFinished | RequestFailed):
                    return
            elif isinstance(event, Notice):
                self._output.note(event.message)

    def submit(self, command: Command) -> None:
        """Hand a command to the engine; what comes of it is for ``next_event``."""
        self._thread.submit(command)

    def next_event(self) -> Event:
        """Wait for the next event."""
        return self._next()

    def abort(self, request_id: str) -> None:
        """Stop a request; ``generate`` goes on to its last event. May be called from a signal handler."""
        self._thread.submit(AbortRequest(request_id))

    def _load(self, path: Path) -> ModelInfo:
        self._thread.submit(LoadModel(path))
        while True:
            event = self._next()
            if isinstance(event, ModelLoading):
                self._output.progress(f"{event.message} ... {event.fraction:.0%}")
            elif isinstance(event, ModelLoaded):
                self._output.end_progress()
                return event.info
            elif isinstance(event, ModelLoadFailed):
                self._output.end_progress()
                raise EngineError(event.message)

    def _next(self) -> Event:
        while True:
            try:
                return self._events.get(timeout=POLL_S)
            except queue.Empty:
                continue
