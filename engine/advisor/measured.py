"""Figures of models that have run here: they replace the estimates."""

from __future__ import annotations

import json
import logging
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

_log = logging.getLogger(__name__)

MIN_TOKENS = 16  # shorter answers and prompts say little
WEIGHT = 0.3  # of the newest figure


@dataclass(frozen=True)
class MeasuredSpeed:
    """Of one model file; 0 where nothing was measured."""

    tokens_per_second: float = 0.0
    read_tokens_per_second: float = 0.0


class MeasuredFigures:
    """The figures of all models, kept in a file. Any thread may use it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._figures = self._read()

    def of(self, path: Path) -> MeasuredSpeed:
        """What was measured of the model at ``path``."""
        with self._lock:
            return self._figures.get(_key(path), MeasuredSpeed())

    def add(self, path: Path, *, answer: tuple[int, float], prompt: tuple[int, float]) -> None:
        """Take in one answer: tokens and seconds of the answer, and of the part of the prompt that was read."""
        with self._lock:
            before = self._figures.get(_key(path), MeasuredSpeed())
            after = MeasuredSpeed(
                _mixed(before.tokens_per_second, *answer), _mixed(before.read_tokens_per_second, *prompt)
            )
            if after == before:
                return
            self._figures[_key(path)] = after
            text = json.dumps({key: asdict(speed) for key, speed in self._figures.items()}, indent=1)
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                scratch = self._file.with_suffix(".tmp")
                scratch.write_text(text, encoding="utf-8")
                os.replace(scratch, self._file)
            except OSError as error:
                _log.warning("measured speeds are not kept: %s", error)

    def _read(self) -> dict[str, MeasuredSpeed]:
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
            return {
                str(key): MeasuredSpeed(float(item["tokens_per_second"]), float(item["read_tokens_per_second"]))
                for key, item in stored.items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}


def _key(path: Path) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def _mixed(before: float, num_tokens: int, seconds: float) -> float:
    if num_tokens < MIN_TOKENS or seconds <= 0:
        return before
    rate = num_tokens / seconds
    return rate if before <= 0 else before + WEIGHT * (rate - before)
