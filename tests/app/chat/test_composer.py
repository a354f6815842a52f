from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.composer import Composer
from app.theme import Theme


@pytest.fixture
def composer(theme: Theme, qtbot: QtBot) -> Composer:
    made = Composer(theme)
    qtbot.addWidget(made)
    made.resize(760, 120)
    made.show()
    qtbot.waitExposed(made)
    return made


def _button(composer: Composer) -> QPushButton:
    return composer._button


def _compose(composer: Composer, text: str, commit: str = "") -> None:
    event = QInputMethodEvent(text, [])
    event.setCommitString(commit)
    QApplication.sendEvent(composer.edit, event)


def test_enter_sends_and_shift_enter_breaks_the_line(composer: Composer, qtbot: QtBot) -> None:
    qtbot.keyClicks(composer.edit, "one")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.edit, "two")
    with qtbot.waitSignal(composer.send_requested) as caught:
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert caught.args == ["one\ntwo"]
    assert composer.text == "one\ntwo"  # kept until it is taken


def test_the_enter_of_a_composition_sends_nothing(composer: Composer, qtbot: QtBot) -> None:
    _compose(composer, "にほん")
    with qtbot.assertNotEmitted(composer.send_requested):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    _compose(composer, "", "日本")
    assert composer.text == "日本"
    with qtbot.waitSignal(composer.send_requested):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)


def test_nothing_is_not_sent(composer: Composer, qtbot: QtBot) -> None:
    qtbot.keyClicks(composer.edit, "  ")
    assert not _button(composer).isEnabled()
    with qtbot.assertNotEmitted(composer.send_requested):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)


def test_one_button_sends_and_stops(composer: Composer, qtbot: QtBot) -> None:
    composer.set_text("text")
    assert _button(composer).text() == "Send"
    with qtbot.waitSignal(composer.send_requested):
        _button(composer).click()
    composer.set_busy(True)
    assert _button(composer).text() == "Stop"
    with qtbot.waitSignal(composer.stop_requested):
        _button(composer).click()
    with qtbot.assertNotEmitted(composer.send_requested):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)


def test_the_lines_below_never_cover_each_other(composer: Composer) -> None:
    composer.resize(330, 120)
    promise, hint = composer._promise, composer._hint
    assert hint.width() >= hint.sizeHint().width()
    assert promise.geometry().right() < hint.geometry().left()
    assert promise.text().endswith("…")
    assert promise.toolTip() == promise.whole_text
    composer.resize(760, 120)
    assert promise.text() == promise.whole_text


def test_escape_stops(composer: Composer, qtbot: QtBot) -> None:
    composer.set_busy(True)
    with qtbot.waitSignal(composer.stop_requested):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Escape)


def test_it_grows_to_eight_lines_and_then_scrolls(composer: Composer) -> None:
    heights = []
    for lines in (1, 2, 8, 9, 100):
        composer.set_text("\n".join("x" * lines))
        heights.append(composer.edit.height())
    assert heights[0] < heights[1] < heights[2] == heights[3] == heights[4]
    spacing = composer.edit.fontMetrics().lineSpacing()
    assert heights[2] == pytest.approx(8 * spacing, abs=4)
    composer.clear_text()
    assert composer.edit.height() == heights[0]


def test_a_wrapped_line_counts(composer: Composer) -> None:
    composer.set_text("word " * 100)
    assert composer.edit.height() > 3 * composer.edit.fontMetrics().lineSpacing()


def test_tokens_are_counted_when_typing_rests(composer: Composer, qtbot: QtBot) -> None:
    with qtbot.waitSignal(composer.count_requested) as caught:
        qtbot.keyClicks(composer.edit, "three small words")
    assert caught.args == ["three small words"]
    composer.set_cost("1,204 tokens")
    assert composer._count.text() == "1,204 tokens"
    composer.clear_text()
    assert composer._count.text() == ""


def test_what_a_person_writes_is_a_draft_and_what_is_shown_is_not(composer: Composer, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(composer.draft_changed):
        composer.set_text("from the store")
    with qtbot.waitSignal(composer.draft_changed) as caught:
        qtbot.keyClicks(composer.edit, "!")
    assert caught.args == ["from the store!"]


def test_pasted_text_is_plain(composer: Composer) -> None:
    data = QMimeData()
    data.setHtml("<b>bold</b>")
    data.setText("bold")
    composer.edit.insertFromMimeData(data)
    assert composer.text == "bold"
