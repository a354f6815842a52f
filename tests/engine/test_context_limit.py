"""Conversations that outgrow the context, and drafts that are read ahead, through the engine thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine.kernels.backend import SequenceSlice
from engine.protocol import (
    AbortRequest,
    ContextOverflow,
    ContextPolicy,
    ContextShifted,
    FinishReason,
    GenerateRequest,
    LoadModel,
    Message,
    ModelLoaded,
    PrefillDraft,
    Priority,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    RereadReason,
    Role,
    SetPriority,
)
from engine.sampling.params import SamplingParams
from tests.engine.fake_backend import continuation
from tests.engine.fake_model import END, FakeLoads, FakeTokenizer, answer
from tests.integration.engine_events import EventLog, engine_thread

CONTEXT = 512
GREEDY = SamplingParams(temperature=0)
KEEP = ContextPolicy.KEEP_RECENT


@pytest.fixture
def loads() -> FakeLoads:
    return FakeLoads(CONTEXT, num_blocks=200)


@pytest.fixture
def engine(loads: FakeLoads) -> Iterator[EventLog]:
    with engine_thread(load=loads) as log:
        log.submit(LoadModel(Path("model.gguf")))
        log.wait(ModelLoaded)
        yield log


def _ask(
    engine: EventLog,
    name: str,
    messages: list[Message],
    max_tokens: int = 8,
    policy: ContextPolicy = KEEP,
) -> RequestFinished | RequestFailed:
    engine.submit(
        GenerateRequest(
            name,
            tuple(messages),
            sampling=GREEDY,
            max_tokens=max_tokens,
            conversation_id="chat",
            context_policy=policy,
        )
    )
    return engine.wait_end(name)


def _kept(engine: EventLog, name: str, messages: list[Message]) -> str:
    """The text that the model should have read."""
    events = engine.of(ContextShifted, name)
    dropped = events[-1].dropped_messages if events else ()
    return "".join(each.content for index, each in enumerate(messages) if index not in dropped)


def test_a_chat_goes_on_for_ever_and_most_turns_read_only_what_is_new(engine: EventLog) -> None:
    messages = [Message(Role.SYSTEM, "be kind. ")]
    reasons, num_read, num_new = [], [], []
    for turn in range(40):
        name = f"turn {turn}"
        messages.append(Message(Role.USER, f"question {turn} " + "abcdefgh" * (turn % 4)))
        end = _ask(engine, name, messages)
        assert isinstance(end, RequestFinished)
        assert end.reason is FinishReason.LENGTH
        kept = _kept(engine, name, messages)
        assert kept.startswith("be kind. ")
        assert kept.endswith(messages[-1].content)
        assert engine.text(name) == answer(kept, 8), "exactly what is kept was read"
        assert end.stats.num_prompt_tokens == len(kept) < end.stats.context_length == CONTEXT
        reasons.append(end.stats.reread_reason)
        num_read.append(end.stats.num_read_tokens)
        num_new.append(end.stats.num_read_tokens - end.stats.num_reread_tokens)
        messages.append(Message(Role.ASSISTANT, engine.text(name)))
    num_shifts = reasons.count(RereadReason.CONTEXT_SHIFTED)
    assert 3 <= num_shifts <= 10
    assert sum(count > 60 for count in num_read) <= num_shifts, "other turns read their own words only"
    assert max(num_new) <= 60, "what is read again is told from what is new"
    shifted = engine.of(ContextShifted)
    assert all(event.dropped_messages[0] == 1 for event in shifted), "the system prompt stays"


def test_an_edit_behind_dropped_turns_is_no_shift(engine: EventLog) -> None:
    messages = [Message(Role.SYSTEM, "be kind. ")]
    for turn in range(4):
        messages += [Message(Role.USER, f"{turn}" * 110), Message(Role.ASSISTANT, "fine. ")]
    reasons = []
    for number, question in enumerate(["why is it so", "why is it so", "how come", "who says so"]):
        end = _ask(engine, f"ask {number}", [*messages, Message(Role.USER, question)])
        assert isinstance(end, RequestFinished)
        reasons.append(end.stats.reread_reason)
    assert len(engine.of(ContextShifted)) == 4
    assert reasons == [RereadReason.FIRST_TIME, RereadReason.NOTHING, *[RereadReason.CHANGED] * 2]


def test_the_other_policy_refuses_with_numbers(engine: EventLog) -> None:
    messages = [Message(Role.USER, "a" * 300), Message(Role.ASSISTANT, "b" * 100), Message(Role.USER, "c" * 200)]
    end = _ask(engine, "stop", messages, policy=ContextPolicy.STOP)
    assert isinstance(end, RequestFailed)
    assert "601 tokens" in end.message
    assert "512" in end.message
    assert "oldest turns" in end.message
    assert end.overflow == ContextOverflow(601, False, CONTEXT, can_drop_turns=True)
    assert not engine.of(ContextShifted)
    assert isinstance(_ask(engine, "keep", messages), RequestFinished)
    assert engine.of(ContextShifted, "keep")[0].dropped_messages == (0, 1)


@pytest.mark.parametrize("policy", ContextPolicy)
def test_a_message_that_cannot_fit_is_refused_with_numbers(engine: EventLog, policy: ContextPolicy) -> None:
    messages = [Message(Role.USER, "a" * 100), Message(Role.ASSISTANT, "b"), Message(Role.USER, "c" * 600)]
    end = _ask(engine, "big", messages, policy=policy)
    assert isinstance(end, RequestFailed)
    num_tokens = 702 if policy is ContextPolicy.STOP else 601
    assert f"{num_tokens} tokens" in end.message
    assert "512" in end.message
    assert "shorten the message" in end.message
    assert end.overflow == ContextOverflow(num_tokens, False, CONTEXT, can_drop_turns=False)
    assert not engine.of(ContextShifted)


def test_a_raw_prompt_that_cannot_fit_is_refused_with_numbers(engine: EventLog) -> None:
    engine.submit(GenerateRequest("raw", prompt="a" * 600, sampling=GREEDY))
    end = engine.wait_end("raw")
    assert isinstance(end, RequestFailed)
    assert end.overflow == ContextOverflow(601, False, CONTEXT, can_drop_turns=False)


def test_an_answer_that_fills_the_context_goes_on_without_the_oldest_turns(engine: EventLog) -> None:
    messages = [
        Message(Role.SYSTEM, "be kind. "),
        Message(Role.USER, "a" * 150),
        Message(Role.ASSISTANT, "b" * 50),
        Message(Role.USER, "tell me more. "),
    ]
    end = _ask(engine, "long", messages, max_tokens=380)
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.LENGTH
    assert end.stats.num_completion_tokens == 380
    (event,) = engine.of(ContextShifted, "long")
    assert event.dropped_messages == (1, 2)
    whole = "".join(message.content for message in messages)
    before = answer(whole, CONTEXT - len(whole))
    stats = end.stats
    kept = "tell me more. " + before
    assert (stats.num_reread_tokens, stats.reread_reason) == (len(kept) - 1, RereadReason.CONTEXT_SHIFTED)
    assert stats.num_read_tokens == len(whole) + len(kept) - 1, "the last token was computed for the first time"
    assert stats.num_reused_tokens <= stats.num_prompt_tokens
    encode = FakeTokenizer().encode
    expected = continuation(encode("be kind. tell me more. " + before), 380 - len(before), END)
    assert encode(engine.text("long")) == encode(before) + expected


def test_an_answer_that_has_nothing_left_to_drop_ends(engine: EventLog) -> None:
    messages = [Message(Role.SYSTEM, "be kind. "), Message(Role.USER, "tell me everything. ")]
    end = _ask(engine, "long", messages, max_tokens=0)
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.CONTEXT
    assert end.stats.num_completion_tokens == CONTEXT - 29
    messages = [Message(Role.USER, "x" * 50), Message(Role.ASSISTANT, "y" * 50), Message(Role.USER, "more. ")]
    end = _ask(engine, "stop", messages, max_tokens=0, policy=ContextPolicy.STOP)
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.CONTEXT
    assert end.stats.num_prompt_tokens + end.stats.num_completion_tokens == end.stats.context_length


def test_a_draft_is_read_ahead_and_taken_over(engine: EventLog, loads: FakeLoads) -> None:
    paste = "some pasted text. " * 15
    engine.submit(PrefillDraft("chat", (Message(Role.USER, paste),)))
    deadline = time.monotonic() + 60
    while loads.backends[0].num_computed_tokens < len(paste) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert loads.backends[0].num_computed_tokens == len(paste), "all of it, and no token is chosen"
    text = paste + "what is it?"
    end = _ask(engine, "a", [Message(Role.USER, text)])
    assert isinstance(end, RequestFinished)
    assert end.stats.num_reused_tokens == len(paste)
    assert engine.text("a") == answer(text, 8)


def test_a_draft_makes_way_and_is_replaced(engine: EventLog, loads: FakeLoads) -> None:
    sizes: list[list[int]] = []

    def note(slices: Sequence[SequenceSlice]) -> None:
        sizes.append([len(part.token_ids) for part in slices])
        time.sleep(0.02)

    loads.before_run = note
    backend = loads.backends[0]
    engine.submit(
        PrefillDraft("chat", (Message(Role.USER, "first draft " * 30),)),
        PrefillDraft("other", (Message(Role.USER, "d" * 480),)),
    )
    while backend.num_computed_tokens == 0:
        time.sleep(0.005)
    engine.submit(GenerateRequest("now", prompt="urgent", sampling=GREEDY, max_tokens=20, conversation_id="chat"))
    engine.wait_end("now")
    assert engine.text("now") == answer("urgent", 20)
    start = sizes.index([len("urgent")])
    assert sizes[start + 1 : start + 20] == [[1]] * 19, "the draft waited meanwhile"
    engine.submit(PrefillDraft("other"))
    engine.submit(GenerateRequest("last", prompt="x", sampling=GREEDY, max_tokens=2))
    engine.wait_end("last")
    computed = backend.num_computed_tokens
    time.sleep(0.15)
    assert backend.num_computed_tokens == computed, "an empty draft ends it"


def test_drafts_that_cannot_be_read_disturb_nobody(engine: EventLog) -> None:
    engine.submit(PrefillDraft("chat", (Message(Role.USER, "x" * 2000),)), PrefillDraft("chat", ()))
    engine.submit(PrefillDraft("chat", (Message(Role.USER, ""),)))
    assert isinstance(_ask(engine, "a", [Message(Role.USER, "hello")]), RequestFinished)


def test_the_priority_of_a_request_can_be_changed(engine: EventLog, loads: FakeLoads) -> None:
    is_told = threading.Event()

    def run_slowly(_slices: object) -> None:
        is_told.wait(60)
        time.sleep(0.01)  # else one step reads all

    loads.before_run = run_slowly
    for name, letter in (("first", "a"), ("second", "b")):
        engine.submit(GenerateRequest(name, prompt=letter * 400, sampling=GREEDY, max_tokens=1))
    engine.submit(SetPriority("second", Priority.VISIBLE), SetPriority("nobody", Priority.VISIBLE))
    is_told.set()
    ended = engine.wait(RequestFinished)
    assert ended.request_id == "second"
    engine.wait_end("first")
    assert engine.text("first") == answer("a" * 400, 1)


def test_a_shift_can_be_stopped(engine: EventLog, loads: FakeLoads) -> None:
    is_shifted, is_told = threading.Event(), threading.Event()
    engine.on_event = lambda event: is_shifted.set() if isinstance(event, ContextShifted) else None
    loads.before_run = lambda slices: is_told.wait(60) if is_shifted.is_set() else None
    messages = [Message(Role.USER, "a" * 450), Message(Role.ASSISTANT, "b"), Message(Role.USER, "more. ")]
    engine.submit(GenerateRequest("a", tuple(messages), sampling=GREEDY, max_tokens=400, context_policy=KEEP))
    engine.wait(ContextShifted)
    engine.submit(AbortRequest("a"))
    is_told.set()
    end = engine.wait_end("a")
    assert isinstance(end, RequestFinished)
    assert end.reason is FinishReason.ABORTED
    assert len(engine.of(RequestStarted, "a")) == 1
