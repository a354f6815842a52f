"""Reading beside streams: how much slower they become, and how long it takes, by a clock that counts steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence as Tokens

import pytest

from engine.engine import Engine
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu.formats import MATVEC_TOKENS
from engine.protocol import Priority
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.pace import Pace
from engine.scheduler.sequence import Sequence
from tests.engine.fake_backend import FakeBackend, continuation

STREAM_S = 0.010  # a step that only generates
TOKEN_S = 0.0015  # each token that is read


class Clock:
    """Time as the steps of a model would take it; notes what each step computed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps: list[list[SequenceSlice]] = []

    def take(self, slices: Tokens[SequenceSlice]) -> None:
        self.steps.append(list(slices))
        self.now += STREAM_S + TOKEN_S * sum(len(part.token_ids) - 1 for part in slices)

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("engine.engine.time", clock)
    return clock


def _engine(clock: Clock) -> Engine:
    backend = FakeBackend(800, 512, before_run=clock.take)
    return Engine(backend, num_blocks=800, context_length=12_000)


def _sequence(name: str, num_tokens: int, max_tokens: int, priority: Priority = Priority.NORMAL) -> Sequence:
    prompt = [(len(name) * 7 + n * n * 3 + n // 5) % 61 for n in range(num_tokens)]
    return Sequence(name, prompt, Sampler(SamplingParams(temperature=0)), max_tokens, frozenset(), None, priority)


def _read_beside(engine: Engine, clock: Clock, stream: Sequence, reader: Sequence) -> tuple[float, list[float]]:
    """Seconds until ``reader`` has its first token, and the times between the tokens of ``stream`` meanwhile."""
    engine.add(stream)
    while stream.num_completion_tokens < 3:
        engine.step()
    started, times = clock.now, [clock.now]
    engine.add(reader)
    while reader.num_completion_tokens == 0:
        before = stream.num_tokens
        engine.step()
        times += [clock.now] * (stream.num_tokens - before)
    for sequence in (stream, reader):
        prompt = sequence.token_ids[: sequence.num_prompt_tokens]
        assert sequence.token_ids[len(prompt) :] == continuation(prompt, sequence.num_completion_tokens)
    return clock.now - started, [b - a for a, b in itertools.pairwise(times)]


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.VISIBLE])
def test_a_stream_is_less_than_twice_as_slow_beside_a_long_paste(clock: Clock, priority: Priority) -> None:
    num_tokens = 8000
    stream, paste = _sequence("stream", 9, 4000), _sequence("paste", num_tokens, 1, priority)
    seconds, gaps = _read_beside(_engine(clock), clock, stream, paste)
    assert 1.5 * STREAM_S < sum(gaps) / len(gaps) < 1.9 * STREAM_S
    assert max(gaps) < 0.25, "a chunk and a step at most"
    alone_s = num_tokens * TOKEN_S
    assert seconds < 2.9 * alone_s


def test_nothing_is_read_in_a_step_that_generates(clock: Clock) -> None:
    """What a stream says depends on the rounding of its step, and so must not depend on what is read beside it."""
    stream, paste = _sequence("stream", 9, 4000), _sequence("paste", 2000, 1)
    _read_beside(_engine(clock), clock, stream, paste)
    sizes = [sorted(len(part.token_ids) for part in step) for step in clock.steps]
    assert all(len(step) == 1 for step in sizes)


def test_no_prompt_is_read_by_a_few_tokens(clock: Clock) -> None:
    """Kernels round in another way for a few tokens; a prompt's numbers must not depend on where it was cut."""
    for num_tokens in (129, 135, 143, 144, 150, 257, 261, 1000, 1029):
        engine = _engine(clock)
        clock.steps.clear()
        engine.add(_sequence("paste", num_tokens, 1))
        while engine.has_work:
            engine.step()
        assert sum(len(part.token_ids) for step in clock.steps for part in step) == num_tokens
        assert all(len(part.token_ids) > MATVEC_TOKENS for step in clock.steps for part in step)


def test_a_short_prompt_that_is_urgent_is_read_sooner(clock: Clock) -> None:
    stream, urgent = _sequence("stream", 9, 4000), _sequence("urgent", 500, 1, Priority.VISIBLE)
    seconds, gaps = _read_beside(_engine(clock), clock, stream, urgent)
    assert seconds < 1.7 * 500 * TOKEN_S
    assert sum(gaps) / len(gaps) < 5 * STREAM_S, "the stream goes on"


def test_reading_waits_until_the_streams_have_caught_up() -> None:
    pace = Pace()
    assert pace.can_read
    pace.note_reading(1 / 8)
    num_steps = 0
    while not pace.can_read:
        pace.note_generating(1 / 64, 2.0)
        num_steps += 1
    assert num_steps == 8
    for _ in range(100):
        pace.note_generating(1 / 64, 2.0)
    pace.note_reading(1 / 8)
    assert not pace.can_read, "time that nobody read in is not saved up"


@pytest.mark.parametrize(
    ("priority", "longest_s"), [(Priority.VISIBLE, 0.8), (Priority.NORMAL, 0.25), (Priority.BACKGROUND, 0.25)]
)
def test_who_is_waited_for_and_alone_is_read_in_long_steps(
    clock: Clock, priority: Priority, longest_s: float
) -> None:
    """Each step costs something whatever it reads; nobody waits for the end of these, for a stop ends a step."""
    engine = _engine(clock)
    engine.add(_sequence("paste", 3000, 1, priority))
    times = []
    while engine.has_work:
        started = clock.now
        engine.step()
        times.append(clock.now - started)
    assert longest_s / 2 < max(times) < longest_s
