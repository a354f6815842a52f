"""What passes between two steps of the kernels while answers are written: our engine as the app runs it.

Sampling, scheduling, the KV cache's books, text and events: all that time the other cores wait. Where steps follow
each other inside the kernels each of them counts, and what passes between two is shared by them.
"""

from __future__ import annotations

import itertools
import queue
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from engine.bench.chat_run import PARAGRAPH, TIMEOUT_S
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.loader import LoadedModel, OnProgress, load_model
from engine.protocol import (
    Delta,
    Event,
    GenerateRequest,
    LoadModel,
    ModelLoaded,
    ModelLoadFailed,
    RequestFailed,
    RequestFinished,
    SamplingParams,
)
from engine.terminal.session import failure_of
from engine.thread import EngineThread, Load

CASES: Final[tuple[tuple[str, SamplingParams, int], ...]] = (
    ("greedy", SamplingParams(temperature=0), 1),
    ("as the app samples", SamplingParams(), 1),
    ("with penalties", SamplingParams(repeat_penalty=1.1, presence_penalty=0.1), 1),
    ("eight at once", SamplingParams(), 8),
)
_ENDS = (RequestFinished, RequestFailed, ModelLoaded, ModelLoadFailed)


def measure_between_steps(
    path: Path, num_threads: int, num_tokens: int, load: Load = load_model
) -> list[dict[str, Any]]:
    """Medians of each case: seconds between two steps, and of a step. Raises EngineError without the model.

    A case is left out where its answers end too soon.
    """
    watch = _Watch(load)
    thread = EngineThread(watch.on_event, EngineConfig(num_threads=num_threads), load=watch.load)
    thread.start()
    try:
        thread.submit(LoadModel(path))
        watch.wait()
        watch.ask(
            thread.submit, SamplingParams(temperature=0), 1, 4
        )  # kernels and pages that the first one waits for
        cases = [(label, watch.ask(thread.submit, params, count, num_tokens)) for label, params, count in CASES]
    finally:
        thread.stop()
    return [{"label": label, "between_s": times[0], "step_s": times[1]} for label, times in cases if times]


class _Watch:
    """Looks at the clock and at the backend's counters whenever text comes, on the engine's own thread."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._backend: Any = None
        self._ended: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._begun: set[str] = set()
        self._num_streams = 0
        self._marks: list[tuple[float, int, float]] = []  # time, steps so far, seconds in them

    def load(self, command: LoadModel, config: EngineConfig, on_progress: OnProgress) -> LoadedModel:
        """Load the model and keep hold of its backend."""
        model = self._load(command, config, on_progress)
        self._backend = model.backend
        return model

    def on_event(self, event: Event) -> None:
        """Take the time, where all answers are being written and a step has passed."""
        if isinstance(event, Delta):
            self._begun.add(event.request_id)
            num_steps, step_seconds = self._backend.steps
            is_new = not self._marks or self._marks[-1][1] != num_steps
            if len(self._begun) == self._num_streams and is_new:
                self._marks.append((time.perf_counter(), num_steps, step_seconds))
        elif isinstance(event, _ENDS):
            self._num_streams = 0  # the others are fewer now
            self._ended.put(event)

    def wait(self) -> None:
        """Until the load or an answer has ended. Raises EngineError where it failed."""
        event = self._ended.get(timeout=TIMEOUT_S)
        if isinstance(event, RequestFailed):
            raise EngineError(failure_of(event, "The benchmark needs", "choose a model that holds more"))
        if isinstance(event, ModelLoadFailed):
            raise EngineError(event.message)

    def ask(
        self, submit: Callable[[GenerateRequest], None], sampling: SamplingParams, num_streams: int, num_tokens: int
    ) -> tuple[float, float] | None:
        """Median seconds between two steps, and of a step; None where there were no two."""
        self._begun.clear()
        self._marks.clear()
        self._num_streams = num_streams
        for index in range(num_streams):  # of the same prompt, so that they begin at once
            params = replace(sampling, seed=index)
            submit(GenerateRequest(str(index), prompt=PARAGRAPH, sampling=params, max_tokens=num_tokens))
        for _ in range(num_streams):
            self.wait()
        between, steps = [], []
        for (begun, before, busy), (ended, after, busy_after) in itertools.pairwise(self._marks):
            steps.append((busy_after - busy) / (after - before))
            between.append((ended - begun) / (after - before) - steps[-1])
        return (statistics.median(between), statistics.median(steps)) if steps else None
