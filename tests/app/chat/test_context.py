from __future__ import annotations

import pytest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.chat.answer import Answer
from app.chat.chat_page import ChatPage
from app.chat.conversation import MessageView
from app.chat.transcript import Transcript
from app.storage.records import MessageRecord
from app.theme import Theme
from engine.protocol import (
    Command,
    ContextOverflow,
    ContextPolicy,
    ContextShifted,
    LoadModel,
    PrefillDraft,
    Priority,
    RequestFailed,
    Role,
    SetPriority,
)
from tests.app.conftest import Bench, BenchMaker


def _commands(bench: Bench, kind: type[Command]) -> list[Command]:
    return [command for command in bench.engine.commands if isinstance(command, kind)]


def test_what_left_the_context_is_known_while_it_streams_and_afterwards(
    bench: Bench, make_bench: BenchMaker
) -> None:
    bench.controller.set_options({"system_prompt": "Be brief."})
    bench.ask("first", "one")
    bench.ask("second", "two")
    assert bench.controller.context_start == ""
    heard: list[str] = []
    bench.controller.context_shifted.connect(heard.append)
    bench.controller.send("third")
    request_id = bench.request()
    assert bench.engine.requests[-1].context_policy is ContextPolicy.KEEP_RECENT
    bench.engine.on_event(ContextShifted(request_id, (1, 2), 900, 1024))
    bench.qtbot.waitUntil(lambda: bool(heard))
    second = bench.controller.current_messages[2].record
    assert second.content == "second"
    assert bench.controller.context_start == second.id
    bench.engine.say(request_id, "three")
    bench.engine.finish(request_id)
    bench.wait_idle()
    assert bench.controller.context_start == second.id
    bench.settle()
    make_bench.close(bench)
    assert make_bench().controller.context_start == second.id


def test_the_policy_is_a_chats_own(bench: Bench) -> None:
    bench.controller.set_options({"context_policy": "stop"})
    bench.controller.send("first")
    bench.request()
    assert bench.engine.requests[-1].context_policy is ContextPolicy.STOP


def test_an_answer_that_reads_everything_again_ends_the_line(bench: Bench) -> None:
    bench.ask("first", "one")
    bench.controller.send("second")
    request_id = bench.request()
    bench.engine.on_event(ContextShifted(request_id, (0, 1), 900, 1024))
    bench.engine.finish(request_id)
    bench.wait_idle()
    assert bench.controller.context_start == bench.controller.current_messages[2].record.id
    bench.ask("third", "three")
    assert bench.controller.context_start == "", "a larger context was loaded meanwhile"


def test_a_chat_that_stopped_because_it_is_full_goes_on_without_its_oldest_turns(
    bench: Bench, theme: Theme, qtbot: QtBot, make_bench: BenchMaker
) -> None:
    bench.controller.set_options({"context_policy": "stop", "temperature": 0.2})
    bench.ask("first", "one")
    bench.controller.send("second")
    overflow = ContextOverflow(3000, False, 2048, can_drop_turns=True)
    bench.engine.on_event(RequestFailed(bench.request(), "It does not fit.", overflow))
    bench.wait_idle()
    bench.settle()
    make_bench.close(bench)
    bench = make_bench()
    page = ChatPage(bench.controller, theme)
    qtbot.addWidget(page)
    page.resize(800, 600)
    page.show()
    bench.controller.open_conversation(bench.controller.current_id)

    def offers() -> list[QPushButton]:
        return [b for b in page.findChildren(QPushButton) if b.text() == "Go on without the oldest turns"]

    [offer] = offers()
    qtbot.waitUntil(offer.isVisible)
    offer.click()
    bench.qtbot.waitUntil(lambda: bool(bench.engine.requests))
    request = bench.engine.requests[-1]
    assert request.context_policy is ContextPolicy.KEEP_RECENT
    assert request.messages[-1].content == "second"
    assert bench.controller.current_conversation.options == {"context_policy": "keep_recent", "temperature": 0.2}
    bench.engine.finish(request.request_id)
    bench.wait_idle()
    assert bench.controller.current_messages[-1].num_siblings == 2, "the refusal is another version"
    assert not any(offer.isVisible() for offer in offers())


