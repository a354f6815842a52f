"""The engine thread against a fake model: order of events, stops in every phase, failures, no mixing of answers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import CorruptFileError, InsufficientMemoryError
from engine.protocol import (
    AbortRequest,
    Command,
    CountTokens,
    Decide,
    Decided,
    Delta,
    EjectModel,
    EngineStopped,
    FinishReason,
    GenerateRequest,
    LoadModel,
    LoadPhase,
    Message,
    ModelEjected,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    Notice,
    PromptProgress,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    Role,
    TokenAlternatives,
    TokensCounted,
)
from engine.sampling.params import SamplingParams
from tests.engine.fake_model import FakeLoads, answer
from tests.integration.engine_events import E, EventLog, engine_thread

MODEL = Path("model.gguf")
GREEDY = SamplingParams(temperature=0)


def _request(name: str, prompt: str, max_tokens: int = 20, stop: tuple[str, ...] = ()) -> GenerateRequest:
    return GenerateRequest(name, prompt=prompt, sampling=GREEDY, max_tokens=max_tokens, stop=stop)


def _hold_after(
    log: EventLog, loads: FakeLoads, kind: type[E], where: Callable[[E], bool] = lambda event: True
) -> threading.Event:
    """Let the model compute nothing after such an event until the event that is returned is set."""
    has_come, may_go_on = threading.Event(), threading.Event()
    log.on_event = lambda event: has_come.set() if isinstance(event, kind) and where(event) else None
    loads.before_run = lambda slices: may_go_on.wait(60) if has_come.is_set() else None
    return may_go_on


@pytest.fixture
def loads() -> FakeLoads:
    return FakeLoads()


@pytest.fixture
def engine(loads: FakeLoads) -> Iterator[EventLog]:
    with engine_thread(load=loads) as log:
        yield log


@pytest.fixture
def loaded(engine: EventLog) -> EventLog:
    engine.submit(LoadModel(MODEL))
    engine.wait(ModelLoaded)
    return engine


def test_a_load_reports_progress_and_notices(engine: EventLog) -> None:
    engine.submit(LoadModel(MODEL))
    loaded = engine.wait(ModelLoaded)
    assert loaded.info.path == MODEL
    assert [event.phase for event in engine.of(ModelLoading)] == [LoadPhase.HEADER]
    assert engine.wait(Notice).message == "A notice."


def test_an_answer_streams_in_order(loaded: EventLog) -> None:
    loaded.submit(_request("a", "hello there"))
    end = loaded.wait_end("a")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.LENGTH
    assert loaded.text("a") == answer("hello there", 20)
    kinds = [type(event) for event in loaded.events if getattr(event, "request_id", None) == "a"]
    assert kinds[0] is RequestStarted
    assert kinds[1] is PromptProgress
    assert kinds[-1] is RequestFinished
    assert [delta.num_completion_tokens for delta in loaded.of(Delta, "a")] == list(range(1, 21))
    stats = end.stats
    assert (stats.num_prompt_tokens, stats.num_reused_tokens, stats.num_completion_tokens) == (11, 0, 20)
    assert 0 < stats.prompt_ms <= stats.first_token_ms
    assert stats.generation_ms > 0
    assert stats.tokens_per_second == pytest.approx(19e3 / stats.generation_ms)


def test_messages_go_through_the_template(loaded: EventLog) -> None:
    messages = (Message(Role.USER, "hi"), Message(Role.ASSISTANT, "yes"), Message(Role.USER, "more"))
    loaded.submit(GenerateRequest("a", messages=messages, sampling=GREEDY, max_tokens=5))
    loaded.wait_end("a")
    assert loaded.text("a") == answer("hiyesmore", 5)


def test_the_next_turn_reuses_prompt_and_answer(loaded: EventLog, loads: FakeLoads) -> None:
    loaded.submit(_request("a", "tell me a story. "))
    loaded.wait_end("a")
    story = loaded.text("a")
    before = loads.backends[0].num_computed_tokens
    loaded.submit(_request("b", "tell me a story. " + story + " and then", max_tokens=1))
    started = loaded.wait(RequestStarted)
    loaded.wait_end("b")
    assert started.num_reused_tokens == 17 + len(story) - 1
    assert loads.backends[0].num_computed_tokens - before == 1 + len(" and then")
    assert loaded.text("b") == answer("tell me a story. " + story + " and then", 1)


def test_a_stop_string_is_cut_and_its_reason_is_stop(loaded: EventLog) -> None:
    whole = answer("stop me", 40)
    loaded.submit(_request("a", "stop me", 40, stop=(whole[12:15],)))
    end = loaded.wait_end("a")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.STOP
    assert loaded.text("a") == whole[: whole.index(whole[12:15])]


def test_held_text_is_shown_when_the_answer_ends(loaded: EventLog) -> None:
    whole = answer("hold", 10)
    loaded.submit(_request("a", "hold", 10, stop=(whole[-2:] + "?!",)))
    loaded.wait_end("a")
    assert loaded.text("a") == whole


def test_the_context_refuses_with_numbers_and_ends_without_a_crash(loaded: EventLog) -> None:
    loaded.submit(_request("long", "x" * 512))
    failed = loaded.wait_end("long")
    assert isinstance(failed, RequestFailed)
    assert "needs 513 tokens but the context holds 512" in failed.message
    loaded.submit(_request("edge", "y" * 500, max_tokens=0))
    end = loaded.wait_end("edge")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.CONTEXT
    assert loaded.text("edge") == answer("y" * 500, 12)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (GenerateRequest("a", prompt="x", sampling=SamplingParams(temperature=-1)), "temperature"),
        (GenerateRequest("a", prompt="x", max_tokens=-1), "max_tokens"),
        (GenerateRequest("a"), "either messages or a prompt"),
        (GenerateRequest("a", prompt="x", messages=(Message(Role.USER, "x"),)), "either messages or a prompt"),
        (GenerateRequest("a", prompt=""), "prompt is empty"),
    ],
)
def test_a_bad_request_fails_and_the_next_one_runs(
    loaded: EventLog, request_: GenerateRequest, message: str
) -> None:
    loaded.submit(request_)
    failed = loaded.wait_end("a")
    assert isinstance(failed, RequestFailed)
    assert message in failed.message
    loaded.submit(_request("b", "next"))
    loaded.wait_end("b")
    assert loaded.text("b") == answer("next", 20)


def test_without_a_model_requests_fail_at_once(engine: EventLog) -> None:
    engine.submit(_request("a", "x"), CountTokens("c", "x"))
    failures = [engine.wait(RequestFailed), engine.wait(RequestFailed)]
    assert all("No model is loaded" in failure.message for failure in failures)


def test_counting_tokens(loaded: EventLog) -> None:
    loaded.submit(CountTokens("c", "five."))
    assert loaded.wait(TokensCounted).num_tokens == 5


def test_a_load_that_fails_is_one_sentence(engine: EventLog, loads: FakeLoads) -> None:
    loads.errors["bad.gguf"] = CorruptFileError("bad.gguf", "the header contradicts the file; download it again")
    loads.errors["odd.gguf"] = RuntimeError("boom")
    engine.submit(LoadModel(Path("bad.gguf")), _request("a", "x"))
    assert engine.wait(ModelLoadFailed).message == ("bad.gguf: the header contradicts the file; download it again")
    assert "the header contradicts" in engine.wait(RequestFailed).message
    loads.errors["large.gguf"] = InsufficientMemoryError("Too large.", can_load_anyway=True)
    engine.submit(LoadModel(Path("large.gguf")))
    assert engine.wait(ModelLoadFailed, where=lambda event: event.path.name == "large.gguf").can_load_anyway
    engine.submit(LoadModel(Path("odd.gguf")))
    assert "boom" in engine.wait(ModelLoadFailed).message
    engine.submit(LoadModel(MODEL), _request("b", "fine"))
    engine.wait_end("b")
    assert engine.text("b") == answer("fine", 20)


def test_a_new_model_frees_the_old_one_and_stops_what_runs_on_it(loaded: EventLog, loads: FakeLoads) -> None:
    is_told = _hold_after(loaded, loads, Delta)
    loaded.submit(_request("a", "x", max_tokens=400))
    loaded.wait(Delta)
    loaded.submit(LoadModel(Path("other.gguf")))
    is_told.set()
    end = loaded.wait_end("a")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.ABORTED
    assert loaded.wait(ModelEjected).path == MODEL
    assert loaded.wait(ModelLoaded).info.path == Path("other.gguf")
    assert [backend.is_closed.is_set() for backend in loads.backends] == [True, False]
    loaded.submit(EjectModel())
    assert loaded.wait(ModelEjected).path == Path("other.gguf")
    assert loads.backends[1].is_closed.is_set()


def test_a_request_waits_for_a_load_and_can_be_stopped_meanwhile(engine: EventLog, loads: FakeLoads) -> None:
    loads.hold.set()
    engine.submit(LoadModel(MODEL), _request("a", "x"), _request("b", "patient"))
    engine.wait(ModelLoading, where=lambda event: event.phase is LoadPhase.WEIGHTS)
    engine.submit(AbortRequest("a"))
    end = engine.wait_end("a")
    assert not engine.of(ModelLoaded), "the load goes on"
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.ABORTED
    loads.hold.clear()
    engine.wait_end("b")
    assert engine.text("b") == answer("patient", 20)


def test_a_load_can_be_stopped_and_replaced(engine: EventLog, loads: FakeLoads) -> None:
    loads.hold.set()
    engine.submit(LoadModel(MODEL))
    engine.wait(ModelLoading, where=lambda event: event.phase is LoadPhase.WEIGHTS)
    engine.submit(EjectModel())
    assert engine.wait(ModelLoadFailed).message == "Loading was stopped."
    engine.submit(LoadModel(Path("one.gguf")))
    engine.submit(LoadModel(Path("two.gguf")))
    assert engine.wait(ModelLoadFailed).path == Path("one.gguf")
    loads.hold.clear()
    assert engine.wait(ModelLoaded).info.path == Path("two.gguf")
    assert not engine.of(ModelLoaded)[:-1], "no other load came through"


def test_the_thread_stops_during_a_load(loads: FakeLoads) -> None:
    loads.hold.set()
    with engine_thread(load=loads) as engine:
        engine.submit(LoadModel(MODEL), _request("a", "x"))
        engine.wait(ModelLoading, where=lambda event: event.phase is LoadPhase.WEIGHTS)
        assert engine.thread.stop(60), "the load is not waited for"
    engine.drain()
    assert isinstance(engine.events[-1], EngineStopped)
    assert engine.of(RequestFinished, "a")[0].reason is FinishReason.ABORTED


def test_a_stop_is_heard_between_chunks_of_a_prompt(loaded: EventLog, loads: FakeLoads) -> None:
    is_told = _hold_after(loaded, loads, PromptProgress)
    loaded.submit(_request("a", "p" * 400))
    loaded.wait(PromptProgress)
    loaded.submit(AbortRequest("a"))
    is_told.set()
    end = loaded.wait_end("a")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.ABORTED
    assert end.stats.num_completion_tokens == 0
    computed = loads.backends[0].num_computed_tokens
    time.sleep(0.15)
    assert loads.backends[0].num_computed_tokens == computed < 400, "it computes nothing more"
    loaded.submit(_request("b", "p" * 400, max_tokens=1))
    assert loaded.wait(RequestStarted).num_reused_tokens == computed, "what was read stays"


@pytest.mark.parametrize("command", [AbortRequest("a"), EjectModel(), LoadModel(MODEL)])
def test_a_stop_ends_a_step_that_would_take_long(loaded: EventLog, loads: FakeLoads, command: Command) -> None:
    begun = threading.Event()

    def run_long(slices: object) -> None:
        begun.set()
        assert loads.backends[0].is_interrupted.wait(60)

    loads.before_run = run_long
    loaded.submit(_request("a", "p" * 40))
    assert begun.wait(60)
    loaded.submit(command)
    end = loaded.wait_end("a")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.ABORTED


def test_a_stop_keeps_the_text_so_far(loaded: EventLog, loads: FakeLoads) -> None:
    is_told = _hold_after(loaded, loads, Delta, lambda event: event.num_completion_tokens >= 5)
    loaded.submit(_request("a", "talk", max_tokens=400, stop=("never there",)))
    loaded.wait(Delta, where=lambda event: event.num_completion_tokens >= 5)
    loaded.submit(AbortRequest("a"))
    is_told.set()
    end = loaded.wait_end("a")
    assert isinstance(end, RequestFinished)
    assert 5 <= end.stats.num_completion_tokens < 400
    assert loaded.text("a") == answer("talk", end.stats.num_completion_tokens)


def test_requests_run_side_by_side(loaded: EventLog) -> None:
    loaded.submit(*[_request(f"r{n}", f"request {n}", max_tokens=30) for n in range(20)])
    for n in range(20):
        if not loaded.of(RequestFinished, f"r{n}"):
            loaded.wait_end(f"r{n}")
    assert all(loaded.text(f"r{n}") == answer(f"request {n}", 30) for n in range(20))


def test_the_same_request_twice_is_answered_once(loaded: EventLog, loads: FakeLoads) -> None:
    both_came = threading.Event()
    loads.before_run = lambda slices: both_came.wait(60)
    loaded.submit(_request("a", "twice"), _request("a", "twice"))
    both_came.set()
    loaded.wait_end("a")
    loaded.submit(_request("b", "x"))
    loaded.wait_end("b")
    assert loaded.text("a") == answer("twice", 20)
    assert [notice.request_id for notice in loaded.of(Notice)][-1] == "a"


def test_invalid_numbers_fail_the_request_and_keep_its_text(loaded: EventLog, loads: FakeLoads) -> None:
    whole = answer("poison", 20)
    bad = next(letter for letter in whole[5:] if letter not in whole[:5] and letter not in "poison")
    loads.backends[0].poison = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456.\n".index(bad)
    loaded.submit(_request("a", "poison"))
    failed = loaded.wait_end("a")
    assert isinstance(failed, RequestFailed)
    assert failed.message.startswith("The model produced invalid numbers")
    assert loaded.text("a") == whole[: whole.index(bad) + 1]
    loads.backends[0].poison = None
    loaded.submit(_request("b", "poison"))
    loaded.wait_end("b")
    assert loaded.text("b") == whole, "nothing of the failed run is reused"


def test_a_step_that_raises_fails_its_requests_and_the_engine_goes_on(loaded: EventLog, loads: FakeLoads) -> None:
    def explode(slices: object) -> None:
        raise RuntimeError("no such kernel")

    loads.before_run = explode
    loaded.submit(_request("a", "x"))
    failed = loaded.wait_end("a")
    assert isinstance(failed, RequestFailed)
    assert "no such kernel" in failed.message
    loads.before_run = lambda slices: None
    loaded.submit(_request("b", "x"))
    loaded.wait_end("b")
    assert loaded.text("b") == answer("x", 20)


def test_a_receiver_that_raises_does_not_end_the_engine(loads: FakeLoads) -> None:
    from engine import EngineThread

    seen: list[object] = []
    done = threading.Event()

    def receive(event: object) -> None:
        seen.append(event)
        if isinstance(event, RequestFinished):
            done.set()
        raise ValueError("a careless receiver")

    thread = EngineThread(receive, load=loads)
    thread.start()
    thread.submit(LoadModel(MODEL))
    thread.submit(_request("a", "x"))
    assert done.wait(60)
    assert thread.stop(60)
    assert isinstance(seen[-1], EngineStopped)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_thousand_random_commands_never_mix_answers(seed: int) -> None:
    """Submit, abort, load and eject at random; each text is the beginning of its own answer."""
    rng = random.Random(seed)
    loads = FakeLoads(context_length=256, num_blocks=24)
    loads.errors["broken.gguf"] = CorruptFileError("broken.gguf", "it is damaged; download it again")
    prompts: dict[str, str] = {}
    with engine_thread(load=loads) as engine:
        engine.submit(LoadModel(MODEL))
        for step in range(1000):
            roll = rng.random()
            if roll < 0.5:
                base = rng.choice(list(prompts.values())) if prompts and rng.random() < 0.7 else ""
                name = f"r{step}"
                prompts[name] = (base + f"say {rng.randrange(10)}. ")[-150:]
                engine.submit(_request(name, prompts[name], max_tokens=rng.randrange(1, 40)))
            elif roll < 0.75 and prompts:
                engine.submit(AbortRequest(rng.choice(list(prompts))))
            elif roll < 0.78:
                engine.submit(LoadModel(Path(rng.choice(["model.gguf", "other.gguf", "broken.gguf"]))))
            elif roll < 0.79:
                engine.submit(EjectModel())
            elif roll < 0.85:
                time.sleep(0.002)
        engine.submit(LoadModel(MODEL), _request("last", "still here?"))
        engine.wait_end("last")
    assert engine.text("last") == answer("still here?", 20)
    for name, prompt in prompts.items():
        ends = engine.of(RequestFinished, name) + engine.of(RequestFailed, name)
        assert len(ends) == 1, "each request ends exactly once"
        assert answer(prompt, 40).startswith(engine.text(name))
        if isinstance(ends[0], RequestFailed):
            assert "No model is loaded" in ends[0].message
    assert all(backend.is_closed.is_set() for backend in loads.backends)


def test_alternatives_come_before_the_text_that_shows_their_token(engine: EventLog) -> None:
    engine.submit(LoadModel(MODEL), replace(_request("a", "hello", 6), logprobs=2), _request("b", "hello", 6))
    engine.wait_end("a")
    engine.wait_end("b")
    seen = [event for event in engine.events if isinstance(event, TokenAlternatives | Delta)]
    mine = [event for event in seen if event.request_id == "a"]
    assert [type(event) for event in mine] == [TokenAlternatives, Delta] * 6
    for alternatives, delta in zip(mine[::2], mine[1::2], strict=True):
        assert isinstance(alternatives, TokenAlternatives)
        assert alternatives.num_completion_tokens == delta.num_completion_tokens
        assert alternatives.text == delta.text
        assert alternatives.chosen is not None
        assert alternatives.chosen == alternatives.alternatives[0], "greedy"
        assert len(alternatives.alternatives) == 2
        assert alternatives.alternatives[1].logprob < alternatives.chosen.logprob < 0
    assert not engine.of(TokenAlternatives, "b")


@pytest.mark.parametrize("number", [-1, 101, 10**9])
def test_an_impossible_number_of_alternatives_is_refused_in_a_sentence(engine: EventLog, number: int) -> None:
    engine.submit(replace(_request("a", "hello"), logprobs=number))
    end = engine.wait_end("a")
    assert isinstance(end, RequestFailed)
    assert "logprobs" in end.message


def test_a_decision_that_is_stopped_before_it_began_fails(loaded: EventLog) -> None:
    decide = Decide("d", (Message(Role.USER, "Red or blue?"),), ("red", "blue"))
    loaded.submit(decide, AbortRequest("d"))
    assert isinstance(loaded.wait_end("d"), RequestFailed)
    loaded.submit(_request("after", "hello"))
    loaded.wait_end("after")
    assert not loaded.of(Decided, "d")
