"""Steps over several tokens of a lone stream: the same answers, in fewer steps, with every end where it was."""

from __future__ import annotations

from collections.abc import Sequence as Tokens

import pytest

from engine.engine import Engine, StepOutput
from engine.errors import NumericError
from engine.kernels.backend import SequenceSlice
from engine.protocol import FinishReason
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence
from engine.scheduler.step_length import TARGET_S, StepLength
from tests.engine.fake_backend import FakeBackend, continuation

PROMPT = [1, 2, 3]
GREEDY = SamplingParams(temperature=0)


def _engine(num_blocks: int = 64, context_length: int = 512, num_ahead: int = 3) -> tuple[Engine, FakeBackend]:
    backend = FakeBackend(num_blocks, max_ahead_tokens=15)
    engine = Engine(backend, num_blocks=num_blocks, context_length=context_length)
    engine._scheduler._step_length.num_ahead = num_ahead
    engine._scheduler._step_length.observe = lambda *_: None  # type: ignore[method-assign]
    return engine, backend


def _sequence(max_tokens: int, end: Tokens[int] = (), params: SamplingParams = GREEDY) -> Sequence:
    return Sequence("a", PROMPT, Sampler(params), max_tokens, frozenset(end))


def _run(engine: Engine, *sequences: Sequence) -> list[StepOutput]:
    for sequence in sequences:
        engine.add(sequence)
    outputs = []
    while engine.has_work:
        outputs += engine.step()
        engine.kv_cache.check_integrity()
    return outputs


def _completion(sequence: Sequence) -> list[int]:
    return sequence.token_ids[sequence.num_prompt_tokens :]


@pytest.mark.parametrize("max_tokens", [1, 2, 4, 5, 6, 9, 40])
def test_an_answer_has_its_length_to_the_token(max_tokens: int) -> None:
    engine, backend = _engine()
    sequence = _sequence(max_tokens)
    outputs = _run(engine, sequence)
    assert _completion(sequence) == continuation(PROMPT, max_tokens)
    assert [token for output in outputs for token in output.token_ids] == _completion(sequence)
    assert sequence.finish_reason is FinishReason.LENGTH
    assert len(outputs) == 1 + -(-(max_tokens - 1) // 4)
    assert backend.num_computed_tokens == len(PROMPT) + max_tokens - 1
    assert (sequence.num_proposed_tokens, sequence.num_accepted_tokens) == (0, 0), "nothing was proposed"


@pytest.mark.parametrize("index", range(1, 10))
def test_an_end_token_is_the_last_and_is_not_computed(index: int) -> None:
    expected = continuation(PROMPT, 10)
    if expected[index] in expected[:index]:
        pytest.skip("this token comes before, too")
    engine, backend = _engine()
    sequence = _sequence(40, end=[expected[index], 63])
    _run(engine, sequence)
    assert _completion(sequence) == expected[: index + 1]
    assert sequence.finish_reason is FinishReason.STOP
    assert backend.num_computed_tokens == len(PROMPT) + index


@pytest.mark.parametrize("context_length", range(10, 20))
def test_a_full_context_ends_it(context_length: int) -> None:
    engine, _ = _engine(context_length=context_length)
    sequence = _sequence(100)
    _run(engine, sequence)
    assert sequence.num_tokens == context_length
    assert _completion(sequence) == continuation(PROMPT, context_length - len(PROMPT))
    assert sequence.finish_reason is FinishReason.CONTEXT


def test_what_came_before_invalid_numbers_is_told() -> None:
    expected = continuation(PROMPT, 6)
    assert expected[5] not in [*PROMPT, *expected[:5]]
    engine, backend = _engine()
    backend.poison = expected[5]
    outputs = _run(engine, _sequence(40))
    assert [token for output in outputs for token in output.token_ids] == expected
    assert isinstance(outputs[-1].error, NumericError)


def test_an_interrupted_step_is_computed_again() -> None:
    engine, backend = _engine()
    sequence = _sequence(30)
    num_seen = []

    def interrupt_once(slices: Tokens[SequenceSlice]) -> None:
        num_seen.append(sequence.num_tokens)
        if len(num_seen) == 9:  # in the midst of tokens that follow each other
            engine.interrupt()

    backend.before_run = interrupt_once
    outputs = _run(engine, sequence)
    assert _completion(sequence) == continuation(PROMPT, 30)
    assert num_seen[8] == num_seen[7], "within a step"
    assert num_seen.count(num_seen[8]) > 4, "whose tokens were computed again"
    assert [token for output in outputs for token in output.token_ids] == _completion(sequence)


def test_others_do_not_wait_for_it() -> None:
    engine, _ = _engine()
    sequences = [Sequence(name, [5, index], Sampler(GREEDY), 12, frozenset()) for index, name in enumerate("ab")]
    outputs = _run(engine, *sequences)
    assert {len(output.token_ids) for output in outputs} <= {0, 1}
    for sequence in sequences:
        assert _completion(sequence) == continuation(sequence.token_ids[:2], 12)


@pytest.mark.parametrize("case", ["penalties", "logprobs"])
def test_a_choice_that_needs_more_than_logits_is_made_between_steps(case: str) -> None:
    engine, _ = _engine()
    sequence = _sequence(
        12, params=SamplingParams(temperature=0, repeat_penalty=1.0 + (case == "penalties") * 1e-6)
    )
    sequence.num_logprobs = 2 * (case == "logprobs")
    outputs = _run(engine, sequence)
    assert {len(output.token_ids) for output in outputs} == {1}
    assert _completion(sequence) == continuation(PROMPT, 12)


def test_a_pool_that_is_full_gives_no_room_ahead() -> None:
    engine, _ = _engine(num_blocks=2)
    sequence = _sequence(29)
    _run(engine, sequence)
    assert _completion(sequence) == continuation(PROMPT, 29)


def test_as_many_tokens_as_are_seen_as_one_flow() -> None:
    length = StepLength(15)
    assert length.num_ahead == 0, "nothing is known yet"
    length.observe(1, TARGET_S / 2.5)
    assert length.num_ahead == 1
    for _ in range(30):
        length.observe(5, TARGET_S / 2.1)
    assert length.num_ahead == 9
    for _ in range(30):
        length.observe(1, 1e-6)
    assert length.num_ahead == 15, "as many as the backend can"
    for _ in range(30):
        length.observe(1, TARGET_S)
    assert length.num_ahead == 0
    none = StepLength(0)
    none.observe(1, 1e-6)
    assert none.num_ahead == 0
