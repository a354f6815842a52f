"""The engines under test as the session uses them: each gives one sample of a test at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from engine.bench.processes import WorkerProcess
from engine.bench.results import SpeedTest
from engine.config import KVType


class TimedEngine(Protocol):
    """Gives samples; holds processes until it is closed."""

    def prepare(self, test: SpeedTest) -> None:
        """Do what must not count, such as filling the KV cache up to the test's depth."""

    def sample(self, test: SpeedTest) -> float:
        """Tokens a second in one run of the test."""
        ...

    def close(self) -> None:
        """End the processes."""


class WorkerEngine:
    """An engine in a worker process of ours.

    Attributes:
        worker: the process.
    """

    def __init__(self, worker: WorkerProcess) -> None:
        self.worker = worker
        self.worker.receive()  # it is ready

    def prepare(self, test: SpeedTest) -> None:
        if test.depth:
            self.worker.ask("fill", depth=test.depth)

    def sample(self, test: SpeedTest) -> float:
        arguments: dict[str, Any] = {"num_tokens": test.num_tokens}
        if test.kind == "decode":
            arguments["depth"] = test.depth
        elif test.kind == "streams":
            arguments["num_streams"] = test.num_streams
        seconds: float = self.worker.ask(test.kind, **arguments)
        return test.num_tokens * test.num_streams / max(seconds, 1e-9)

    def close(self) -> None:
        self.worker.close()


def open_own(
    path: Path, *, name: str, backend: str, kv_type: KVType, num_threads: int, num_tokens: int
) -> WorkerEngine:
    """Our engine with room for ``num_tokens``."""
    arguments = {"path": str(path), "backend": backend, "num_threads": num_threads, "num_tokens": num_tokens}
    return _open(name, {"task": "own", "kv_type": kv_type, **arguments})


def open_wheel(
    path: Path, *, name: str, num_threads: int, num_fill_threads: int, vocab_size: int, num_tokens: int
) -> WorkerEngine:
    """The peer of that name from its wheel; ``num_fill_threads`` fill its KV cache for deep decoding."""
    arguments = {
        "path": str(path),
        "num_threads": num_threads,
        "num_fill_threads": num_fill_threads,
        "vocab_size": vocab_size,
        "num_tokens": num_tokens,
    }
    return _open(name, {"task": name, **arguments})


def _open(name: str, arguments: dict[str, Any]) -> WorkerEngine:
    worker = WorkerProcess(name, arguments)
    try:
        return WorkerEngine(worker)
    except BaseException:
        worker.close()
        raise
