"""A native build of llama.cpp, or of a fork of it, through its own ``llama-bench`` program.

Two dialects are known: ``-d DEPTH`` of llama.cpp, and ``-gp DEPTH,TOKENS`` of forks from before it.
"""

from __future__ import annotations

import json
import math
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.bench.programs import Finished, ProgramError, run_program
from engine.bench.results import SpeedTest
from engine.errors import EngineError

TIMEOUT_S = 900.0
HELP_TIMEOUT_S = 20.0
_FLAGS = ("--model", "--threads", "--repetitions", "--n-prompt", "--n-gen", "--output")
_TRIAL = SpeedTest("prefill", 8, 0, 1)
_ADVICE = "--llama-bench wants the path of a built llama-bench"


class LlamaBench:
    """Samples from runs of the program, each a process of its own."""

    def __init__(self, program: Path, model: Path, deep_repetitions: int) -> None:
        """``deep_repetitions`` samples at a depth come from one run, for each run fills the KV cache anew."""
        self._program = program
        self._model = model
        self._deep_repetitions = deep_repetitions
        self._samples: dict[SpeedTest, list[float]] = {}

    def check(self) -> None:
        """Let it read a few tokens. Raises EngineError where it cannot, before an hour of measuring."""
        self._run(_TRIAL, 1)

    def prepare(self, test: SpeedTest) -> None:
        """Nothing: the program fills its cache itself, outside its clocks."""

    def sample(self, test: SpeedTest) -> float:
        """Tokens a second. Raises EngineError when the program fails or prints something else."""
        waiting = self._samples.setdefault(test, [])
        if not waiting:
            waiting += self._run(test, self._deep_repetitions if test.depth else 1)
        return waiting.pop(0)

    def close(self) -> None:
        """Nothing runs between samples."""

    @cached_property
    def _has_depth(self) -> bool:
        return "--n-depth" in _help(self._program)

    def _run(self, test: SpeedTest, repetitions: int) -> list[float]:
        arguments = ["-m", str(self._model), "-t", str(test.num_threads), "-r", str(repetitions), "-o", "json"]
        if test.kind == "prefill":
            arguments += ["-p", str(test.num_tokens), "-n", "0"]
        elif test.depth == 0:
            arguments += ["-p", "0", "-n", str(test.num_tokens)]
        elif self._has_depth:
            arguments += ["-p", "0", "-n", str(test.num_tokens), "-d", str(test.depth)]
        else:
            arguments += ["-p", "0", "-n", "0", "-gp", f"{test.depth},{test.num_tokens}"]
        finished = _ask(self._program, arguments, TIMEOUT_S)
        if finished.failure:
            raise EngineError(f"{self._program} {finished.failure}")
        samples = _samples(finished.output)
        if not samples:
            raise EngineError(f"{self._program} printed no speeds for {test.label}; {_ADVICE}.")
        return samples


def check_program(program: Path) -> None:
    """Raise EngineError unless the program answers as a llama-bench does."""
    if os.path.isdir(program):
        raise EngineError(f"{program} is a folder; {_ADVICE}.")
    if not os.path.isfile(program):  # unlike Path's, no error for a name that is too long
        raise EngineError(f"There is no program {program}; {_ADVICE}.")
    text = _help(program)
    missing = [flag for flag in _FLAGS if flag not in text]
    if missing:
        raise EngineError(f"{program} is no llama-bench: its --help does not name {missing[0]}; {_ADVICE}.")


def _help(program: Path) -> str:
    """What it says of itself. Some programs call it a failure to be asked, so that its code says nothing."""
    finished = _ask(program, ["--help"], HELP_TIMEOUT_S)
    if finished.code < 0:
        raise EngineError(f"{program} {finished.failure} when asked for --help; {_ADVICE}.")
    return finished.output + finished.errors


def _ask(program: Path, arguments: list[str], timeout_s: float) -> Finished:
    # Absolute, for a bare name would be looked for in the folders of the system instead.
    try:
        return run_program([str(program.absolute()), *arguments], timeout_s)
    except ProgramError as error:
        asked = " when asked for --help" if arguments == ["--help"] else ""
        raise EngineError(f"{program} {error}{asked}; {_ADVICE}.") from error


def _samples(text: str) -> list[float]:
    """Tokens a second in the last entry of the list that the program printed; empty where there is none."""
    for start in re.finditer(r"^\s*\[", text, re.MULTILINE):
        try:
            found: Any = json.JSONDecoder().raw_decode(text[start.end() - 1 :])[0]
            speeds = [float(speed) for speed in found[-1]["samples_ts"]]
        except (ValueError, LookupError, TypeError, RecursionError):
            continue
        if all(0 < speed < math.inf for speed in speeds):
            return speeds
    return []
