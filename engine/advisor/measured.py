"""What models that have run here really did: it replaces the estimates of them and corrects those of others."""

from __future__ import annotations

import json
import logging
import math
import os
import statistics
import threading
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from engine.advisor.speeds import Speeds

_log = logging.getLogger(__name__)

MIN_TOKENS = 16  # shorter answers and prompts say little
MIN_READ_TOKENS = 256  # of a prompt, to say something of others
MIN_ANSWERS = 3  # of a model, the best of which says something of others: a neighbour can only take away
MOST_CORRECTION = 4.0
WEIGHT = 0.3  # of the newest figure


@dataclass(frozen=True)
class Expected:
    """What the kernels' speeds alone let expect of one answer.

    Attributes:
        tokens_per_second, read_tokens_per_second: of it; 0 where nothing can be said.
        speeds: that it was reckoned with.
    """

    tokens_per_second: float
    read_tokens_per_second: float
    speeds: Speeds


@dataclass(frozen=True)
class MeasuredModel:
    """Of one model file; 0 where nothing was measured.

    Attributes:
        tokens_per_second, read_tokens_per_second: as answers had them, the last ones most.
        bandwidth: bytes a second with which the estimate would have been right, at best.
        multiply_rate: multiplications of Q4_K a second, likewise.
        num_answers: that these two are from.
        memory_bytes: that the process took for the model, once.
        memory_estimate_bytes: what was estimated for as much of the context as had been read then.
    """

    tokens_per_second: float = 0.0
    read_tokens_per_second: float = 0.0
    bandwidth: float = 0.0
    multiply_rate: float = 0.0
    num_answers: int = 0
    memory_bytes: int = 0
    memory_estimate_bytes: int = 0

    @property
    def memory_excess_bytes(self) -> int:
        """By how much the estimate was too low; negative where it was too high."""
        return self.memory_bytes - self.memory_estimate_bytes if self.memory_bytes else 0


NOTHING_MEASURED = MeasuredModel()


class MeasuredFigures:
    """The figures of all models, kept in a file. Any thread may use it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._figures = self._read()

    def of(self, path: Path) -> MeasuredModel:
        """What was measured of the model at ``path``."""
        with self._lock:
            return self._figures.get(_key(path), NOTHING_MEASURED)

    def add(
        self,
        path: Path,
        *,
        answer: tuple[int, float],
        prompt: tuple[int, float],
        expected: Expected | None = None,
    ) -> None:
        """Take in one answer: tokens and seconds of the answer, and of the part of the prompt that was read.

        With what was ``expected`` of it, it counts for other models, too.
        """
        with self._lock:
            before = self._figures.get(_key(path), NOTHING_MEASURED)
            after = replace(
                before,
                tokens_per_second=_mixed(before.tokens_per_second, *answer),
                read_tokens_per_second=_mixed(before.read_tokens_per_second, *prompt),
            )
            if expected is not None:
                after = _compared(after, answer, prompt, expected)
            self._keep(path, before, after)

    def add_memory(self, path: Path, memory_bytes: int, estimate_bytes: int) -> None:
        """Take in what a model took, and what was estimated for as much of the context as had been read."""
        with self._lock:
            before = self._figures.get(_key(path), NOTHING_MEASURED)
            self._keep(
                path, before, replace(before, memory_bytes=memory_bytes, memory_estimate_bytes=estimate_bytes)
            )

    def corrected(self, speeds: Speeds) -> Speeds:
        """The speeds with which estimates of the models that have run would have been right, in the median."""
        with self._lock:
            models = [model for model in self._figures.values() if model.num_answers >= MIN_ANSWERS]
        return speeds.scaled(
            _correction([model.bandwidth for model in models], speeds.bandwidth),
            _correction([model.multiply_rate for model in models], speeds.reference_multiply_rate),
        )

    def _keep(self, path: Path, before: MeasuredModel, after: MeasuredModel) -> None:
        if after == before:
            return
        self._figures[_key(path)] = after
        text = json.dumps({key: asdict(model) for key, model in self._figures.items()}, indent=1)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            scratch = self._file.with_suffix(".tmp")
            scratch.write_text(text, encoding="utf-8")
            os.replace(scratch, self._file)
        except OSError as error:
            _log.warning("measured speeds are not kept: %s", error)

    def _read(self) -> dict[str, MeasuredModel]:
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
            return {str(key): _model(item) for key, item in stored.items()}
        except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return {}


def _model(item: dict[str, object]) -> MeasuredModel:
    """Raises ValueError, TypeError and OverflowError for what is no such thing; what is not there is 0."""
    values = {}
    for each in fields(MeasuredModel):
        value = item.get(each.name, 0)
        if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise ValueError(each.name)
        values[each.name] = int(value) if each.type == "int" else float(value)
    return MeasuredModel(**values)  # type: ignore[arg-type]


def _compared(
    model: MeasuredModel, answer: tuple[int, float], prompt: tuple[int, float], expected: Expected
) -> MeasuredModel:
    """The best of both, each as the speed of the kernels that would have given the answer."""
    decoded = _ratio(answer, expected.tokens_per_second, MIN_TOKENS)
    read = _ratio(prompt, expected.read_tokens_per_second, MIN_READ_TOKENS)
    return replace(
        model,
        bandwidth=max(model.bandwidth, expected.speeds.bandwidth * decoded),
        multiply_rate=max(model.multiply_rate, expected.speeds.reference_multiply_rate * read),
        num_answers=model.num_answers + (decoded > 0),
    )


def _ratio(taken: tuple[int, float], expected_rate: float, min_tokens: int) -> float:
    """Of a rate to what was expected; 0 where nothing can be said."""
    num_tokens, seconds = taken
    if num_tokens < min_tokens or seconds <= 0 or expected_rate <= 0:
        return 0.0
    return num_tokens / seconds / expected_rate


def _correction(rates: list[float], estimate: float) -> float:
    known = [rate for rate in rates if rate > 0]
    if not known:
        return 1.0
    return min(max(statistics.median(known) / estimate, 1 / MOST_CORRECTION), MOST_CORRECTION)


def _key(path: Path) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def _mixed(before: float, num_tokens: int, seconds: float) -> float:
    if num_tokens < MIN_TOKENS or seconds <= 0:
        return before
    rate = num_tokens / seconds
    return rate if before <= 0 else before + WEIGHT * (rate - before)
