"""A native build of llama.cpp, or of a fork of it, through its own ``llama-bench`` program.

Two dialects are known: ``-d DEPTH`` of llama.cpp, and ``-gp DEPTH,TOKENS`` of forks from before it.
"""

from __future__ import annotations

import json
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.bench.results import SpeedTest
from engine.errors import EngineError

TIMEOUT_S = 900.0


class LlamaBench:
    """Samples from runs of the program, each a process of its own."""

    def __init__(self, program: Path, model: Path, deep_repetitions: int) -> None:
        """``deep_repetitions`` samples at a depth come from one run, for each run fills the KV cache anew."""
        self._program = program
        self._model = model
        self._deep_repetitions = deep_repetitions
        self._samples: dict[SpeedTest, list[float]] = {}

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
        return "--n-depth" in self._output(["--help"])

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
        text = self._output(arguments)
        try:
            samples = [float(speed) for speed in _json_list(text)[-1]["samples_ts"]]
        except (ValueError, LookupError, TypeError) as error:
            raise EngineError(
                f"{self._program.name} printed no results for {test.label}; is it a llama-bench?"
            ) from error
        if not samples:
            raise EngineError(f"{self._program.name} printed no samples for {test.label}.")
        return samples

    def _output(self, arguments: list[str]) -> str:
        try:
            done = subprocess.run(
                [str(self._program), *arguments], capture_output=True, timeout=TIMEOUT_S, check=False
            )
        except OSError as error:
            reason = error.strerror or error
            raise EngineError(f"{self._program} cannot be run as llama-bench: {reason}.") from error
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"{self._program.name} gave no result within {TIMEOUT_S:,} s.") from error
        if done.returncode and arguments != ["--help"]:
            last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise EngineError(f"{self._program.name} failed with code {done.returncode}: {' '.join(last)}")
        return done.stdout.decode("utf-8", "replace")


def _json_list(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text[text.index("[") :])
    return found
