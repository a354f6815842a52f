from __future__ import annotations

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app.chat.answer import Answer
from app.chat.block_views import ProseView
from app.chat.blocks import BlockKind
from app.chat.code_card import CodeCard
from app.chat.conversation import MessageView
from app.chat.transcript import Transcript
from app.chat.view_stock import NUM_AT_REST, ViewStock, stock_around
from app.settings import Settings
from app.storage.records import MessageRecord, MessageStatus
from app.theme import Theme
from engine.protocol import Role

_TEXT = "Some words\n\n```py\nx\n```\n\nand more"


def _view(message_id: str, content: str, status: MessageStatus) -> MessageView:
    return MessageView(MessageRecord(message_id, "c", None, Role.ASSISTANT, content, status=status), 0, 1)


@pytest.fixture
def transcript(theme: Theme, qtbot: QtBot) -> Transcript:
    made = Transcript(theme)
    qtbot.addWidget(made)
    made.resize(800, 600)
    made.show()
    return made


def _stream(transcript: Transcript, message_id: str) -> Answer:
    transcript.show_conversation([_view(message_id, "", MessageStatus.STREAMING)])
    for start in range(0, len(_TEXT), 5):
        transcript.append_delta(message_id, "answer", _TEXT[start : start + 5])
    answer = transcript.widgets[-1]
    assert isinstance(answer, Answer)
    return answer


def _has(stock: ViewStock, num_each: int) -> bool:
    return stock.counts == {BlockKind.CODE: num_each, BlockKind.PROSE: num_each}


def test_the_first_answer_finds_nothing_and_has_some_made(transcript: Transcript, qtbot: QtBot) -> None:
    answer = _stream(transcript, "a")
    assert stock_around(answer.body) is transcript.view_stock
    stock = answer.body._stock
    assert stock is not None
    assert _has(stock, 0)
    qtbot.waitUntil(lambda: _has(stock, 1))
    qtbot.wait(50)
    assert _has(stock, 1), "while it is written no more than what may be wanted next"
    assert _has(transcript.view_stock, 0)
    transcript.sync([_view("a", _TEXT, MessageStatus.COMPLETE)])
    qtbot.waitUntil(lambda: _has(transcript.view_stock, NUM_AT_REST))


def test_an_answer_takes_what_was_made_before(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.view_stock.fill(NUM_AT_REST)
    qtbot.waitUntil(lambda: _has(transcript.view_stock, NUM_AT_REST))
    waiting = transcript.view_stock._home.findChildren(QWidget)
    assert not any(child.isVisible() for child in waiting)
    answer = _stream(transcript, "a")
    assert [type(view) for view in answer.body.views] == [ProseView, CodeCard, ProseView]
    assert set(answer.body.views) < set(waiting)
    assert all(view.isVisible() and view.parentWidget() is answer.body for view in answer.body.views)
    assert _has(transcript.view_stock, 0)
    assert answer.body._stock is not None
    assert answer.body._stock.counts == {BlockKind.CODE: 1, BlockKind.PROSE: 0}
    transcript.sync([_view("a", _TEXT, MessageStatus.COMPLETE)])
    qtbot.waitUntil(lambda: len(answer.body.findChildren(CodeCard)) == 1)
    qtbot.waitUntil(lambda: _has(transcript.view_stock, NUM_AT_REST))


def test_a_loaded_answer_leaves_the_stock_alone(transcript: Transcript) -> None:
    transcript.show_conversation([_view("a", _TEXT, MessageStatus.COMPLETE)])
    transcript.widgets[-1].complete()
    assert "view_stock" not in vars(transcript)


def test_another_look_empties_the_stock(
    transcript: Transcript, theme: Theme, settings: Settings, qtbot: QtBot
) -> None:
    transcript.view_stock.fill(1)
    qtbot.waitUntil(lambda: _has(transcript.view_stock, 1))
    made = transcript.view_stock._home.findChildren(CodeCard)
    assert made
    settings.set("zoom", 1.5)
    assert _has(transcript.view_stock, 0)
    assert not any(map(isValid, made))
    qtbot.wait(50)
    assert _has(transcript.view_stock, 0), "nothing until an answer comes"


def test_nothing_is_made_out_of_sight(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.hide()
    transcript.view_stock.fill(1)
    qtbot.wait(60)
    assert _has(transcript.view_stock, 0)
