"""Tokens that need no logits, and tokens that were proposed: what a step appends is what one by one would give."""

from __future__ import annotations

import numpy as np
import pytest

from engine.decoding import Ranking, extend
from engine.engine import Engine
from engine.errors import GenerationError
from engine.protocol import FinishReason
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence
from tests.engine.fake_backend import VOCAB_SIZE, FakeBackend, continuation, next_token

GREEDY = SamplingParams(temperature=0)


class Pattern:
    """A constraint: per position the tokens allowed, None for all; a single one is forced."""

    def __init__(self, *allowed: set[int] | None, fails_at: int = -1) -> None:
        self._allowed = allowed
        self._fails_at = fails_at
        self.position = 0
        self.num_prepared = 0

    def mask(self) -> np.ndarray | None:
        if self.position == self._fails_at:
            raise GenerationError("The grammar gave up.")
        allowed = self._allowed[self.position]
        if allowed is None:
            return None
        words = np.zeros(VOCAB_SIZE // 32, dtype=np.uint32)
        for token in allowed:
            words[token // 32] |= np.uint32(1 << token % 32)
        return words

    def prepare(self) -> None:
        self.num_prepared += 1

    def advance(self, token_id: int) -> None:
        allowed = self._allowed[self.position]
        assert allowed is None or token_id in allowed
        self.position += 1

    def forced_tokens(self) -> list[int]:
        forced = []
        for allowed in self._allowed[self.position :]:
            if allowed is None or len(allowed) != 1:
                break
            forced += list(allowed)
        return forced

    @property
    def is_complete(self) -> bool:
        return self.position == len(self._allowed)


def _sequence(prompt: list[int], constraint: Pattern | None = None, max_tokens: int = 20) -> Sequence:
    return Sequence("a", prompt, Sampler(GREEDY), max_tokens, frozenset(), constraint)


def _row(tokens: list[int]) -> np.ndarray:
    row = np.zeros(VOCAB_SIZE, dtype=np.float32)
    row[next_token(tokens)] = 5
    return row


def _rows(prompt: list[int], proposed: list[int]) -> np.ndarray:
    return np.array([_row([*prompt, *proposed[:n]]) for n in range(len(proposed) + 1)])


def test_forced_tokens_join_in_one_chunk_without_a_choice() -> None:
    backend = FakeBackend(16)
    engine = Engine(backend, num_blocks=16, context_length=128)
    pattern = Pattern({7}, {8}, {9}, None, {1, 2}, {3}, {4}, {5}, None)
    sequence = _sequence([1, 2, 3], pattern)
    engine.add(sequence)
    outputs = []
    sizes: list[int] = []
    backend.before_run = lambda slices: sizes.append(len(slices[0].token_ids))
    while engine.has_work:
        outputs += engine.step()
        engine.kv_cache.check_integrity()
    free = next_token([1, 2, 3, 7, 8, 9])
    chosen = sequence.token_ids[3 + 4]
    assert sequence.token_ids[3:7] == [7, 8, 9, free]
    assert chosen in {1, 2}
    assert sequence.token_ids[8:] == [3, 4, 5, next_token(sequence.token_ids[:-1])]
    assert sequence.finish_reason is FinishReason.STOP
    assert [output.num_forced for output in outputs] == [3, 0, 3, 0]
    assert [len(output.token_ids) for output in outputs] == [3, 1, 4, 1]
    assert sizes == [3, 3, 1, 4], "forced tokens are computed in one slice"
    assert pattern.num_prepared == 4


def test_more_forced_tokens_than_a_step_may_hold_are_read_in_chunks() -> None:
    backend = FakeBackend(16, max_batch_tokens=8)
    engine = Engine(backend, num_blocks=16, context_length=200)
    sequence = _sequence([1], Pattern(*[{n % 40} for n in range(100)], None), max_tokens=200)
    engine.add(sequence)
    while engine.has_work:
        engine.step()
    assert sequence.token_ids == [1, *[n % 40 for n in range(100)], next_token(sequence.token_ids[:-1])]


def test_a_constraint_that_fails_ends_its_request_alone_and_keeps_its_tokens() -> None:
    engine = Engine(FakeBackend(16), num_blocks=16, context_length=128)
    bad, good = _sequence([1], Pattern(None, {4}, {5}, None, None, fails_at=3)), _sequence([2])
    good.request_id = "good"
    engine.add(bad)
    engine.add(good)
    outputs = []
    while engine.has_work:
        outputs += engine.step()
    (failed,) = [output for output in outputs if output.error is not None]
    assert failed.sequence is bad
    assert bad.token_ids[2:] == [4, 5]
    assert good.token_ids[1:] == continuation([2], 20)
    engine.kv_cache.check_integrity()


@pytest.mark.parametrize("num_right", range(5))
def test_proposed_tokens_count_up_to_the_first_wrong_one(num_right: int) -> None:
    prompt = [5, 6]
    truth = continuation(prompt, 5)
    proposed = [*truth[:num_right], *[(token + 1) % 60 for token in truth[num_right:4]]]
    sequence = _sequence(prompt)
    new = extend(sequence, _rows(prompt, proposed), proposed, 100)
    assert new.token_ids == truth[: num_right + 1]
    assert new.num_accepted == num_right
    assert sequence.token_ids == prompt + new.token_ids
    assert new.reason is None


def test_proposed_tokens_end_where_the_completion_ends() -> None:
    prompt = [5, 6]
    proposed = continuation(prompt, 6)
    for sequence, reason, context_length in (
        (_sequence(prompt, max_tokens=3), FinishReason.LENGTH, 100),
        (_sequence(prompt), FinishReason.CONTEXT, 5),
        (_sequence(prompt, Pattern(None, None, None)), FinishReason.STOP, 100),
    ):
        new = extend(sequence, _rows(prompt, proposed), proposed, context_length)
        assert (new.token_ids, new.num_accepted, new.reason) == (proposed[:3], 3, reason)
    ended = Sequence("a", prompt, Sampler(GREEDY), 20, frozenset([proposed[1]]))
    new = extend(ended, _rows(prompt, proposed), proposed, 100)
    assert (new.token_ids, new.reason) == (proposed[:2], FinishReason.STOP)


def test_forced_and_proposed_tokens_may_agree() -> None:
    prompt = [5, 6]
    first = next_token(prompt)
    proposed = [first, 40, 41, next_token([*prompt, first, 40, 41])]
    sequence = _sequence(prompt, Pattern(None, {40}, {41}, None, None))
    new = extend(sequence, _rows(prompt, proposed), proposed, 100)
    assert new.token_ids == [*proposed, next_token([*prompt, *proposed])]
    assert (new.num_accepted, new.num_forced, new.reason) == (4, 2, FinishReason.STOP)


def test_speculation_changes_no_random_choice() -> None:
    """The same seed draws the same tokens whether they are proposed or not, and wrong proposals move nothing."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, VOCAB_SIZE)).astype(np.float32)
    params = SamplingParams(temperature=1.2, top_k=0, top_p=1, min_p=0, seed=11)
    plain = Sampler(params)
    expected = [plain.sample(row, []) for row in rows]
    sequence = Sequence("a", [1], Sampler(params), 500, frozenset())
    position = 0
    while position < 190:
        proposed = expected[position : position + 4]
        if rng.random() < 0.5:
            proposed[2] = (proposed[2] + 1) % VOCAB_SIZE
        new = extend(sequence, rows[position : position + 5], proposed, 1000)
        position += len(new.token_ids)
    assert sequence.token_ids[1:] == expected[:position]


def test_alternatives_come_with_each_token_that_was_chosen() -> None:
    engine = Engine(FakeBackend(16), num_blocks=16, context_length=128)
    sequence = _sequence([1, 2, 3], Pattern({7}, {8}, None, {2, 4}, {3}))
    sequence.num_logprobs = 3
    engine.add(sequence)
    token_ids: list[int] = []
    rankings: list[Ranking | None] = []
    while engine.has_work:
        for output in engine.step():
            token_ids += output.token_ids
            rankings += output.rankings
    assert len(rankings) == len(token_ids) == 5
    assert [ranking is None for ranking in rankings] == [True, True, False, False, True], "forced ones have none"
    free, masked = rankings[2], rankings[3]
    assert free is not None
    assert masked is not None
    assert [token.token_id for token in free] == [token_ids[2], 0, 1], "the model's order, the chosen one first"
    assert len(masked) == 4, "the three likeliest of the model, and the token that the mask left"
    assert masked[-1].token_id == token_ids[3]


def test_without_a_wish_there_are_no_alternatives() -> None:
    engine = Engine(FakeBackend(16), num_blocks=16, context_length=128)
    engine.add(_sequence([1, 2, 3], Pattern({7}, None), max_tokens=2))
    while engine.has_work:
        assert all(output.rankings == () for output in engine.step())
