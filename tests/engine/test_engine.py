from __future__ import annotations

import random

import pytest

from engine.cache.kv_cache import num_blocks_for
from engine.engine import Engine, StepOutput
from engine.errors import ContextOverflowError, InvalidParameterError, NumericError
from engine.kernels.backend import SequenceSlice
from engine.protocol import FinishReason
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence
from tests.engine.fake_backend import FakeBackend, continuation

GREEDY = SamplingParams(temperature=0)
NO_END = frozenset[int]()


def _sequence(prompt: list[int], max_tokens: int = 8, name: str = "a", end: frozenset[int] = NO_END) -> Sequence:
    return Sequence(name, prompt, Sampler(GREEDY), max_tokens, end)


def _engine(
    context_length: int = 512, num_blocks: int = 64, max_batch_tokens: int = 64
) -> tuple[Engine, FakeBackend]:
    backend = FakeBackend(num_blocks, max_batch_tokens)
    return Engine(backend, num_blocks=num_blocks, context_length=context_length), backend


def _run(engine: Engine, *sequences: Sequence) -> list[StepOutput]:
    for sequence in sequences:
        engine.add(sequence)
    outputs = []
    while engine.has_work:
        outputs += engine.step()
        engine.kv_cache.check_integrity()
    assert engine.kv_cache.num_active_blocks == 0
    return outputs


def _completion(sequence: Sequence) -> list[int]:
    return sequence.token_ids[sequence.num_prompt_tokens :]


def test_tokens_equal_the_models_own() -> None:
    engine, backend = _engine()
    sequence = _sequence([1, 2, 3], max_tokens=40)
    outputs = _run(engine, sequence)
    assert _completion(sequence) == continuation([1, 2, 3], 40)
    assert [output.token_ids for output in outputs] == [(token,) for token in _completion(sequence)]
    assert sequence.finish_reason is FinishReason.LENGTH
    assert backend.num_computed_tokens == 3 + 39


def test_an_end_token_stops() -> None:
    expected = continuation([1, 2, 3], 10)
    engine, _ = _engine()
    sequence = _sequence([1, 2, 3], max_tokens=40, end=frozenset([expected[5]]))
    _run(engine, sequence)
    assert sequence.finish_reason is FinishReason.STOP
    assert _completion(sequence) == expected[: expected.index(expected[5]) + 1]


def test_the_next_turn_reads_only_what_is_new() -> None:
    engine, backend = _engine()
    first = _sequence(list(range(50)), max_tokens=21)
    _run(engine, first)
    computed = backend.num_computed_tokens
    turn = _sequence([*first.token_ids, 60, 61, 62], max_tokens=1)
    _run(engine, turn)
    assert turn.num_reused_tokens == 50 + 20, "all but the last token, which was chosen and never run"
    assert backend.num_computed_tokens - computed == 4
    assert _completion(turn) == continuation(turn.token_ids[:-1], 1)


def test_an_edit_a_branch_and_a_new_chat_equal_a_cold_run() -> None:
    engine, _ = _engine(num_blocks=80)
    chat = [n % 60 for n in range(100)]
    _run(engine, _sequence(chat, max_tokens=30))
    for prompt in ([*chat[:37], 1, 2, 3], chat[:64], chat[:99], [5, 5], chat, [*chat, 7]):
        warm = _sequence(prompt, max_tokens=30)
        _run(engine, warm)
        assert _completion(warm) == continuation(prompt, 30)


def test_an_answer_is_generated_anew_without_reading_anything() -> None:
    engine, backend = _engine()
    prompt = [n % 60 for n in range(41)]
    _run(engine, _sequence(prompt, max_tokens=6))
    computed = backend.num_computed_tokens
    again = _sequence(prompt, max_tokens=6)
    _run(engine, again)
    assert again.num_reused_tokens == 41
    assert backend.num_computed_tokens - computed == 5, "the new tokens but the last"
    assert _completion(again) == continuation(prompt, 6)
    branches = [_sequence(prompt, max_tokens=6, name=f"b{n}") for n in range(3)]
    _run(engine, *branches)
    assert all(_completion(branch) == continuation(prompt, 6) for branch in branches)


