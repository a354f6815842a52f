"""Hybrids: batches, chunks, branches and chats against a cold run, and the checkpoints that make reuse possible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine.engine import Engine
from engine.gguf import open_model
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.kernels.reference import ReferenceBackend
from engine.model import load_plan
from engine.model.plan import Plan
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler import recurrent_states
from engine.scheduler.sequence import Sequence
from tests.golden_models import write_golden_model

CONTEXT_LENGTH = 256
NAMES = ["qwen35", "lfm2moe", "nemotron_h", "falcon-h1", "mamba2"]
RANDOM = np.random.default_rng(11)


@pytest.fixture(params=NAMES)
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plan]:
    with open_model(write_golden_model(request.param, tmp_path)) as file:
        yield load_plan(file, CONTEXT_LENGTH)[1]


def words(count: int) -> list[int]:
    numbers: list[int] = RANDOM.integers(3, 320, count).tolist()
    return numbers


class KeepsLogits(Sampler):
    """Greedy, and keeps the logits it chose from."""

    def __init__(self) -> None:
        super().__init__(SamplingParams(temperature=0))
        self.logits: list[npt.NDArray[np.float32]] = []

    def sample(self, logits, token_ids, mask=None):  # type: ignore[no-untyped-def]
        self.logits.append(logits.copy())
        return super().sample(logits, token_ids, mask)


def _engine(plan: Plan) -> Engine:
    backend = ReferenceBackend(plan, num_blocks=64, max_batch_tokens=32)
    return Engine(backend, num_blocks=64, context_length=CONTEXT_LENGTH)


def _ask(engine: Engine, *prompts: list[int], num_tokens: int = 6) -> list[Sequence]:
    """All prompts at once."""
    sequences = [
        Sequence(str(index), prompt, KeepsLogits(), num_tokens, frozenset()) for index, prompt in enumerate(prompts)
    ]
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        engine.step()
    engine.kv_cache.check_integrity()
    return sequences


def _assert_as_cold(plan: Plan, warm: Sequence) -> None:
    (cold,) = _ask(_engine(plan), warm.token_ids[: warm.num_prompt_tokens], num_tokens=warm.num_completion_tokens)
    assert cold.num_reused_tokens == 0
    assert cold.token_ids == warm.token_ids
    assert isinstance(warm.sampler, KeepsLogits)
    assert isinstance(cold.sampler, KeepsLogits)
    np.testing.assert_allclose(warm.sampler.logits, cold.sampler.logits, atol=1e-3, rtol=1e-3)


def test_a_chat_goes_on_from_its_last_answer_and_a_branch_from_its_last_checkpoint(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent_states, "CHECKPOINT_INTERVAL", 32)
    engine = _engine(plan)
    (first,) = _ask(engine, words(100), num_tokens=8)
    (turn,) = _ask(engine, [*first.token_ids, *words(5)])
    assert turn.num_reused_tokens == 107, "all that the first answer computed"
    (branch,) = _ask(engine, [*turn.token_ids[:90], *words(7)])
    assert branch.num_reused_tokens == 64, "a checkpoint of every 32 tokens"
    (again,) = _ask(engine, first.token_ids[:100], num_tokens=8)
    assert again.num_reused_tokens == 100, "the prompt's end, whose logits are kept"
    (other,) = _ask(engine, words(20))
    assert other.num_reused_tokens == 0
    for sequence in (first, turn, branch, again, other):
        _assert_as_cold(plan, sequence)


def test_sequences_side_by_side_do_not_see_each_other(plan: Plan) -> None:
    prefix = words(40)
    sequences = _ask(_engine(plan), [*prefix, *words(3)], words(17), [*prefix, *words(30)], [*prefix, 5])
    for sequence in sequences:
        _assert_as_cold(plan, sequence)


def test_chunks_and_batches_on_the_cpu_equal_one_shot(plan: Plan) -> None:
    backend = CpuBackend(plan, num_blocks=24, max_batch_tokens=64, num_threads=2)
    try:
        tokens, others = (np.array(words(40), np.int32) for _ in range(2))
        table, other_table = np.arange(3, dtype=np.int32), np.arange(3, 6, dtype=np.int32)
        whole = backend.run([SequenceSlice(tokens, 0, table, "all", 3)]).copy()
        for slot in (5, 7):
            backend.write_state(slot, None)
        pieces = []
        for start, stop in ((0, 1), (1, 3), (3, 20), (20, 21), (21, 40)):
            logits = backend.run(
                [
                    SequenceSlice(others[start:stop], start, other_table, "none", 5),
                    SequenceSlice(tokens[start:stop], start, table, "all", 7),
                ]
            )
            pieces.append(logits.copy())
        np.testing.assert_allclose(np.concatenate(pieces), whole, atol=2e-2)
        kept = backend.read_state(7)
        backend.write_state(2, kept)
        backend.write_state(7, None)
        assert not backend.read_state(7).any()
        np.testing.assert_array_equal(backend.read_state(2), kept)
        assert kept.any()
    finally:
        backend.close()


def test_a_state_that_does_not_exist_is_refused(plan: Plan) -> None:
    backend = ReferenceBackend(plan, num_blocks=2, max_batch_tokens=8)
    with pytest.raises(ValueError, match="states"):
        backend.run([SequenceSlice(np.zeros(1, np.int32), 0, np.zeros(1, np.int32), "none", 16)])
