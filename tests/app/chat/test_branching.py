from __future__ import annotations

from dataclasses import replace

from pytestqt.qtbot import QtBot

from app.chat.chat_page import ChatPage
from app.chat.tool_calls import calls_of
from app.storage.records import MessageStatus
from app.theme import Theme
from engine.protocol import (
    Channel,
    Event,
    FinishReason,
    RequestFailed,
    RequestFinished,
    RequestStats,
    Role,
    ToolCall,
    ToolCalled,
)
from tests.app.conftest import Bench, BenchMaker


def _texts(bench: Bench) -> list[str]:
    return [view.record.content for view in bench.controller.current_messages]


def _last(bench: Bench) -> str:
    return bench.controller.current_messages[-1].record.id


def test_a_stopped_answer_goes_on_in_its_own_message(bench: Bench, make_bench: BenchMaker) -> None:
    bench.controller.send("count")
    request = bench.request()
    bench.engine.say(request, "one, tw")
    bench.controller.stop()
    bench.wait_idle()
    answer_id = _last(bench)
    bench.controller.continue_answer(answer_id)
    request = bench.request()
    messages = bench.engine.requests[-1].messages
    assert [(message.role, message.content) for message in messages] == [
        (Role.USER, "count"),
        (Role.ASSISTANT, "one, tw"),
    ], "an answer that ends the prompt is continued"
    bench.engine.say(request, "o, three")
    bench.qtbot.waitUntil(lambda: _texts(bench) == ["count", "one, two, three"])
    bench.engine.finish(request)
    bench.wait_idle()
    view = bench.controller.current_messages[-1]
    assert (view.record.id, view.record.status, view.num_siblings) == (answer_id, MessageStatus.COMPLETE, 1)
    make_bench.close(bench)
    assert _texts(make_bench()) == ["count", "one, two, three"]


def test_stopping_a_continued_answer_keeps_both_parts(bench: Bench) -> None:
    bench.ask("count", "one, ")
    bench.controller.continue_answer(_last(bench))
    bench.engine.say(bench.request(), "two")
    bench.controller.stop()
    bench.wait_idle()
    assert _texts(bench) == ["count", "one, two"]


def _continue_to(bench: Bench, *events: Event) -> None:
    """Go on with the last answer, and let the engine say these events of the request."""
    bench.engine.requests.clear()
    bench.controller.continue_answer(_last(bench))
    request_id = bench.request()
    for event in events:
        bench.engine.on_event(replace(event, request_id=request_id))
    bench.wait_idle()


def test_an_answer_stays_as_it_was_when_nothing_comes_of_going_on(bench: Bench, make_bench: BenchMaker) -> None:
    bench.ask("count", "one, two")
    before = bench.controller.current_messages[-1].record
    assert before.stats is not None
    _continue_to(bench, RequestFailed("", "The engine failed."))
    assert bench.controller.current_messages[-1].record == before
    assert bench.notices == ["The engine failed."]
    _continue_to(bench, RequestFinished("", FinishReason.STOP, RequestStats(10, 4, 1, 1.0, 2.0, 3.0, 99.0, 7)))
    assert bench.controller.current_messages[-1].record == before
    assert bench.notices[1:] == ["The model has nothing to add to this answer."]
    bench.controller.continue_answer(_last(bench))
    bench.request()
    bench.controller.stop()
    bench.wait_idle()
    assert bench.controller.current_messages[-1].record == before
    assert len(bench.notices) == 2, "who stops it knows why"
    make_bench.close(bench)
    assert make_bench().controller.current_messages[-1].record == before


def test_an_answer_that_failed_after_some_words_more_says_so(bench: Bench) -> None:
    bench.ask("count", "one")
    bench.controller.continue_answer(_last(bench))
    request_id = bench.request()
    bench.engine.say(request_id, ", two")
    bench.engine.on_event(RequestFailed(request_id, "The engine failed."))
    bench.wait_idle()
    record = bench.controller.current_messages[-1].record
    assert (record.content, record.status) == ("one, two", MessageStatus.FAILED)
    assert record.error == "The engine failed."


def test_the_time_of_thinking_adds_up_when_an_answer_goes_on(bench: Bench) -> None:
    bench.controller.send("why?")
    bench.engine.say(bench.request(), "hm", Channel.REASONING)
    bench.engine.say(bench.request(), "because")
    bench.engine.finish(bench.request())
    bench.wait_idle()
    before = (bench.controller.current_messages[-1].record.stats or {})["reasoning_ms"]
    bench.controller.continue_answer(_last(bench))
    bench.engine.say(bench.request(), " of it")
    bench.engine.finish(bench.request())
    bench.wait_idle()
    assert (bench.controller.current_messages[-1].record.stats or {})["reasoning_ms"] == before


def test_an_answer_that_ends_with_a_call_goes_on_beside_itself(bench: Bench) -> None:
    bench.controller.send("the weather?")
    request_id = bench.request()
    bench.engine.say(request_id, "I look.")
    bench.engine.on_event(ToolCalled(request_id, ToolCall("weather", "{}", "1")))
    bench.engine.finish(request_id)
    bench.wait_idle()
    first = bench.controller.current_messages[-1].record
    _continue_to(bench, RequestFailed("", "The engine failed."))
    bench.controller.select_sibling(_last(bench), -1)
    assert bench.controller.current_messages[-1].record == first
    assert calls_of(first)


