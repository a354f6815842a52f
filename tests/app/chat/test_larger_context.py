"""Where the context is full: a larger one is offered with what it costs, and the chat goes on in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.chat.chat_page import ChatPage
from app.chat.larger_context import larger_context
from app.chat.message_actions import MessageAction
from app.theme import Theme
from engine.protocol import ContextOverflow, ContextPolicy, FinishReason, LoadModel, ModelLoaded, RequestFailed
from tests.app.conftest import Bench
from tests.app.fake_engine import model_info

_INFO = replace(
    model_info(Path("model.gguf")), trained_context_length=8192, kv_bytes=40_960_000, num_kv_tokens=4096
)


@pytest.fixture
def page(bench: Bench, theme: Theme, qtbot: QtBot) -> ChatPage:
    made = ChatPage(bench.controller, theme)
    qtbot.addWidget(made)
    made.resize(800, 600)
    made.show()
    bench.engine.on_event(ModelLoaded(_INFO, 1.0))
    qtbot.waitUntil(lambda: bench.controller.model_info is not None)
    qtbot.waitUntil(lambda: bench.controller.model_info.trained_context_length == 8192)  # type: ignore[union-attr]
    return made


def _offer(page: ChatPage) -> QPushButton | None:
    found = [button for button in page.findChildren(QPushButton) if button.text() == "Use a larger context…"]
    return found[-1] if found else None


def _press(page: ChatPage, text: str) -> None:
    [button] = [each for each in page.findChildren(QPushButton) if each.text() == text and each.isVisible()]
    button.click()


def _full(bench: Bench) -> None:
    bench.controller.send("a long story")
    request_id = bench.request()
    bench.engine.say(request_id, "Once upon")
    bench.engine.finish(request_id, FinishReason.CONTEXT)
    bench.wait_idle()


def test_an_answer_that_filled_the_context_goes_on_in_a_larger_one(
    bench: Bench, page: ChatPage, qtbot: QtBot
) -> None:
    _full(bench)
    button = _offer(page)
    assert button is not None
    qtbot.waitUntil(button.isVisible)
    button.click()
    assert "4,096 tokens" in page.notice_bar.text, "the cost is said before"
    assert "no more memory" in page.notice_bar.text
    num_loads = sum(isinstance(command, LoadModel) for command in bench.engine.commands)
    _press(page, "Load it again")
    request = bench.request()
    loads = [command for command in bench.engine.commands if isinstance(command, LoadModel)]
    assert len(loads) == num_loads + 1
    assert loads[-1].context_length == 4096
    assert bench.engine.requests[-1].messages[-1].content == "Once upon", "it is continued"
    bench.engine.say(request, " a time")
    bench.engine.finish(request)
    bench.wait_idle()
    assert bench.controller.current_messages[-1].record.content == "Once upon a time"
    assert bench.context.settings.value("context_length") == 4096


def test_a_message_that_does_not_fit_is_answered_in_a_larger_context(bench: Bench, page: ChatPage) -> None:
    bench.controller.send("much too long")
    overflow = ContextOverflow(5000, False, 2048, can_drop_turns=False)
    bench.engine.on_event(RequestFailed(bench.request(), "It does not fit.", overflow))
    bench.wait_idle()
    bench.engine.requests.clear()
    button = _offer(page)
    assert button is not None
    button.click()
    assert "8,192 tokens" in page.notice_bar.text, "as large as the message needs"
    assert "41 MB of memory are taken in addition" in page.notice_bar.text
    _press(page, "Load it again")
    request = bench.request()
    assert bench.engine.requests[-1].messages[-1].content == "much too long"
    bench.engine.finish(request)
    bench.wait_idle()
    assert _offer(page) is None or not _offer(page).isVisible()  # type: ignore[union-attr]


def test_an_answer_that_has_no_room_to_go_on_goes_on_without_the_oldest_turns(bench: Bench, page: ChatPage) -> None:
    bench.controller.set_options({"context_policy": "stop"})
    _full(bench)
    before = bench.controller.current_messages[-1].record
    bench.controller.continue_answer(before.id)
    overflow = ContextOverflow(2049, False, 2048, can_drop_turns=True)
    bench.engine.on_event(RequestFailed(bench.request(), "It does not fit.", overflow))
    bench.wait_idle()
    bench.engine.requests.clear()
    after = bench.controller.current_messages[-1].record
    assert (after.content, after.status) == (before.content, before.status)
    assert (before.stats or {}).items() <= (after.stats or {}).items()
    assert page.notice_bar.text == "It does not fit."
    bench.qtbot.waitUntil(lambda: _offer(page) is not None and _offer(page).isVisible())  # type: ignore[union-attr]
    _press(page, "Go on without the oldest turns")
    request = bench.request()
    assert bench.engine.requests[-1].messages[-1].content == "Once upon", "it is continued"
    assert bench.engine.requests[-1].context_policy is ContextPolicy.KEEP_RECENT
    bench.engine.say(request, " a time")
    bench.engine.finish(request)
    bench.wait_idle()
    assert bench.controller.current_messages[-1].record.content == "Once upon a time"


def test_a_model_that_knows_no_more_says_so(bench: Bench, page: ChatPage) -> None:
    _full(bench)
    bench.engine.on_event(ModelLoaded(replace(_INFO, trained_context_length=2048), 1.0))
    bench.qtbot.waitUntil(lambda: bench.controller.model_info.trained_context_length == 2048)  # type: ignore[union-attr]
    button = _offer(page)
    assert button is not None
    button.click()
    assert page.notice_bar.text.startswith("The model knows no larger context")


def test_nothing_is_offered_where_there_was_room_or_more_follows(bench: Bench, page: ChatPage) -> None:
    bench.ask("hello", "hi")
    assert _offer(page) is None
    _full(bench)
    assert _offer(page) is not None
    bench.ask("and then?", "nothing")
    bench.qtbot.waitUntil(lambda: _offer(page) is None)


def test_the_cost_of_a_larger_context() -> None:
    info = replace(_INFO, trained_context_length=20_000)
    offer = larger_context(info, 10_000_000, 9000, load_s=2.0, reading_rate=100.0)
    assert offer is not None
    assert offer.context_length == 16_384
    assert offer.more_bytes == (16_384 - 4096) * 10_000
    assert (offer.load_ms, offer.read_ms) == (2000, 20_480)
    assert "123 MB of memory are taken in addition. Only 10 MB are free now." in offer.sentence
    assert offer.sentence.endswith("takes about 22 s.")
    rounded = larger_context(info, 10_000_000, 17_000)
    assert rounded is not None
    assert rounded.context_length == 20_000
    assert larger_context(info, 10_000_000, 20_000) is None, "no room for an answer"
    assert larger_context(replace(info, context_length=20_000), 10_000_000) is None


def test_an_offer_goes_with_its_chat(bench: Bench, page: ChatPage) -> None:
    bench.ask("q", "a")
    answer = bench.controller.current_messages[-1].record
    page.transcript.asked.emit(answer.id, MessageAction.LARGER_CONTEXT)
    assert page.notice_bar.isVisible()
    bench.controller.new_conversation()
    assert not page.notice_bar.isVisible()
    before = len(bench.engine.commands)
    bench.controller.enlarge_context(answer.id, 4096)
    bench.controller.drop_turns(answer.id)
    assert bench.controller.larger_context(answer.id) is None
    assert len(bench.engine.commands) == before
