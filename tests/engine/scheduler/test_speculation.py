"""Speculation: learnt where it pays, and never to be seen in the tokens."""

from __future__ import annotations

import pytest

from engine.engine import Engine
from engine.protocol import FinishReason
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.batch import Batch, ScheduledSequence
from engine.scheduler.prompt_lookup import NOTHING, Draft
from engine.scheduler.sequence import Sequence
from engine.scheduler.speculation import Speculation
from tests.engine.fake_backend import FakeBackend, next_token

DRAFT = Draft(tuple(range(7)), 16)


def _sequence(name: str = "a", prompt: tuple[int, ...] = (1,), max_tokens: int = 200) -> Sequence:
    return Sequence(name, list(prompt), Sampler(SamplingParams(temperature=0)), max_tokens, frozenset())


def _step(num_tokens: int) -> Batch:
    sequence = _sequence(prompt=(1,) * num_tokens)
    return Batch((ScheduledSequence(sequence, num_tokens),))


def _learn(costs: dict[int, float], right: int, steps: int = 50) -> Speculation:
    """What is known after many steps of these costs whose proposals were right ``right`` times out of 7."""
    speculation = Speculation()
    sequence = _sequence()
    for _ in range(steps):
        for num_tokens, seconds in costs.items():
            speculation.observe(_step(num_tokens), seconds)
        speculation.judge(ScheduledSequence(sequence, 1, DRAFT), right)
    return speculation


def test_as_many_tokens_are_verified_as_pay() -> None:
    cheap = {1: 0.010, 4: 0.011, 8: 0.012}
    assert len(_learn(cheap, 7).choose(DRAFT, 1, 1).token_ids) == 7
    dear = {1: 0.010, 4: 0.022, 8: 0.038}
    assert _learn(dear, 1).choose(DRAFT, 1, 1) == NOTHING
    assert len(_learn(dear, 7).choose(DRAFT, 1, 1).token_ids) == 7
    long_is_dear = {1: 0.010, 4: 0.012, 8: 0.040}
    assert len(_learn(long_is_dear, 7).choose(DRAFT, 1, 1).token_ids) == 3
    as_dear_as_one_by_one = {1: 0.010, 4: 0.040, 8: 0.080}
    assert _learn(as_dear_as_one_by_one, 7).choose(DRAFT, 1, 1) == NOTHING


def test_a_step_stays_within_what_is_computed_alike() -> None:
    cheap = _learn({1: 0.010, 4: 0.011, 8: 0.012}, 7)
    assert len(cheap.choose(DRAFT, 4, 4).token_ids) == 3
    assert cheap.choose(DRAFT, 6, 4) == NOTHING


def test_one_slow_step_does_not_end_it_for_good() -> None:
    speculation = _learn({1: 0.010, 4: 0.011, 8: 0.012}, 7)
    for num_tokens in (4, 8):
        speculation.observe(_step(num_tokens), 1.0)
    assert speculation.choose(DRAFT, 1, 1) == NOTHING
    for _ in range(1500):
        speculation.observe(_step(1), 0.010)
    assert speculation.choose(DRAFT, 1, 1) != NOTHING


def test_nothing_proposed_is_nothing_chosen() -> None:
    assert Speculation().choose(NOTHING, 1, 1) == NOTHING
    assert Speculation().choose(Draft((1, 2), 9), 1, 1) == NOTHING, "fewer than fill a class of steps"


class _Eager(Speculation):
    """Verifies everything."""

    def choose(self, draft: Draft, num_tokens: int, num_streams: int) -> Draft:
        return draft


class _Quoting(FakeBackend):
    """A model that repeats what it read ``PERIOD`` tokens ago, with a slip now and then."""

    PERIOD = 23

    def _row(self, seen: list[int]):  # type: ignore[no-untyped-def]
        row = super()._row(seen)
        slips = next_token(seen) % 9 == 0
        if len(seen) > self.PERIOD and not slips:
            row[:] = -5.0
            row[seen[-self.PERIOD]] = 5.0
        return row


def _answers(speculates: bool, num_blocks: int, max_batch_tokens: int = 48) -> tuple[list[Sequence], int]:
    backend = _Quoting(num_blocks, max_batch_tokens)
    engine = Engine(backend, num_blocks=num_blocks, context_length=150, speculates=speculates)
    if speculates:
        engine._scheduler._speculation = _Eager()
    sequences = [_sequence(f"s{n}", tuple(range(n, n + 25)), 90 + 20 * n) for n in range(3)]
    steps = 0
    for sequence in sequences:
        engine.add(sequence)
    while engine.has_work:
        outputs = engine.step()
        steps += 1
        engine.kv_cache.check_integrity()
        for output in outputs:
            count = len(output.token_ids)
            assert tuple(output.sequence.token_ids[-count:] if count else ()) == output.token_ids
    return sequences, steps


@pytest.mark.parametrize("num_blocks", [40, 14])
@pytest.mark.parametrize("max_batch_tokens", [48, 8])
def test_answers_are_the_same_in_fewer_steps_even_under_a_tiny_pool(num_blocks: int, max_batch_tokens: int) -> None:
    plain, num_plain = _answers(False, num_blocks, max_batch_tokens)
    quick, num_quick = _answers(True, num_blocks, max_batch_tokens)
    assert [sequence.token_ids for sequence in quick] == [sequence.token_ids for sequence in plain]
    assert [sequence.finish_reason for sequence in quick] == [
        FinishReason.LENGTH,
        FinishReason.LENGTH,
        FinishReason.CONTEXT,
    ]
    assert num_quick < 0.7 * num_plain
    assert all(0 < sequence.num_accepted_tokens <= sequence.num_proposed_tokens for sequence in quick)
    assert all(sequence.num_proposed_tokens == 0 for sequence in plain)


def test_what_was_rejected_is_not_in_the_cache() -> None:
    """A turn that goes on with other tokens finds exactly what the answer's own tokens are."""
    backend = _Quoting(40, 48)
    engine = Engine(backend, num_blocks=40, context_length=150, speculates=True)
    engine._scheduler._speculation = _Eager()
    first = _sequence(prompt=tuple(range(25)), max_tokens=61)
    engine.add(first)
    while engine.has_work:
        engine.step()
    assert first.num_accepted_tokens < first.num_proposed_tokens, "something was rejected"
    turn = _sequence(prompt=(*first.token_ids, 60, 61), max_tokens=1)
    engine.add(turn)
    while engine.has_work:
        engine.step()
    assert turn.num_reused_tokens == first.num_computed_tokens
