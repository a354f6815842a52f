"""Compiles kernels in processes of their own, several at a time.

Most of a compilation is numba's Python code, of which one process runs one thread at a time; and what numba takes
of memory goes with its process. The processes end when nothing was to be compiled for a while, or with this one,
also in the middle of a kernel.
Where there can be none, kernels are compiled here.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, BinaryIO, Protocol

from engine.object_files import ObjectCode

MAX_PROCESSES = 4  # each takes some 200 MB
IDLE_S = 20.0
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from engine.kernels.cpu.compile_process import serve; serve()"
)
_log = logging.getLogger(__name__)


class Source(Protocol):
    """A kernel that another process finds, too; it can be pickled."""

    def resolve(self) -> Callable[[int, int, int, int], None]:
        """The kernel's Python function."""
        ...


class CompilerPool:
    """Compiles sources, ``num_processes`` at a time, the first ones first; with one or fewer in this process."""

    def __init__(self, num_processes: int) -> None:
        self._limit = max(1, min(num_processes, MAX_PROCESSES))
        self._is_local = num_processes <= 1 or getattr(sys, "frozen", False) or not sys.executable
        self._lock = threading.Lock()
        self._tasks: queue.SimpleQueue[tuple[Source, Future[ObjectCode]]] = queue.SimpleQueue()
        self._num_threads = 0
        self._num_idle = 0

    def submit(self, source: Source) -> Future[ObjectCode]:
        """Begin to compile; the future raises what the compilation raises."""
        future: Future[ObjectCode] = Future()
        with self._lock:
            self._tasks.put((source, future))
            if self._num_threads < self._limit and self._tasks.qsize() > self._num_idle:
                self._num_threads += 1
                threading.Thread(target=self._work, name="compiler", daemon=True).start()
        return future

    def _work(self) -> None:
        """Do tasks until there were none for a while."""
        with contextlib.closing(_Process(self._is_local)) as process:
            while (task := self._next()) is not None:
                source, future = task
                try:
                    future.set_result(process.compile(source))
                except BaseException as error:
                    future.set_exception(error)

    def _next(self) -> tuple[Source, Future[ObjectCode]] | None:
        with self._lock:
            self._num_idle += 1
        try:
            return self._tasks.get(timeout=IDLE_S)
        except queue.Empty:
            with self._lock:
                if not self._tasks.empty():
                    return self._tasks.get()
                self._num_threads -= 1
            return None
        finally:
            with self._lock:
                self._num_idle -= 1


class _Process:
    """One compiling process, started when it is needed first."""

    def __init__(self, is_local: bool) -> None:
        self._is_local = is_local
        self._process: subprocess.Popen[bytes] | None = None

    def compile(self, source: Source) -> ObjectCode:
        """Symbol and object file; raises what the compilation raises."""
        if not self._is_local:
            try:
                return self._ask(source)
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                _log.warning("compiling in this process: %s", error)
                self._is_local = True
        return _compile_here(source)

    def close(self) -> None:
        """Let the process end."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.communicate()

    def _ask(self, source: Source) -> ObjectCode:
        if self._process is None:
            # -P: without it Python would look for ``json`` in the working folder, where anybody's json.py may lie.
            command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path)]
            flags = getattr(subprocess, "CREATE_NO_WINDOW", 0)
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, creationflags=flags)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _send(self._process.stdin, source)
        answer = pickle.load(self._process.stdout)
        if isinstance(answer, Exception):
            raise answer
        symbol, code = answer
        return str(symbol), bytes(code)


_here = threading.Lock()


def _compile_here(source: Source) -> ObjectCode:
    from engine.kernels.cpu.compiler import compile_function

    with _here:
        return compile_function(source.resolve())


def _send(stream: BinaryIO | Any, value: object) -> None:
    stream.write(pickle.dumps(value))
    stream.flush()


def serve() -> None:
    """In the other process: compile what comes by standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is meant for the parent
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints must not come between
    sources: queue.SimpleQueue[Source] = queue.SimpleQueue()
    threading.Thread(target=_read_sources, args=(sources,), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        while True:
            source = sources.get()
            try:
                answer: ObjectCode | Exception = _compile_here(source)
            except Exception as error:
                answer = RuntimeError(f"{type(error).__name__}: {error}")
            _send(answers, answer)


def _read_sources(sources: queue.SimpleQueue[Source]) -> None:
    """Pass on what comes, and end the process with the parent, whose kernel nobody waits for any more."""
    status = 1
    try:
        while True:
            sources.put(pickle.load(sys.stdin.buffer))
    except EOFError:
        status = 0
    finally:
        os._exit(status)
