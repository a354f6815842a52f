"""Worker processes as the session sees them: a request out, an answer back, and never a hang or an orphan."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from types import TracebackType
from typing import IO, Any

import psutil

from engine.errors import EngineError

TIMEOUT_S = 900.0
_CLOSE_S = 5.0


def with_bytecode() -> dict[str, str]:
    """This process's environment, but Python keeps the bytecode of its modules, as it does on a person's machine.

    Where it may not write any, as in many containers, each start compiles all modules: 0.3 s that are no figure of
    ours.
    """
    environment = dict(os.environ)
    if environment.pop("PYTHONDONTWRITEBYTECODE", None):
        environment.setdefault("PYTHONPYCACHEPREFIX", os.path.join(tempfile.gettempdir(), "fireside-bytecode"))
    return environment


class WorkerProcess:
    """``python -m engine.bench.worker`` with one engine in it. Used from one thread; a context manager.

    Attributes:
        name: of the engine, for messages.
    """

    def __init__(self, name: str, arguments: dict[str, Any], environment: dict[str, str] | None = None) -> None:
        """Start it with ``arguments`` for ``worker.serve``; ``environment`` is added to this process's own."""
        self.name = name
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.bench.worker", json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=with_bytecode() | (environment or {}),
        )
        self._answers: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, request: str, **arguments: Any) -> Any:
        """Send one request and wait for its result. Raises EngineError when the worker fails, dies or hangs."""
        assert self._process.stdin is not None
        line = json.dumps({"request": request, "arguments": arguments}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError as error:
            raise EngineError(self._obituary()) from error
        return self.receive()[1]

    def receive(self) -> tuple[float, Any]:
        """The next result and the ``time.perf_counter()`` at which it came. Raises EngineError like ``ask``."""
        try:
            arrived, line = self._answers.get(timeout=TIMEOUT_S)
        except queue.Empty:
            raise EngineError(f"{self.name} did not answer within {TIMEOUT_S / 60:.0f} minutes.") from None
        if not line:
            raise EngineError(self._obituary())
        answer = json.loads(line)
        if "error" in answer:
            raise EngineError(f"{self.name}: {answer['error']}")
        return arrived, answer["result"]

    def cpu_seconds(self) -> float:
        """Processor time that the worker has used so far."""
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)

    def close(self) -> None:
        """End the process: by closing its input, else by force."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put((time.perf_counter(), line))
        self._answers.put((time.perf_counter(), b""))

    def _obituary(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"{self.name}: the process ended with code {code}" + (f" ({lines[-1]})." if lines else ".")
