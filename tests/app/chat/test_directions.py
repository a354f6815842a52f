from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.answer import Answer
from app.chat.composer import Composer
from app.chat.conversation import MessageView
from app.chat.own_message import OwnMessage
from app.chat.tool_result import ToolResult
from app.storage.records import MessageRecord
from app.theme import Theme
from engine.protocol import Role

LEFT, RIGHT = Qt.LayoutDirection.LeftToRight, Qt.LayoutDirection.RightToLeft
TEXT = "left to right\nשלום עולם\nمرحبا, world"
CODE = '# שלום\nprint("مرحبا")'


def _directions(document: QTextDocument) -> list[Qt.LayoutDirection]:
    found, block = [], document.begin()
    while block.isValid():
        found.append(block.textDirection())
        block = block.next()
    return found


@pytest.fixture(params=[LEFT, RIGHT])
def _interface(request: pytest.FixtureRequest, qapp: QApplication) -> Iterator[None]:
    qapp.setLayoutDirection(request.param)
    yield
    qapp.setLayoutDirection(LEFT)


@pytest.mark.usefixtures("_interface")
@pytest.mark.parametrize("kind", [OwnMessage, ToolResult])
def test_each_line_of_ones_own_has_its_direction(
    theme: Theme, qtbot: QtBot, kind: type[OwnMessage | ToolResult]
) -> None:
    role = Role.USER if kind is OwnMessage else Role.TOOL
    message = kind(theme, MessageView(MessageRecord("m", "c", None, role, TEXT), 0, 1))
    qtbot.addWidget(message)
    message.show()
    assert _directions(message.texts[-1].document()) == [LEFT, RIGHT, RIGHT]
    message.begin_edit()
    assert message._editor is not None
    assert _directions(message._editor.edit.document()) == [LEFT, RIGHT, RIGHT]


@pytest.mark.usefixtures("_interface")
def test_what_is_written_has_its_direction(theme: Theme, qtbot: QtBot) -> None:
    composer = Composer(theme)
    qtbot.addWidget(composer)
    composer.show()
    composer.edit.setPlainText(TEXT)
    assert _directions(composer.edit.document()) == [LEFT, RIGHT, RIGHT]


@pytest.mark.usefixtures("_interface")
def test_thoughts_and_answers_have_their_direction_and_code_stays(theme: Theme, qtbot: QtBot) -> None:
    content = TEXT.replace("\n", "\n\n") + f"\n\n```python\n{CODE}\n```\n\n```\nشكرا\n```\n"
    calls = [{"name": "شكرا", "arguments": '"مرحبا"', "call_id": "1"}]
    record = MessageRecord("m", "c", None, Role.ASSISTANT, content, reasoning=TEXT, stats={"tool_calls": calls})
    answer = Answer(theme, MessageView(record, 0, 1))
    qtbot.addWidget(answer)
    answer.show()
    answer.reveal()
    answer.complete()
    thoughts, prose, code, other, title, arguments = (_directions(view.document()) for view in answer.texts)
    assert thoughts == [LEFT, RIGHT, RIGHT]
    assert prose == [LEFT, RIGHT, RIGHT]
    assert {*code, *other, *arguments} == {LEFT}
    assert title == [LEFT], "its first word is the interface's"
