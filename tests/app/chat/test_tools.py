from __future__ import annotations

import json

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.answer import Answer
from app.chat.chat_page import ChatPage
from app.chat.options_panel import OptionsPanel
from app.chat.tool_card import ResultsForm
from app.chat.tool_result import ToolResult
from app.chat.tools_dialog import EXAMPLE, ToolsDialog
from app.storage.records import MessageStatus
from app.theme import Theme
from engine.errors import InputError
from engine.protocol import Channel, Message, Role, Tool, ToolCall, ToolCalled
from engine.tools import parse_tools
from tests.app.conftest import Bench, BenchMaker

TOOLS = '[{"name": "get_time"}, {"name": "get_rain", "description": "Rain."}]'
FIRST = ToolCall("get_time", '{"zone": "UTC"}', "c1")
SECOND = ToolCall("get_rain", "{}", "c2")


def _call(bench: Bench, *calls: ToolCall) -> str:
    """A turn that ends with calls; gives the answer's id."""
    bench.controller.set_options({"tools": TOOLS})
    assert bench.controller.send("What time is it?")
    request_id = bench.request()
    bench.engine.say(request_id, "I look. ")
    for call in calls:
        bench.engine.say(request_id, call.arguments, Channel.TOOL_CALL)
        bench.engine.on_event(ToolCalled(request_id, call))
    bench.engine.finish(request_id)
    bench.wait_idle()
    return bench.controller.current_messages[-1].record.id


def test_the_model_is_told_of_the_functions_and_of_what_they_gave(bench: Bench, make_bench: BenchMaker) -> None:
    answer_id = _call(bench, FIRST, SECOND)
    bench.controller.give_results(answer_id, ["12:00", ""])
    request_id = bench.request()
    request = bench.engine.requests[-1]
    assert [tool.name for tool in request.tools] == ["get_time", "get_rain"]
    assert request.messages == (
        Message(Role.USER, "What time is it?"),
        Message(Role.ASSISTANT, "I look. ", "", (FIRST, SECOND)),
        Message(Role.TOOL, "12:00", name="get_time", call_id="c1"),
        Message(Role.TOOL, "", name="get_rain", call_id="c2"),
    )
    bench.engine.say(request_id, "It is noon.")
    bench.engine.finish(request_id)
    bench.wait_idle()
    make_bench.close(bench)
    again = make_bench()
    roles = [view.record.role for view in again.controller.current_messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT]
    again.controller.send("Thanks")
    again.request()
    assert again.engine.requests[-1].messages[:4] == request.messages, "a restart forgets none of it"


def test_calls_that_nobody_answered_are_left_out_when_the_chat_goes_on(bench: Bench) -> None:
    _call(bench, FIRST)
    bench.controller.send("Never mind")
    bench.request()
    assert bench.engine.requests[-1].messages == (
        Message(Role.USER, "What time is it?"),
        Message(Role.ASSISTANT, "I look. "),
        Message(Role.USER, "Never mind"),
    )


def test_an_edited_result_is_a_branch_with_the_later_results(bench: Bench) -> None:
    answer_id = _call(bench, FIRST, SECOND)
    bench.controller.give_results(answer_id, ["12:00", "dry"])
    bench.engine.finish(bench.request())
    bench.wait_idle()
    first = bench.controller.current_messages[2].record
    bench.controller.edit_and_resend(first.id, "13:00")
    bench.request()
    results = [one.content for one in bench.engine.requests[-1].messages if one.role is Role.TOOL]
    assert results == ["13:00", "dry"]
    edited = bench.controller.current_messages[2]
    assert (edited.record.content, edited.num_siblings) == ("13:00", 2)
    bench.controller.select_sibling(edited.record.id, -1)
    assert bench.controller.current_messages[2].record.content == "12:00"


def test_wrong_numbers_of_results_change_nothing(bench: Bench) -> None:
    answer_id = _call(bench, FIRST)
    for message_id, results in ((answer_id, []), (answer_id, ["a", "b"]), ("unknown", ["a"])):
        bench.controller.give_results(message_id, results)
    assert len(bench.controller.current_messages) == 2


def test_a_list_that_is_none_fails_the_answer_with_a_sentence(bench: Bench) -> None:
    bench.controller.set_options({"tools": "[3]"})
    bench.controller.send("Hi")
    bench.wait_idle()
    answer = bench.controller.current_messages[-1].record
    assert (answer.status, answer.error) == (MessageStatus.FAILED, "Function 1 is no JSON object.")


def test_results_are_typed_under_the_answer(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    page = ChatPage(bench.controller, theme)
    qtbot.addWidget(page)
    page.resize(800, 600)
    page.show()
    _call(bench, FIRST, SECOND)
    answer = page.transcript.widgets[-1]
    assert isinstance(answer, Answer)
    form = answer.findChild(ResultsForm)
    assert form is not None
    assert [field.accessibleName() for field in form.fields] == ["Result of get_time", "Result of get_rain"]
    form.fields[0].setPlainText("noon")
    form.fields[0].submitted.emit()
    assert bench.engine.requests == [], "Enter goes to the field that is empty"
    form.fields[1].setPlainText("dry\x00")
    form.fields[1].submitted.emit()
    bench.engine.finish(bench.request())
    bench.wait_idle()
    QApplication.processEvents()
    kinds = [type(widget) for widget in page.transcript.widgets]
    assert kinds[-3:] == [ToolResult, ToolResult, Answer]
    assert [form for form in answer.findChildren(ResultsForm) if not form.isHidden()] == []
    result = page.transcript.widgets[-3]
    assert result.accessibleName() == "Result of get_time: noon"
    result.begin_edit()
    assert result._editor is not None
    result._editor.edit.setPlainText("midnight")
    result._editor.edit.submitted.emit()
    assert bench.controller.current_messages[2].record.content == "midnight"


def test_the_functions_of_a_chat_are_listed_in_its_options(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    panel = OptionsPanel(bench.controller, bench.context.settings, theme)
    qtbot.addWidget(panel)
    dialog = panel.edit_tools()
    dialog.edit.setPlainText("[")
    assert not dialog.use.isEnabled()
    dialog.edit.setPlainText(EXAMPLE)
    assert dialog.verdict.text() == "1 function: get_weather"
    dialog.use.click()
    QTest.qWait(1)
    assert json.loads(bench.controller.current_conversation.options["tools"])[0]["name"] == "get_weather"
    assert panel._tools_button.accessibleName() == "Functions: 1 function: get_weather"
    dialog = panel.edit_tools()
    dialog.edit.clear()
    dialog.use.click()
    assert "tools" not in bench.controller.current_conversation.options
    empty = ToolsDialog("", theme)
    qtbot.addWidget(empty)
    assert empty.verdict.text() == "None"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no JSON"),
        ("{}", "must be a JSON list"),
        ("[1]", "Function 1 is no JSON object."),
        ('[{"name": "a"}, {"description": "b"}]', "Function 2 needs a name"),
        ('[{"name": "a b"}]', "Function 1 needs a name"),
        ('[{"name": "a"}, {"name": "a"}]', "a is listed twice"),
        ('[{"name": "a", "description": 3}]', "description of a must be a text"),
        ('[{"name": "a", "parameters": [1]}]', "parameters of a must be a JSON Schema"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_list_of_functions_that_cannot_be_used(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_tools(text)


def test_a_list_of_functions() -> None:
    listed = (
        '[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}, {"name": "g.h-2"}]'
    )
    assert parse_tools(listed) == (Tool("f", "", '{"type": "object"}'), Tool("g.h-2"))