def test_chunks_end_with_blocks() -> None:
    ends: list[int] = []

    def look(slices: list[SequenceSlice]) -> None:
        ends.extend(part.start + len(part.token_ids) for part in slices)

    engine, backend = _engine(max_batch_tokens=50)
    _run(engine, _sequence(list(range(5)), max_tokens=1))
    backend.before_run = look  # type: ignore[assignment]
    _run(engine, _sequence([*range(5), *range(20, 60), *range(60), *range(50)], max_tokens=1))
    assert ends == [48, 96, 128, 155], "and leave no few tokens for the last"


def test_the_context_ends_a_sequence_and_bounds_a_prompt() -> None:
    engine, _ = _engine(context_length=20, num_blocks=num_blocks_for(20))
    with pytest.raises(ContextOverflowError, match=r"needs 21 tokens but the context holds 20"):
        engine.add(_sequence([1] * 20))
    sequence = _sequence([1] * 19, max_tokens=50)
    _run(engine, sequence)
    assert sequence.finish_reason is FinishReason.CONTEXT
    assert sequence.num_completion_tokens == 1
    with pytest.raises(InvalidParameterError, match="prompt is empty"):
        engine.add(_sequence([]))


def test_finish_between_chunks_keeps_what_was_read() -> None:
    engine, _backend = _engine(max_batch_tokens=16)
    prompt = [n % 50 for n in range(100)]
    stopped = _sequence(prompt)
    engine.add(stopped)
    engine.step()
    engine.step()
    engine.finish(stopped, FinishReason.ABORTED)
    engine.finish(stopped, FinishReason.LENGTH)
    assert not engine.has_work
    assert stopped.finish_reason is FinishReason.ABORTED, "the first reason stays"
    again = _sequence(prompt)
    _run(engine, again)
    assert again.num_reused_tokens == 32
    assert _completion(again) == continuation(prompt, 8)


def test_a_waiting_sequence_can_be_finished() -> None:
    engine, backend = _engine()
    waiting = _sequence([1, 2])
    engine.add(waiting)
    engine.finish(waiting, FinishReason.ABORTED)
    assert not engine.has_work
    assert backend.num_computed_tokens == 0


def test_invalid_numbers_end_one_sequence_and_are_forgotten() -> None:
    engine, backend = _engine()
    backend.poison = 63
    bad = _sequence([1] * 40 + [63], name="bad")
    good = _sequence([2] * 40, name="good")
    outputs = _run(engine, bad, good)
    (failure,) = [output for output in outputs if output.error]
    assert failure.sequence is bad
    assert isinstance(failure.error, NumericError)
    assert _completion(good) == continuation([2] * 40, 8)
    assert engine.kv_cache.num_matching_tokens([1] * 40 + [2]) == 0


def test_a_backend_that_raises_fails_the_batch_and_the_engine_goes_on() -> None:
    engine, backend = _engine()

    def explode(slices: object) -> None:
        raise RuntimeError("no memory")

    backend.before_run = explode
    outputs = _run(engine, _sequence([1, 2, 3]), _sequence([4], name="b"))
    assert [str(output.error) for output in outputs] == [
        "The model could not be run (no memory); try again, or load the model anew."
    ] * 2
    backend.before_run = lambda slices: None
    good = _sequence([1, 2, 3])
    _run(engine, good)
    assert _completion(good) == continuation([1, 2, 3], 8)


def test_sequences_are_preempted_and_resumed_without_loss() -> None:
    engine, _ = _engine(context_length=128, num_blocks=12, max_batch_tokens=32)
    sequences = [_sequence([n, n + 1, n + 2], max_tokens=90, name=f"s{n}") for n in range(5)]
    _run(engine, *sequences)
    for n, sequence in enumerate(sequences):
        assert _completion(sequence) == continuation([n, n + 1, n + 2], 90)
        assert sequence.num_reused_tokens == 0


