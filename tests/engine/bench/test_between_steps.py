"""The time between two steps, on a fake model whose steps and pauses have known lengths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.bench import between_steps
from engine.bench.between_steps import CASES, measure_between_steps
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.kernels.backend import SequenceSlice
from engine.loader import LoadedModel, OnProgress
from engine.protocol import LoadModel
from tests.engine.fake_backend import FakeBackend
from tests.engine.fake_model import FakeLoads

STEP_S, BETWEEN_S = 0.008, 0.002


class CountingBackend:
    """The clock, and the counters of a fake backend: both go on with each step."""

    def __init__(self) -> None:
        self.loads = FakeLoads(context_length=2048, num_blocks=1000)
        self.num_steps = 0

    def load(self, command: LoadModel, config: EngineConfig, on_progress: OnProgress) -> LoadedModel:
        model = self.loads(command, config, on_progress)
        self.loads.before_run = self._count
        return model

    def _count(self, slices: Sequence[SequenceSlice]) -> None:
        self.num_steps += 1

    @property
    def steps(self) -> tuple[int, float]:
        return self.num_steps, STEP_S * self.num_steps

    def perf_counter(self) -> float:
        return (STEP_S + BETWEEN_S) * self.num_steps


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> CountingBackend:
    counting = CountingBackend()
    monkeypatch.setattr(between_steps, "time", counting)
    monkeypatch.setattr(FakeBackend, "steps", property(lambda backend: counting.steps), raising=False)
    return counting


def test_every_way_of_choosing_is_measured(counting: CountingBackend) -> None:
    found = measure_between_steps(Path("model.gguf"), 1, 12, counting.load)
    assert [each["label"] for each in found] == [label for label, _, _ in CASES]
    for each in found:
        assert each["between_s"] == pytest.approx(BETWEEN_S)
        assert each["step_s"] == pytest.approx(STEP_S)


def test_answers_of_one_token_have_no_time_between(counting: CountingBackend) -> None:
    assert measure_between_steps(Path("model.gguf"), 1, 1, counting.load) == []


def test_a_model_that_cannot_be_loaded_is_an_error(counting: CountingBackend) -> None:
    counting.loads.errors["model.gguf"] = EngineError("The file is damaged.")
    with pytest.raises(EngineError, match="damaged"):
        measure_between_steps(Path("model.gguf"), 1, 12, counting.load)
