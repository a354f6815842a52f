"""Whose turn it is: urgent requests first, background ones when nothing else is to be computed."""

from __future__ import annotations

from engine.engine import Engine
from engine.protocol import FinishReason, Priority
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.scheduler import num_common_tokens
from engine.scheduler.sequence import Sequence
from tests.engine.fake_backend import FakeBackend, continuation


def _sequence(name: str, prompt: list[int], priority: Priority = Priority.NORMAL, max_tokens: int = 8) -> Sequence:
    sampler = Sampler(SamplingParams(temperature=0))
    return Sequence(name, prompt, sampler, max_tokens, frozenset(), priority=priority)


def _engine(num_blocks: int = 100, max_batch_tokens: int = 16, context_length: int = 600) -> Engine:
    backend = FakeBackend(num_blocks, max_batch_tokens)
    return Engine(backend, num_blocks=num_blocks, context_length=context_length)


def _words(seed: int, count: int) -> list[int]:
    return [(seed * 7 + n * n * 3 + n // 5) % 61 for n in range(count)]


def _run(engine: Engine, until: Sequence | None = None) -> None:
    while engine.has_work and (until is None or until.finish_reason is None):
        engine.step()
        engine.kv_cache.check_integrity()


def _assert_right(*sequences: Sequence) -> None:
    for sequence in sequences:
        prompt = sequence.token_ids[: sequence.num_prompt_tokens]
        assert sequence.token_ids[len(prompt) :] == continuation(prompt, sequence.max_tokens)


def test_the_visible_chat_is_read_before_one_that_came_earlier() -> None:
    engine = _engine()
    early, visible = _sequence("early", _words(1, 200)), _sequence("visible", _words(2, 200), Priority.VISIBLE)
    engine.add(early)
    engine.step()
    num_read = early.num_computed_tokens
    engine.add(visible)
    while visible.num_completion_tokens == 0:
        engine.step()
    assert early.num_computed_tokens == num_read
    _run(engine)
    _assert_right(early, visible)


def test_turning_to_another_chat_changes_who_is_read_first() -> None:
    engine = _engine()
    first = _sequence("first", _words(1, 200), Priority.VISIBLE)
    second = _sequence("second", _words(2, 200))
    engine.add(first)
    engine.add(second)
    engine.step()
    first.priority, second.priority = Priority.NORMAL, Priority.VISIBLE
    _run(engine, until=second)
    assert first.finish_reason is None
    _run(engine)
    _assert_right(first, second)


def test_background_reading_waits_until_nothing_else_is_to_be_computed() -> None:
    engine = _engine()
    draft = _sequence("draft", _words(1, 200), Priority.BACKGROUND, max_tokens=1)
    chat = _sequence("chat", _words(2, 40), max_tokens=20)
    engine.add(draft)
    engine.step()
    num_read = draft.num_computed_tokens
    assert num_read > 0
    engine.add(chat)
    _run(engine, until=chat)
    assert draft.num_computed_tokens == num_read
    _run(engine)
    _assert_right(draft, chat)


def test_a_more_urgent_chat_takes_the_blocks_of_others_and_they_resume() -> None:
    engine = _engine(num_blocks=40)
    long = [_sequence(f"long{n}", _words(n, 250), max_tokens=20) for n in range(2)]
    for sequence in long:
        engine.add(sequence)
    for _ in range(3):
        engine.step()
    urgent = _sequence("urgent", _words(9, 300), Priority.VISIBLE, max_tokens=20)
    engine.add(urgent)
    _run(engine, until=urgent)
    assert all(sequence.finish_reason is None for sequence in long)
    _run(engine)
    _assert_right(urgent, *long)


def test_a_prefix_that_another_is_reading_is_waited_for() -> None:
    engine = _engine()
    backend = engine._backend
    assert isinstance(backend, FakeBackend)
    prefix = _words(3, 300)
    sequences = [_sequence(f"s{n}", [*prefix, n], max_tokens=5) for n in range(4)]
    for sequence in sequences:
        engine.add(sequence)
    _run(engine)
    _assert_right(*sequences)
    assert sequences[0].num_reused_tokens == 0
    assert [other.num_reused_tokens for other in sequences[1:]] == [288] * 3, "all full blocks of it"
    assert backend.num_computed_tokens < 300 + 4 * 20


def test_a_reader_that_stops_leaves_the_rest_to_those_that_wait_for_it() -> None:
    engine = _engine()
    prefix = _words(3, 300)
    reader, waiting = _sequence("reader", [*prefix, 1]), _sequence("waiting", [*prefix, 2])
    engine.add(reader)
    engine.add(waiting)
    for _ in range(4):
        engine.step()
    assert waiting.num_reused_tokens is None
    engine.finish(reader, FinishReason.ABORTED)
    _run(engine)
    _assert_right(waiting)
    assert waiting.num_reused_tokens == reader.num_computed_tokens > 0


def test_an_urgent_request_takes_over_what_a_background_one_has_read() -> None:
    engine = _engine()
    backend = engine._backend
    assert isinstance(backend, FakeBackend)
    prefix = _words(3, 300)
    draft = _sequence("draft", prefix, Priority.BACKGROUND, max_tokens=1)
    chat = _sequence("chat", [*prefix, 5], Priority.VISIBLE)
    engine.add(draft)
    for _ in range(4):
        engine.step()
    num_read = draft.num_computed_tokens
    engine.add(chat)
    _run(engine, until=chat)
    assert chat.num_reused_tokens == num_read > 0
    _run(engine)
    _assert_right(chat, draft)
    assert backend.num_computed_tokens < 300 + 40


def test_what_others_read_for_one_that_gave_way_counts_as_reused() -> None:
    engine = _engine()
    prompt = _words(3, 300)
    draft, chat = _sequence("draft", prompt, max_tokens=1), _sequence("chat", [*prompt, 5], Priority.VISIBLE)
    engine.add(draft)
    for _ in range(4):
        engine.step()
    assert draft.num_reused_tokens == 0
    num_read = draft.num_computed_tokens
    engine.add(chat)
    _run(engine)
    _assert_right(chat, draft)
    assert draft.num_reused_tokens + draft.num_read_tokens == draft.num_prompt_tokens
    assert num_read <= draft.num_read_tokens < 300


def test_common_prefixes() -> None:
    assert num_common_tokens([], [1]) == 0
    assert num_common_tokens([1, 2, 3], [1, 2, 3, 4]) == 3
    for place in range(50):
        first = list(range(50))
        second = [*first[:place], -1, *first[place + 1 :]]
        assert num_common_tokens(first, second) == place