def test_an_answer_that_was_replied_to_goes_on_beside_itself(bench: Bench) -> None:
    bench.ask("count", "one")
    first = _last(bench)
    bench.ask("go on", "two")
    bench.controller.continue_answer(first)
    request = bench.request()
    bench.engine.say(request, " and a half")
    bench.engine.finish(request)
    bench.wait_idle()
    assert _texts(bench) == ["count", "one and a half"]
    bench.controller.select_sibling(_last(bench), -1)
    assert _texts(bench) == ["count", "one", "go on", "two"], "the reply still follows what it replied to"


def test_an_empty_answer_is_begun_anew(bench: Bench) -> None:
    bench.controller.send("hello")
    bench.request()
    bench.controller.stop()
    bench.wait_idle()
    bench.controller.continue_answer(_last(bench))
    bench.request()
    assert [message.content for message in bench.engine.requests[-1].messages] == ["hello"]


def test_a_fork_is_a_chat_of_its_own(bench: Bench, make_bench: BenchMaker) -> None:
    bench.ask("first", "one")
    middle = _last(bench)
    bench.ask("second", "two")
    original = bench.controller.current_id
    bench.controller.set_options({"temperature": 0.1})
    bench.controller.fork(middle)
    fork = bench.controller.current_id
    assert fork != original
    assert _texts(bench) == ["first", "one"]
    assert bench.controller.current_conversation.title == "first (2)"
    assert bench.controller.current_conversation.options == {"temperature": 0.1}
    bench.ask("other", "three")
    bench.controller.open_conversation(original)
    assert _texts(bench) == ["first", "one", "second", "two"]
    make_bench.close(bench)
    again = make_bench()
    again.controller.open_conversation(fork)
    assert _texts(again) == ["first", "one", "other", "three"]
    again.controller.fork(_last(again))
    assert again.controller.current_conversation.title == "first (3)"


def test_a_fork_while_the_answer_streams_leaves_the_stream_alone(bench: Bench) -> None:
    bench.controller.send("count")
    request = bench.request()
    bench.engine.say(request, "one")
    bench.qtbot.waitUntil(lambda: _texts(bench) == ["count", "one"])
    original = bench.controller.current_id
    bench.controller.fork(_last(bench))
    bench.engine.say(request, ", two")
    bench.engine.finish(request)
    bench.wait_idle()
    assert _texts(bench) == ["count", "one"]
    assert bench.controller.current_messages[-1].record.status is MessageStatus.STOPPED
    bench.controller.open_conversation(original)
    assert _texts(bench) == ["count", "one, two"]


def test_reproduce_draws_with_the_same_seed(bench: Bench) -> None:
    bench.ask("dice", "four")
    bench.controller.reproduce(_last(bench))
    request = bench.request()
    assert bench.engine.requests[-1].sampling.seed == 7
    bench.engine.finish(request)
    bench.wait_idle()
    assert bench.controller.current_messages[-1].num_siblings == 2
    bench.controller.reproduce("no such message")
    bench.controller.send("more")
    bench.controller.stop()
    bench.wait_idle()
    assert bench.notices == ["The seed of this answer is not known, so it cannot be drawn again."]


def test_a_branch_from_other_words_stands_beside_the_answer(bench: Bench) -> None:
    bench.ask("colour?", "red is nice")
    bench.controller.branch_from(_last(bench), "blue")
    request = bench.request()
    assert bench.engine.requests[-1].messages[-1].content == "blue"
    bench.engine.say(request, " is nicer")
    bench.engine.finish(request, FinishReason.STOP)
    bench.wait_idle()
    assert _texts(bench) == ["colour?", "blue is nicer"]
    bench.controller.select_sibling(_last(bench), -1)
    assert _texts(bench) == ["colour?", "red is nice"]


def test_the_keyboard_reaches_every_version_and_takes_each_step_back(
    bench: Bench, theme: Theme, qtbot: QtBot
) -> None:
    page = ChatPage(bench.controller, theme)
    qtbot.addWidget(page)
    page.show()

    bench.ask("birds", "one")
    bench.controller.regenerate(bench.controller.current_messages[-1].record.id)
    bench.engine.say(bench.request(), "two")
    bench.engine.finish(bench.request())
    bench.wait_idle()
    bench.controller.edit_and_resend(bench.controller.current_messages[0].record.id, "fish")
    bench.engine.say(bench.request(), "three")
    bench.engine.finish(bench.request())
    bench.wait_idle()
    assert _texts(bench) == ["fish", "three"]
    seen = [_texts(bench)]
    for step in (-1, -1, -1, 1, 1, 1):
        page.branch.step_version(step)
        seen.append(_texts(bench))
    last, middle, first = ["fish", "three"], ["birds", "two"], ["birds", "one"]
    assert seen == [last, middle, first, first, middle, last, last]
    own = page.transcript.widgets[0]
    assert own.foot._versions.isVisible(), "that there is another version is seen without pointing at it"
    assert own.foot._versions.text() == "2 / 2"