def test_a_message_that_is_too_long_by_itself_is_offered_nothing(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    bench.controller.send("much too long")
    overflow = ContextOverflow(3000, False, 2048, can_drop_turns=False)
    bench.engine.on_event(RequestFailed(bench.request(), "It does not fit.", overflow))
    bench.wait_idle()
    answer = Answer(theme, bench.controller.current_messages[-1])
    qtbot.addWidget(answer)
    answer.set_open(True)
    assert "Go on without the oldest turns" not in [button.text() for button in answer.findChildren(QPushButton)]


def test_the_visible_chat_is_computed_first(bench: Bench) -> None:
    bench.controller.send("first")
    first = bench.request()
    assert bench.engine.requests[-1].priority is Priority.VISIBLE
    first_chat = bench.controller.current_id
    bench.controller.new_conversation()
    bench.controller.open_conversation(first_chat)
    changes = [command for command in _commands(bench, SetPriority) if isinstance(command, SetPriority)]
    assert [(change.request_id, change.priority) for change in changes] == [
        (first, Priority.NORMAL),
        (first, Priority.VISIBLE),
    ]


def test_a_long_draft_is_read_ahead_and_a_short_one_is_not(bench: Bench) -> None:
    bench.ask("first", "one")
    bench.controller.count_tokens("short")
    bench.qtbot.wait(250)
    assert _commands(bench, PrefillDraft) == []
    bench.controller.count_tokens("long " * 200)
    bench.qtbot.waitUntil(lambda: bool(_commands(bench, PrefillDraft)))
    [draft] = _commands(bench, PrefillDraft)
    assert isinstance(draft, PrefillDraft)
    assert [message.role for message in draft.messages] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert draft.messages[-1].content == "long " * 200
    bench.controller.count_tokens("")
    bench.qtbot.waitUntil(lambda: len(_commands(bench, PrefillDraft)) == 2)
    ended = _commands(bench, PrefillDraft)[-1]
    assert isinstance(ended, PrefillDraft)
    assert ended.messages == ()
    bench.context.settings.set("reads_ahead", False)
    bench.controller.count_tokens("long " * 300)
    bench.qtbot.wait(250)
    assert len(_commands(bench, PrefillDraft)) == 2


def test_a_draft_is_read_with_the_functions_that_the_request_will_offer(bench: Bench) -> None:
    bench.controller.set_options({"tools": '[{"name": "get_time"}]'})
    bench.controller.count_tokens("long " * 200)
    bench.qtbot.waitUntil(lambda: bool(_commands(bench, PrefillDraft)))
    [draft] = _commands(bench, PrefillDraft)
    assert isinstance(draft, PrefillDraft)
    assert [tool.name for tool in draft.tools] == ["get_time"]
    assert not draft.only_kept


def test_what_the_disk_has_of_a_chat_comes_back_when_it_is_opened(bench: Bench, make_bench: BenchMaker) -> None:
    bench.ask("first", "one")
    chat = bench.controller.current_id
    bench.controller.new_conversation()
    bench.qtbot.wait(250)
    assert _commands(bench, PrefillDraft) == [], "an empty chat has nothing there"
    bench.controller.open_conversation(chat)
    bench.qtbot.waitUntil(lambda: bool(_commands(bench, PrefillDraft)))
    [recalled] = _commands(bench, PrefillDraft)
    assert isinstance(recalled, PrefillDraft)
    assert recalled.conversation_id == chat
    assert recalled.only_kept
    assert [message.content for message in recalled.messages] == ["first", "one", ""]
    bench.settle()
    make_bench.close(bench)
    again = make_bench()
    again.qtbot.waitUntil(lambda: bool(_commands(again, PrefillDraft)))
    assert len(_commands(again, PrefillDraft)) == 1, "at a start, once the model is there"


def test_an_attachment_is_read_ahead_with_the_draft(bench: Bench) -> None:
    bench.controller.attachments.add_text(bench.controller.current_conversation, "clause " * 100, "contract.txt")
    bench.qtbot.waitUntil(lambda: bool(bench.controller.attachments.draft(bench.controller.current_id)))
    bench.controller.count_tokens("Sum it up")
    bench.qtbot.waitUntil(lambda: bool(_commands(bench, PrefillDraft)))
    draft = _commands(bench, PrefillDraft)[0]
    assert isinstance(draft, PrefillDraft)
    assert draft.messages[-1].content.startswith("[contract.txt]\nclause")
    assert draft.messages[-1].content.endswith("Sum it up")


def test_the_cache_type_is_a_setting(bench: Bench) -> None:
    bench.context.settings.set("kv_type", "q8_0")
    bench.controller.load_model("other.gguf")
    load = _commands(bench, LoadModel)[-1]
    assert isinstance(load, LoadModel)
    assert load.kv_type == "q8_0"


@pytest.fixture
def transcript(theme: Theme, qtbot: QtBot) -> Transcript:
    made = Transcript(theme)
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    return made


def test_the_line_stands_above_the_first_message_that_is_read(transcript: Transcript) -> None:
    roles = [Role.USER, Role.ASSISTANT] * 3
    records = [MessageRecord(str(n), "c", None, role, f"text {n}") for n, role in enumerate(roles)]
    views = [MessageView(record, 0, 1) for record in records]
    transcript.show_conversation(views)

    def lines() -> list[str]:
        return [widget.message_id for widget in transcript.widgets if widget._context_line is not None]

    transcript.set_context_start("2")
    assert lines() == ["2"]
    transcript.set_context_start("4")
    assert lines() == ["4"]
    transcript.show_conversation(views)
    assert lines() == ["4"], "a widget that is made later has it, too"
    transcript.set_context_start("")
    assert lines() == []