def test_requests_with_a_hot_prefix_read_it_once() -> None:
    engine, _backend = _engine(num_blocks=200)
    prefix = [n % 61 for n in range(160)]
    first = _sequence([*prefix, 1], max_tokens=50, name="first")
    engine.add(first)
    while first.num_completion_tokens < 2:
        engine.step()
    others = [_sequence([*prefix, n], max_tokens=20, name=f"s{n}") for n in range(2, 6)]
    _run(engine, *others)
    assert [other.num_reused_tokens for other in others] == [160] * 4
    assert all(_completion(other) == continuation(other.token_ids[:161], 20) for other in others)


def test_the_budget_of_a_step_holds() -> None:
    sizes: list[int] = []

    def look(slices: list[SequenceSlice]) -> None:
        sizes.append(sum(len(part.token_ids) for part in slices))

    engine, backend = _engine(num_blocks=200, max_batch_tokens=16)
    backend.before_run = look  # type: ignore[assignment]
    _run(engine, *[_sequence([n] * 30, name=f"s{n}") for n in range(20)])
    assert max(sizes) <= 16


@pytest.mark.parametrize(("seed", "num_blocks"), [(1, 9), (2, 16), (3, 200)])
def test_a_thousand_random_steps_equal_cold_runs(seed: int, num_blocks: int) -> None:
    """Chats that grow, branch, are edited, stopped and run beside each other under a tiny and a roomy pool."""
    rng = random.Random(seed)
    engine, _ = _engine(context_length=128, num_blocks=num_blocks, max_batch_tokens=16)
    chats: list[list[int]] = [[]]
    running: list[Sequence] = []
    for step in range(1000):
        if rng.random() < 0.15 and len(running) < 4:
            base = rng.choice(chats)
            prompt = base[: rng.randrange(len(base) + 1)] if rng.random() < 0.4 else base
            prompt = (prompt + [rng.randrange(60) for _ in range(rng.randrange(1, 20))])[:110]
            running.append(_sequence(prompt, max_tokens=rng.randrange(1, 30), name=f"r{step}"))
            engine.add(running[-1])
        if running and rng.random() < 0.04:
            engine.finish(rng.choice(running), FinishReason.ABORTED)
        if engine.has_work:
            engine.step()
        for sequence in [s for s in running if s.finish_reason]:
            running.remove(sequence)
            prompt = sequence.token_ids[: sequence.num_prompt_tokens]
            assert _completion(sequence) == continuation(prompt, sequence.num_completion_tokens)
            chats.append(sequence.token_ids[:100])
        engine.kv_cache.check_integrity()


@pytest.mark.parametrize("speculates", [False, True])
def test_steps_that_are_interrupted_at_any_time_lose_nothing(speculates: bool) -> None:
    rng = random.Random(5)
    backend = FakeBackend(64, before_run=lambda slices: backend.interrupt() if rng.random() < 0.4 else None)
    engine = Engine(backend, num_blocks=64, context_length=512, speculates=speculates)
    prompts = [[rng.randrange(60) for _ in range(rng.randrange(1, 150))] for _ in range(6)]
    sequences = [_sequence(prompt, 12, name=str(index)) for index, prompt in enumerate(prompts)]
    _run(engine, *sequences)
    for prompt, sequence in zip(prompts, sequences):
        assert _completion(sequence) == continuation(prompt, 12)
        assert sequence.num_read_tokens <= len(prompt)


def test_only_the_step_of_the_named_request_is_interrupted() -> None:
    names: list[str | None] = ["b", "a", None]
    backend = FakeBackend(64, before_run=lambda slices: engine.interrupt(names.pop(0)) if names else None)
    engine = Engine(backend, num_blocks=64, context_length=512)
    engine.add(_sequence([1, 2, 3], name="a\0 part 7"))
    assert [len(engine.step()) for _ in range(4)] == [1, 0, 0, 1]


def test_a_stop_that_comes_just_before_a_step_is_not_lost() -> None:
    engine, backend = _engine()
    engine.add(_sequence([1, 2, 3], name="a"))
    engine.interrupt("a")
    assert not backend.is_interrupted.is_set(), "nothing runs"
    assert [len(engine.step()) for _ in range(3)] == [0, 1, 1], "and it counts once"
    assert backend.num_computed_tokens == 4
    engine.interrupt("another")
    assert len(engine.step()) == 1
