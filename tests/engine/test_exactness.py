"""Reuse changes no answer: tiny models of several architectures, warm engine against a cold one.

Among them sliding windows of 8 tokens, much shorter than what is reused, and layers with and without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.engine import Engine
from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.kernels.reference import ReferenceBackend
from engine.model import load_plan
from engine.model.plan import Plan
from engine.protocol import FinishReason
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence
from tests import tiny_models, tiny_models_second

CONTEXT_LENGTH = 160


class LogitsSampler(Sampler):
    """Greedy, and keeps the logits it chose from."""

    can_run_ahead = False

    def __init__(self) -> None:
        super().__init__(SamplingParams(temperature=0))
        self.logits: list[np.ndarray] = []

    def sample(self, logits, token_ids, mask=None):  # type: ignore[no-untyped-def]
        self.logits.append(logits.copy())
        return super().sample(logits, token_ids, mask)


@pytest.fixture(params=["llama", "gemma3", "granite_swa", "phi3", "gemma2"])
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plan]:
    module = tiny_models if request.param in tiny_models.RECIPES else tiny_models_second
    with open_model(module.write_tiny_model(request.param, tmp_path)) as file:
        yield load_plan(file, CONTEXT_LENGTH)[1]


def _engine(plan: Plan, num_blocks: int = 64) -> Engine:
    backend = ReferenceBackend(plan, num_blocks=num_blocks, max_batch_tokens=32)
    return Engine(backend, num_blocks=num_blocks, context_length=CONTEXT_LENGTH)


def _ask(engine: Engine, prompt: list[int], num_tokens: int, name: str = "a") -> Sequence:
    sequence = Sequence(name, prompt, LogitsSampler(), num_tokens, frozenset())
    engine.add(sequence)
    while engine.has_work:
        engine.step()
    engine.kv_cache.check_integrity()
    return sequence


def _assert_as_cold(plan: Plan, warm: Sequence) -> None:
    """Same tokens and, but for the last bits, same logits as an engine that has read nothing before."""
    cold = _ask(_engine(plan), warm.token_ids[: warm.num_prompt_tokens], warm.num_completion_tokens)
    assert cold.num_reused_tokens == 0
    assert cold.token_ids == warm.token_ids
    assert isinstance(warm.sampler, LogitsSampler)
    assert isinstance(cold.sampler, LogitsSampler)
    np.testing.assert_allclose(warm.sampler.logits, cold.sampler.logits, atol=1e-4, rtol=1e-4)


def test_turns_edits_and_new_chats_equal_a_cold_run(plan: Plan) -> None:
    rng = np.random.default_rng(7)

    def words(count: int) -> list[int]:
        return rng.integers(3, plan.vocab_size, count).tolist()

    engine = _engine(plan)
    story = words(70)
    first = _ask(engine, story, 20)
    turn = _ask(engine, [*first.token_ids, *words(5)], 8)
    assert turn.num_reused_tokens == 89
    edited = _ask(engine, [*turn.token_ids[:77], *words(6)], 8)
    assert edited.num_reused_tokens == 77
    again = _ask(engine, turn.token_ids[: turn.num_prompt_tokens], 8)
    assert again.num_reused_tokens == turn.num_prompt_tokens
    new = _ask(engine, [*story[:3], *words(9)], 8)
    assert new.num_reused_tokens == 3
    for sequence in (first, turn, edited, again, new):
        _assert_as_cold(plan, sequence)


def test_a_seed_reproduces_beside_other_sequences(plan: Plan) -> None:
    params = SamplingParams(temperature=1.5, top_k=0, seed=5)

    def sequence(name: str) -> Sequence:
        return Sequence(name, [5, 6, 7], Sampler(params), 25, frozenset())

    alone, *others = [sequence(name) for name in ("alone", "beside", "between", "behind")]
    engine = _engine(plan)
    engine.add(alone)
    while engine.has_work:
        engine.step()
    for other in others:
        engine.add(other)
    _ask(engine, [8, 9, 10], 40, "a greedy one")
    assert [other.token_ids for other in others] == [alone.token_ids] * 3


def test_sequences_side_by_side_under_a_tiny_pool_equal_cold_runs(plan: Plan) -> None:
    """Ten blocks for three chats of up to six: they take each other's blocks, are resumed, and one is stopped."""
    rng = np.random.default_rng(8)
    prefix = rng.integers(3, plan.vocab_size, 21).tolist()
    engine = Engine(
        ReferenceBackend(plan, num_blocks=11, max_batch_tokens=16), num_blocks=11, context_length=CONTEXT_LENGTH
    )
    sequences = [
        Sequence(
            f"s{n}",
            [*prefix, *rng.integers(3, plan.vocab_size, 5 * n + 1).tolist()],
            LogitsSampler(),
            50,
            frozenset(),
        )
        for n in range(4)
    ]
    for sequence in sequences:
        engine.add(sequence)
    stopped = sequences.pop()
    while engine.has_work:
        engine.step()
        engine.kv_cache.check_integrity()
        if stopped.num_completion_tokens == 9:
            engine.finish(stopped, FinishReason.ABORTED)
    for sequence in [*sequences, stopped]:
        _assert_as_cold(plan, sequence)


