"""Loads run beside the engine thread, so that a stop during one is heard at once.

One load at a time: a load that was cancelled ends at its next progress report, and only then the next one begins,
so that two models are never in memory together. Messages go to the engine thread's queue, where all methods are
called.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.config import EngineConfig
from engine.loader import LoadedModel, OnProgress
from engine.protocol import LoadModel, LoadPhase, ModelLoading


@dataclass(frozen=True, eq=False)
class _Load:
    """One load; ``is_cancelled`` tells its thread to give up."""

    command: LoadModel
    is_cancelled: threading.Event


@dataclass(frozen=True)
class LoadProgressed:
    """Message of a load's thread: an event to pass on if the load is still wanted."""

    load: _Load
    event: ModelLoading


@dataclass(frozen=True)
class LoadEnded:
    """Last message of a load's thread: a model or an error."""

    load: _Load
    model: LoadedModel | None
    error: BaseException | None
    load_ms: float

    @property
    def command(self) -> LoadModel:
        return self.load.command


class _CancelledError(Exception):
    """Raised out of a progress report to break a load off."""


class LoadThread:
    """Runs ``load``, one at a time, and reports through ``send``."""

    def __init__(
        self,
        load: Callable[[LoadModel, EngineConfig, OnProgress], LoadedModel],
        config: EngineConfig,
        send: Callable[[LoadProgressed | LoadEnded], None],
    ) -> None:
        self._load = load
        self._config = config
        self._send = send
        self._wanted: _Load | None = None
        self._running: _Load | None = None

    @property
    def is_loading(self) -> bool:
        """Whether a load is wanted and has not ended."""
        return self._wanted is not None

    def start(self, command: LoadModel) -> None:
        """Begin a load, or note it until the cancelled one before it has ended."""
        assert self._wanted is None, "cancel the load that is wanted first"
        self._wanted = _Load(command, threading.Event())
        self._begin()

    def cancel(self) -> Path | None:
        """Give up the load that is wanted; returns its path, None when there is none."""
        load, self._wanted = self._wanted, None
        if load is None:
            return None
        load.is_cancelled.set()
        return load.command.path

    def is_current(self, message: LoadProgressed) -> bool:
        """Whether the message is of the load that is wanted."""
        return message.load is self._wanted

    def take(self, ended: LoadEnded) -> bool:
        """Note the end of a load; True when its outcome is wanted. Otherwise its model is closed."""
        self._running = None
        if ended.load is self._wanted:
            self._wanted = None
            return True
        if ended.model is not None:
            ended.model.close()
        self._begin()
        return False

    def _begin(self) -> None:
        if self._wanted is not None and self._running is None:
            self._running = self._wanted
            threading.Thread(target=self._run, args=(self._running,), name="load", daemon=True).start()

    def _run(self, load: _Load) -> None:
        """On the load's own thread."""
        started = time.perf_counter()

        def on_progress(phase: LoadPhase, fraction: float, message: str) -> None:
            if load.is_cancelled.is_set():
                raise _CancelledError
            self._send(LoadProgressed(load, ModelLoading(load.command.path, phase, fraction, message)))

        model, error = None, None
        try:
            model = self._load(load.command, self._config, on_progress)
        except BaseException as caught:
            error = caught.with_traceback(None)  # the frames would keep the half-loaded model in memory
        if model is not None and load.is_cancelled.is_set():
            model.close()
            model = None
        self._send(LoadEnded(load, model, error, 1e3 * (time.perf_counter() - started)))
