"""What is drawn anew, and laid out, while an answer streams: as little as can be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.chat.answer import Answer
from app.chat.composer import Composer
from app.chat.conversation import MessageView
from app.chat.conversation_list import ConversationList
from app.chat.reading_column import ReadingColumn
from app.chat.transcript import Transcript
from app.settings import Settings
from app.storage.records import ConversationRecord, MessageRecord, MessageStatus
from app.theme import Theme
from engine.protocol import Role


class Pictures(QObject):
    """Remembers who was painted, and how high a part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[QWidget, int]] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QPaintEvent) and isinstance(watched, QWidget):
            self.seen.append((watched, event.rect().height()))
        return False

    def rest(self, qtbot: QtBot) -> None:
        """Wait until nothing is painted any more, and forget what was."""
        num_seen = -1
        while num_seen != len(self.seen):
            num_seen = len(self.seen)
            qtbot.wait(60)
        self.seen.clear()

    @property
    def painted(self) -> list[QWidget]:
        """Who was painted, in order."""
        return [widget for widget, _ in self.seen]


@pytest.fixture
def pictures(qapp: QApplication) -> Iterator[Pictures]:
    made = Pictures()
    qapp.installEventFilter(made)
    yield made
    qapp.removeEventFilter(made)


@pytest.fixture
def transcript(theme: Theme, qtbot: QtBot) -> Transcript:
    made = Transcript(theme)
    qtbot.addWidget(made)
    made.resize(900, 500)
    made.show()
    qtbot.waitExposed(made)
    record = MessageRecord("s", "c", None, Role.ASSISTANT, "", status=MessageStatus.STREAMING)
    made.show_conversation([MessageView(record, 0, 1)])
    return made


def _answer(transcript: Transcript) -> Answer:
    answer = transcript.widgets[-1]
    assert isinstance(answer, Answer)
    return answer


@pytest.mark.parametrize("begun", ["Some words", "```python\nvalue = 1"])
def test_words_on_the_last_line_draw_the_text_alone(
    transcript: Transcript, pictures: Pictures, qtbot: QtBot, begun: str
) -> None:
    transcript.append_delta("s", "answer", begun)
    transcript.setFocus(Qt.FocusReason.OtherFocusReason)  # not the answer, around which a frame would be
    pictures.rest(qtbot)
    transcript.append_delta("s", "answer", " more")
    qtbot.waitUntil(lambda: bool(pictures.seen))
    qtbot.wait(30)
    assert pictures.painted == [_answer(transcript).texts[-1].viewport()]


def test_lines_that_make_no_new_height_lay_nothing_out(
    transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript.append_delta("s", "answer", "Some words")
    settled: list[object] = []
    settle = ReadingColumn.settle

    def noted(column: ReadingColumn, changed: QWidget | None = None) -> None:
        settled.append(changed)
        settle(column, changed)

    monkeypatch.setattr(ReadingColumn, "settle", noted)
    transcript.append_delta("s", "answer", " more")
    assert settled == []
    transcript.append_delta("s", "answer", " and more" * 40)
    assert _answer(transcript) in settled


def test_a_line_of_code_comes_in_one_picture(transcript: Transcript, pictures: Pictures, qtbot: QtBot) -> None:
    transcript.append_delta("s", "answer", "```python\nvalue = 1")
    pictures.rest(qtbot)
    answer = _answer(transcript)
    transcript.append_delta("s", "answer", "\nother = 2")
    assert answer.height() == answer.heightForWidth(answer.width())
    qtbot.wait(30)
    assert pictures.painted.count(answer.foot) == 1


def test_a_scroll_bar_that_moves_draws_nothing_behind_it(
    theme: Theme, settings: Settings, pictures: Pictures, qtbot: QtBot
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    transcript = Transcript(theme)
    QVBoxLayout(window).addWidget(transcript)
    window.resize(900, 500)
    window.show()
    qtbot.waitExposed(window)
    record = MessageRecord("s", "c", None, Role.ASSISTANT, "", status=MessageStatus.STREAMING)
    transcript.show_conversation([MessageView(record, 0, 1)])
    for value in ("light", "dark"):
        settings.set("theme", value)
        transcript.append_delta("s", "answer", "```python\n" + "value = 1\n" * 60)
        bar = transcript.verticalScrollBar()
        qtbot.waitUntil(lambda bar=bar: bar.maximum() > 0)  # type: ignore[misc]
        pictures.rest(qtbot)
        transcript.append_delta("s", "answer", "\nother = 2")
        qtbot.waitUntil(lambda bar=bar: bar in pictures.painted)  # type: ignore[misc]
        assert window not in pictures.painted
        assert transcript not in pictures.painted
        assert bar.grab().toImage().pixelColor(0, bar.height() // 2) == theme.colour("background")


def test_the_frame_of_the_keyboard_goes_around_the_text(transcript: Transcript, theme: Theme, qtbot: QtBot) -> None:
    transcript.append_delta("s", "answer", "Some words")
    answer = _answer(transcript)
    transcript.activateWindow()
    answer.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(answer.hasFocus)
    transcript.append_delta("s", "answer", "\n\n> a quote\n\n| a |\n|---|\n| 1 |\n")
    middle = answer.grab().toImage().pixelColor(0, answer.body.height() // 2)
    assert middle == theme.colour("accent")


def test_a_call_that_is_being_written_is_said_until_text_comes(transcript: Transcript) -> None:
    answer = _answer(transcript)
    transcript.set_progress("s", "reading")
    transcript.append_delta("s", "tool_call", "{")
    assert answer.foot.status == "writing a call"
    transcript.append_delta("s", "answer", "text")
    assert answer.foot.status == ""


def test_a_chat_that_changes_draws_its_own_row(theme: Theme, pictures: Pictures, qtbot: QtBot) -> None:
    chats = ConversationList(theme)
    qtbot.addWidget(chats)
    chats.resize(264, 400)
    now = datetime.now().timestamp()
    records = [ConversationRecord(name, name, now, now) for name in "abcdef"]
    chats.show_records(records, {})
    chats.show()
    qtbot.waitExposed(chats)
    pictures.rest(qtbot)
    row_height = chats.visualRect(chats.conversations.index(2)).height()
    chats.show_records(records, {"c"})
    qtbot.wait(30)
    assert [height for widget, height in pictures.seen if widget is chats.viewport()] == [row_height]


def test_the_cursor_blinks_alone(theme: Theme, pictures: Pictures, qtbot: QtBot) -> None:
    composer = Composer(theme)
    composer.set_busy(True)
    qtbot.addWidget(composer)
    composer.show()
    qtbot.waitExposed(composer)
    pictures.rest(qtbot)
    composer.edit.viewport().update(0, 0, 4, 10)
    qtbot.waitUntil(lambda: bool(pictures.seen))
    assert pictures.painted == [composer.edit.viewport()]


def test_the_caret_is_at_the_end_alone_however_much_comes_at_once(transcript: Transcript) -> None:
    transcript.append_delta("s", "answer", "```python\nvalue = 1")
    transcript.append_delta("s", "answer", "\n```\n\n| a |\n|---|\n| 1 |\n\nSome words")
    texts = _answer(transcript).texts
    assert [text.has_caret for text in texts] == [False, False, True]
    transcript.append_delta("s", "answer", "\n\n| b |\n|---|\n| 2 |\n")
    assert not any(text.has_caret for text in _answer(transcript).texts)
