"""Probabilities of given answers: exact along the trie, and nothing called calibrated that is not."""

from __future__ import annotations

import math
from collections.abc import Sequence as Several
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.decision.calibration import MIN_EXAMPLES, fit_temperature
from engine.decision.combine import combine
from engine.decision.decider import Decider, PreparedPrompt
from engine.decision.decision import Decision
from engine.decision.label_trie import LabelTrie
from engine.engine import Engine
from engine.errors import InvalidParameterError
from engine.gguf import open_model
from engine.kernels.backend import RunAhead, SequenceSlice
from engine.kernels.reference import ReferenceBackend
from engine.model import load_plan
from engine.protocol import Decide
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence
from tests.engine.fake_backend import FakeBackend
from tests.golden_models import write_golden_model

END = 9


def logits_after(tokens: Several[int]) -> Any:
    return np.random.default_rng(list(tokens)).normal(0, 2, 16).astype(np.float32)


class SmoothBackend(FakeBackend):
    """Logits that depend on all tokens so far and give every token some probability."""

    def __init__(self) -> None:
        super().__init__(64, 64, 16)
        self.num_runs = 0

    def run(self, slices: Several[SequenceSlice], ahead: RunAhead | None = None) -> Any:
        self.num_runs += 1
        super().run(slices)
        rows = []
        for part in slices:
            length = part.start + len(part.token_ids)
            seen = self._stored[part.block_table].reshape(-1)[:length].tolist()
            ends = {"none": [], "last": [length], "all": range(part.start + 1, length + 1)}[part.logits]
            rows += [logits_after(seen[:end]) for end in ends]
        return np.array(rows, np.float32).reshape(len(rows), 16)


def decide(prompt: list[int], paths: list[tuple[int, ...]]) -> tuple[Decision, SmoothBackend]:
    backend = SmoothBackend()
    return decide_again(Engine(backend, num_blocks=64, context_length=200), prompt, paths), backend


def decide_again(engine: Engine, prompt: list[int], paths: list[tuple[int, ...]]) -> Decision:
    """One more decision of an engine that has read things."""
    decided: list[Decision] = []
    decider = Decider(engine, lambda _, made: decided.append(made), lambda _, error: pytest.fail(str(error)))
    command = Decide("d", (), tuple(f"choice {index}" for index in range(len(paths))))
    decider.begin(command, [PreparedPrompt(prompt, tuple(paths), False)], frozenset([END]))
    while engine.has_work:
        for output in engine.step():
            assert decider.take(output.sequence, output.error)
    engine.kv_cache.check_integrity()
    (decision,) = decided
    return decision


def exact(prompt: list[int], path: tuple[int, ...]) -> float:
    tokens, total = list(prompt), 0.0
    for token_id in (*path, END):
        row = logits_after(tokens).astype(np.float64)
        total += float(row[token_id] - np.log(np.exp(row).sum()))
        tokens.append(token_id)
    return total


def test_every_choice_has_the_probability_that_the_model_writes_it_and_ends() -> None:
    prompt = list(range(1, 8)) * 5
    paths = [(1,), (1, 0), (1, 0, 0), (2,), (3, 4)]
    decision, _ = decide(prompt, paths)
    wanted = [exact(prompt, path) for path in paths]
    assert [choice.logprob for choice in decision.choices] == pytest.approx(wanted, abs=1e-4)
    assert decision.coverage == pytest.approx(sum(map(math.exp, wanted)), rel=1e-3)
    assert sum(choice.probability for choice in decision.choices) == pytest.approx(1)


def test_what_the_cache_has_of_the_choices_is_looked_at_all_the_same() -> None:
    """The same decision twice, and one after an answer that wrote one of the choices."""
    engine = Engine(SmoothBackend(), num_blocks=64, context_length=200)
    prompt = list(range(1, 8)) * 5
    paths = [(1,), (1, 0), (1, 0, 0), (2,), (3, 4)]
    chat = Sequence("chat", [*prompt, 3], Sampler(SamplingParams(temperature=0)), 20, frozenset())
    engine.add(chat)
    while engine.has_work:
        engine.step()
    paths.append(tuple(chat.token_ids[len(prompt) : len(prompt) + 12]))
    first, again = (decide_again(engine, prompt, paths) for _ in range(2))
    wanted = [exact(prompt, path) for path in paths]
    for decision in (first, again):
        assert [choice.logprob for choice in decision.choices] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("name", ["mamba2", "qwen35"])
