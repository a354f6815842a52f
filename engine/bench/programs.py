"""Programs of others that are run to their end: they may hang, print without end or leave children behind.

What they print goes to files, so that nothing waits for a pipe which a child of theirs keeps open.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

import psutil

MAX_OUTPUT_BYTES = 16 << 20
_POLL_S = 0.2


class ProgramError(Exception):
    """The program could not be started, or was ended; the text continues "The program ..."."""


@dataclass(frozen=True)
class Finished:
    """How a program ended.

    Attributes:
        code: its exit code, below 0 for a signal.
        output, errors: what it printed.
    """

    code: int
    output: str
    errors: str

    @property
    def failure(self) -> str:
        """How it failed, in words that follow its name, with the last line it said; empty where it did not."""
        if self.code == 0:
            return ""
        lines = self.errors.strip().splitlines()
        return f"failed with {_code_name(self.code)}" + (f": {lines[-1].strip()}" if lines else "")


def run_program(command: Sequence[str], timeout_s: float) -> Finished:
    """Run it to its end without input. Raises ProgramError; the program and its children are gone then."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        except OSError as error:
            raise ProgramError(f"cannot be run: {error.strerror or error}") from error
        try:
            _wait(process, (output, errors), timeout_s)
        finally:
            _end_tree(process)
        return Finished(process.returncode, _text(output), _text(errors))


def _wait(process: subprocess.Popen[bytes], files: Sequence[IO[bytes]], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(_POLL_S, deadline - time.monotonic())))
            return
        if sum(os.fstat(file.fileno()).st_size for file in files) > MAX_OUTPUT_BYTES:
            raise ProgramError(f"printed more than {MAX_OUTPUT_BYTES >> 20} MB")
        if time.monotonic() >= deadline:
            raise ProgramError(f"did not end within {timeout_s:,.0f} s")


def _end_tree(process: subprocess.Popen[bytes]) -> None:
    """End it and its children, where it has not ended by itself."""
    if process.poll() is not None:
        return
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    process.kill()
    process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")


def _code_name(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"the signal {signal.Signals(-code).name}"
    return f"code {code}"