@pytest.mark.parametrize("chunk", [32, 64, 128])
def test_on_the_cpu_a_stream_and_a_paste_beside_it_are_the_same_to_the_bit(plan: Plan, chunk: int) -> None:
    """Neither what is read beside a stream nor where a prompt is cut changes a number of theirs.

    With windows the positions that a chunk skips depend on where it begins, and so does the order of sums.
    """
    rng = np.random.default_rng(9)
    prompts = [rng.integers(3, plan.vocab_size, count).tolist() for count in (20, 117)]

    def run(together: bool, chunk: int) -> list[Sequence]:
        backend = CpuBackend(plan, num_blocks=40, max_batch_tokens=128, num_threads=1)
        engine = Engine(backend, num_blocks=40, context_length=CONTEXT_LENGTH)
        engine._scheduler._chunk_size.num_tokens = chunk
        engine._scheduler._chunk_size.observe = lambda *_: None  # type: ignore[method-assign]
        sequences = [
            Sequence(f"s{n}", prompt, LogitsSampler(), 30, frozenset()) for n, prompt in enumerate(prompts)
        ]
        for sequence in sequences:
            engine.add(sequence)
            while engine.has_work and (not together or sequence.num_completion_tokens < 3):
                engine.step()
        while engine.has_work:
            engine.step()
        engine.close()
        return sequences

    tolerance = 1e-4 if any(getattr(op, "window", 0) for op in plan.ops) else 0.0
    for alone, beside in zip(run(False, 128), run(True, chunk), strict=True):
        assert alone.token_ids == beside.token_ids
        assert isinstance(alone.sampler, LogitsSampler)
        assert isinstance(beside.sampler, LogitsSampler)
        np.testing.assert_allclose(alone.sampler.logits, beside.sampler.logits, rtol=0, atol=tolerance)


def test_on_the_cpu_logits_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    """A team becomes smaller while others use the processor; 700 tokens are attended to in parts."""
    with open_model(tiny_models.write_tiny_model("llama", tmp_path)) as file:
        plan = load_plan(file, 800)[1]
        token_ids = np.random.default_rng(3).integers(3, plan.vocab_size, 710).astype(np.int32)
        blocks, rows = np.arange(50, dtype=np.int32), []
        for num_threads in (1, 2, 3):
            backend = CpuBackend(plan, num_blocks=50, num_threads=num_threads, max_batch_tokens=800)
            backend.run([SequenceSlice(token_ids[:700], 0, blocks)])
            steps = [backend.run([SequenceSlice(token_ids[n : n + 1], n, blocks)]).copy() for n in range(700, 710)]
            rows.append(np.concatenate(steps))
            backend.close()
    assert (rows[0] == rows[1]).all()
    assert (rows[0] == rows[2]).all()