@pytest.mark.parametrize("num_states", [1, 16])
def test_a_hybrid_decides_as_one_that_reads_each_choice_anew(name: str, num_states: int, tmp_path: Path) -> None:
    prompt = np.random.default_rng(1).integers(3, 300, 40).tolist()
    paths = [(5,), (5, 7), (5, 7, 9), (8,), (8, 8, 8)]
    with open_model(write_golden_model(name, tmp_path)) as file:
        plan = load_plan(file, 200)[1]
        backend = ReferenceBackend(plan, num_blocks=64, max_batch_tokens=16, num_states=num_states)
        engine = Engine(backend, num_blocks=64, context_length=200)
        decisions = [decide_again(engine, prompt, paths) for _ in range(2)]
        wanted = []
        for path in paths:
            tokens = np.array([*prompt, *path], np.int32)
            alone = ReferenceBackend(plan, num_blocks=4, max_batch_tokens=64)
            rows = alone.run([SequenceSlice(tokens, 0, np.arange(4, dtype=np.int32), "all")]).astype(np.float64)
            logprobs = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
            places = range(len(prompt) - 1, len(tokens))
            wanted.append(sum(logprobs[place, token] for place, token in zip(places, (*path, END), strict=True)))
        del plan, backend, engine, alone
    for decision in decisions:
        assert [choice.logprob for choice in decision.choices] == pytest.approx(wanted, abs=1e-3)


def test_a_defect_ends_the_decision_and_not_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> Decision:
        raise KeyError("a defect")

    monkeypatch.setattr("engine.decision.decider.combine", fail)
    engine = Engine(SmoothBackend(), num_blocks=64, context_length=200)
    failures: list[tuple[str, BaseException]] = []
    decider = Decider(engine, lambda *decided: pytest.fail(str(decided)), lambda *failed: failures.append(failed))
    decider.begin(Decide("d", (), ("a", "b")), [PreparedPrompt([1, 2, 3], ((4,), (5,)), False)], frozenset([END]))
    while engine.has_work:
        for output in engine.step():
            assert decider.take(output.sequence, output.error)
    assert [(name, type(error)) for name, error in failures] == [("d", KeyError)]
    engine.kv_cache.check_integrity()


def test_all_choices_are_one_forward_pass_after_the_prompt() -> None:
    prompt = list(range(1, 8))
    _, backend = decide(prompt, [(1,), (1, 0), (2,), (3, 4)])
    assert backend.num_runs == 2
    assert backend.num_computed_tokens == len(prompt) + 2 + 1 + 2  # "1" is a part of "1 0"


def test_leaves_leave_out_what_others_begin_with() -> None:
    assert LabelTrie([(1,), (1, 0), (2,)], [END]).leaves == [(1, 0), (2,)]


def test_content_free_preferences_are_divided_out() -> None:
    decision = combine(("a", "b"), [[-1.0, -3.0]], [[-1.0, -3.0]])
    assert [choice.probability for choice in decision.choices] == pytest.approx([0.5, 0.5])
    assert not decision.is_calibrated


def test_orders_cancel_a_preference_for_a_place() -> None:
    decision = combine(("a", "b"), [[-0.5, -2.0], [-2.0, -0.5]])
    assert [choice.probability for choice in decision.choices] == pytest.approx([0.5, 0.5])
    assert decision.num_orders == 2


def test_numbers_have_a_mean_and_words_have_none() -> None:
    assert combine(("1", "10"), [[-1.0, -1.0]]).expected_value == pytest.approx(5.5)
    assert combine(("yes", "no"), [[-1.0, -1.0]]).expected_value is None
    assert combine(("1", "nan"), [[-1.0, -1.0]]).expected_value is None


def test_a_temperature_is_found_and_only_then_it_is_called_calibrated() -> None:
    random = np.random.default_rng(1)
    decisions, answers = [], []
    for _ in range(400):
        truth = random.normal(0, 1.5)
        answers.append("yes" if random.random() < 1 / (1 + math.exp(-truth)) else "no")
        decisions.append(combine(("yes", "no"), [[3 * truth, 0.0]]))  # three times too sure
    calibration = fit_temperature(decisions, answers)
    assert calibration.temperature == pytest.approx(3, rel=0.25)
    assert calibration.nll_after < calibration.nll_before
    fitted = combine(("yes", "no"), [[3.0, 0.0]], calibration=calibration)
    assert fitted.is_calibrated
    assert 0.5 < fitted.best.probability < combine(("yes", "no"), [[3.0, 0.0]]).best.probability


def test_too_few_or_wrong_examples_do_not_calibrate() -> None:
    decisions = [combine(("yes", "no"), [[-1.0, -2.0]])] * MIN_EXAMPLES
    with pytest.raises(InvalidParameterError, match="too few"):
        fit_temperature(decisions[1:], ["yes"] * (MIN_EXAMPLES - 1))
    with pytest.raises(InvalidParameterError, match="'maybe' is none of the choices"):
        fit_temperature(decisions, ["maybe"] * MIN_EXAMPLES)
