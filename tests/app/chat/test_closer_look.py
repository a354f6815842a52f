from __future__ import annotations

import math

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QDialog, QWidget
from pytestqt.qtbot import QtBot

from app.chat.chat_page import ChatPage
from app.chat.closer_look import CloserLook, CloserLookPopup, percent, place_in_source, prefix_before
from app.theme import Theme
from engine.protocol import ContextPolicy, Role, TokenAlternatives, TokenProbability
from tests.app.conftest import Bench


@pytest.mark.parametrize(
    ("source", "before", "word", "rest"),
    [
        ("The cat and the cat.", "The ", "cat", "cat and the cat."),
        ("The cat and the cat.", "The cat and the ", "cat", "cat."),
        ("**The** cat, a [cat](http://c) cats", "The cat, a ", "cat", "cat](http://c) cats"),
        ("concat a cat", "concat a ", "cat", "cat"),
        ("été, été", "été, ", "été", "été"),
        ("你好世界，世界人", "你好世界，", "世界", "世界人"),
        ("a **世界** 世界x", "a 世界 ", "世界", "世界x"),
        ("ภาษาไทย", "ภาษา", "ไทย", "ไทย"),
    ],
)
def test_the_word_on_the_screen_is_found_in_the_source(source: str, before: str, word: str, rest: str) -> None:
    offset = place_in_source(source, before, word)
    assert offset is not None
    assert source[offset:] == rest


def test_a_word_that_the_source_has_not_is_not_found() -> None:
    assert place_in_source("a &amp; b", "", "and") is None
    assert place_in_source("x", "", "x" * 50) is None


def test_the_space_before_a_word_belongs_to_its_token() -> None:
    assert prefix_before("one two", 4) == "one"
    assert prefix_before("one\ntwo", 4) == "one\n"


def test_the_model_is_asked_for_that_place_alone(bench: Bench) -> None:
    bench.ask("colour?", "red is nice")
    answer = bench.controller.current_messages[-1].record
    looks: list[CloserLook] = []
    bench.controller.looked_closer.connect(looks.append)
    bench.controller.look_closer(answer.id, 4)
    request_id = bench.request()
    request = bench.engine.requests[-1]
    assert [(message.role, message.content) for message in request.messages] == [
        (Role.USER, "colour?"),
        (Role.ASSISTANT, "red"),
    ]
    assert (request.max_tokens, request.logprobs) == (1, 8)
    assert request.context_policy is ContextPolicy.KEEP_RECENT, "as the answer was given"
    tokens = (TokenProbability(5, " is", -0.2), TokenProbability(6, "", -2.0))
    bench.engine.on_event(TokenAlternatives(request_id, 1, 5, " is", tokens[0], tokens))
    bench.engine.finish(request_id)
    bench.qtbot.waitUntil(lambda: bool(looks))
    assert looks == [CloserLook(answer.id, "red", tokens)]
    assert bench.controller.current_messages[-1].record == answer, "looking changes nothing"
    assert not bench.controller.is_generating


def test_without_a_model_there_is_a_sentence(bench: Bench) -> None:
    bench.ask("colour?", "red")
    bench.controller.eject_model()
    bench.qtbot.waitUntil(lambda: bench.controller.model_info is None)
    bench.controller.look_closer(bench.controller.current_messages[-1].record.id, 0)
    assert bench.notices == ["Load a model first: it is asked for the alternatives."]


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_a_choice_goes_on_from_there(theme: Theme, qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.show()
    tokens = (
        TokenProbability(1, " is", math.log(0.7)),
        TokenProbability(2, "\n", math.log(0.004)),
        TokenProbability(3, "", math.log(0.0001)),
    )
    popup = CloserLookPopup(CloserLook("m", "red", tokens), "is", theme, parent)
    popup.show_at(QPoint(5000, 5000))
    room = popup.screen().availableGeometry().adjusted(0, 0, 2, 2)  # the offscreen platform adds a frame
    assert room.contains(popup.geometry())
    assert [row.accessibleName() for row in popup.rows] == [
        "is, 70 %",
        "⏎, 0.4 %",
        "end of the answer, < 0.1 %",
    ]
    with qtbot.waitSignal(popup.chosen) as caught:
        qtbot.mouseClick(popup.rows[0], Qt.MouseButton.LeftButton)
    assert caught.args == ["m", "red is"]
    again = CloserLookPopup(CloserLook("m", "red", tokens), "is", theme, parent)
    with qtbot.waitSignal(again.ended) as caught:
        again.rows[2].click()
    assert caught.args == ["m", "red"]


def test_shares_as_people_say_them() -> None:
    assert [percent(share) for share in (1.0, 0.42, 0.042, 0.0)] == ["100 %", "42 %", "4.2 %", "< 0.1 %"]


def test_a_part_of_a_character_cannot_be_chosen(theme: Theme, qtbot: QtBot) -> None:
    tokens = (TokenProbability(1, "\ufffd", -0.1), TokenProbability(2, "x", -2.0))
    holder = QWidget()
    qtbot.addWidget(holder)
    popup = CloserLookPopup(CloserLook("m", "before", tokens), "x", theme, holder)
    assert [row.isEnabled() for row in popup.rows] == [False, True]
    assert popup.rows[0].accessibleName() == "part of a character, 90 %"


def test_what_is_found_after_another_chat_was_opened_is_not_shown(bench: Bench) -> None:
    bench.ask("colour?", "red is nice")
    answer = bench.controller.current_messages[-1].record
    looks: list[CloserLook] = []
    bench.controller.looked_closer.connect(looks.append)
    for leaves in (True, False):
        bench.controller.open_conversation(answer.conversation_id)
        bench.controller.look_closer(answer.id, 0)
        request = bench.request()
        if leaves:
            bench.controller.new_conversation()
        bench.engine.on_event(TokenAlternatives(request, 0, 1, "x", None, (TokenProbability(1, "x", -0.1),)))
        bench.engine.finish(request)
        bench.qtbot.waitUntil(lambda: not bench.context.client.is_busy, timeout=3000)
        assert len(looks) == (0 if leaves else 1)


@pytest.mark.qt_log_ignore("This plugin does not support")  # of the offscreen platform, about popups
def test_enter_chooses_what_the_arrows_came_to(theme: Theme, qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    parent.show()
    tokens = (TokenProbability(1, " is", math.log(0.7)), TokenProbability(2, " was", math.log(0.2)))
    popup = CloserLookPopup(CloserLook("m", "red", tokens), "is", theme, parent)
    popup.show_at(QPoint(10, 10))
    qtbot.keyPress(popup.rows[0], Qt.Key.Key_Down)
    with qtbot.waitSignal(popup.chosen) as caught:
        qtbot.keyPress(popup.rows[1], Qt.Key.Key_Return)
    assert caught.args == ["m", "red was"]


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_what_is_found_late_covers_no_dialog(bench: Bench, theme: Theme, qtbot: QtBot) -> None:
    page = ChatPage(bench.controller, theme)
    qtbot.addWidget(page)
    page.show()
    bench.ask("colour?", "red is nice")
    found = CloserLook(bench.controller.current_messages[-1].record.id, "", (TokenProbability(1, "x", -0.1),))
    dialog = QDialog(page)
    dialog.setModal(True)
    dialog.show()
    bench.controller.looked_closer.emit(found)
    assert page.findChild(CloserLookPopup) is None
    dialog.close()
    bench.controller.looked_closer.emit(found)
    popup = page.findChild(CloserLookPopup)
    assert popup is not None
    popup.close()
