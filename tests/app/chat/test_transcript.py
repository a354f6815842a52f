from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt
from PySide6.QtGui import QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app.chat.alive_messages import ALIVE_AT_FIRST, ALIVE_AT_REST, ALIVE_STEP, GONE_PARTS
from app.chat.answer import Answer
from app.chat.conversation import MessageView
from app.chat.message_actions import MessageAction
from app.chat.own_message import OwnMessage
from app.chat.text_view import TextView
from app.chat.transcript import Transcript
from app.storage.records import MessageRecord, MessageStatus
from app.theme import Theme
from engine.protocol import Role
from tests.app.fake_controller import SORTING_ANSWER, STATS


def _messages(count: int, first: int = 0) -> list[MessageView]:
    made = []
    for number in range(first, first + count):
        role = Role.USER if number % 2 == 0 else Role.ASSISTANT
        content = f"question {number}" if role is Role.USER else f"answer {number}\n\nwith two paragraphs"
        made.append(MessageView(MessageRecord(f"m{number}", "c", None, role, content), 0, 1))
    return made


def _streaming(message_id: str = "s") -> MessageView:
    record = MessageRecord(message_id, "c", None, Role.ASSISTANT, "", status=MessageStatus.STREAMING)
    return MessageView(record, 0, 1)


def _done(content: str, message_id: str = "s") -> MessageView:
    return MessageView(MessageRecord(message_id, "c", None, Role.ASSISTANT, content, stats=STATS), 0, 1)


@pytest.fixture
def transcript(theme: Theme, qtbot: QtBot) -> Transcript:
    made = Transcript(theme)
    qtbot.addWidget(made)
    made.resize(900, 500)
    made.show()
    qtbot.waitExposed(made)
    return made


def _wheel(transcript: Transcript, delta: int) -> None:
    place = QPointF(transcript.viewport().rect().center())
    event = QWheelEvent(
        place,
        transcript.viewport().mapToGlobal(place),
        QPoint(),
        QPoint(0, delta),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(transcript.viewport(), event)


def _grown(transcript: Transcript, qtbot: QtBot) -> None:
    """Wait until the messages above are made, so that positions mean the same before and after."""
    qtbot.waitUntil(lambda: not transcript._grow.isActive())


def _drawn(qtbot: QtBot) -> None:
    """Let all come that follows a piece of an answer."""
    qtbot.wait(20)


def _at_end(transcript: Transcript) -> bool:
    bar = transcript.verticalScrollBar()
    return bar.maximum() > 0 and bar.value() == bar.maximum()


def test_a_chat_opens_at_its_end(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation(_messages(20))
    qtbot.waitUntil(lambda: _at_end(transcript))
    assert isinstance(transcript.widgets[0], OwnMessage)
    assert isinstance(transcript.widgets[1], Answer)


def test_it_follows_a_stream_while_at_the_end(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation(_messages(10))
    transcript.sync([*_messages(10), _streaming()])
    before = transcript.verticalScrollBar().maximum()
    for number in range(30):
        transcript.append_delta("s", "answer", f"line {number}\n\n")
    qtbot.waitUntil(lambda: transcript.verticalScrollBar().maximum() > before + 100)
    qtbot.waitUntil(lambda: _at_end(transcript))


def test_a_piece_has_its_place_in_the_turn_in_which_it_comes(transcript: Transcript, qtbot: QtBot) -> None:
    """No picture in between shows it squeezed, or below the edge."""
    transcript.show_conversation([*_messages(20), _streaming()])
    _grown(transcript, qtbot)
    answer = transcript.widgets[-1]
    for piece in (
        "some words, ",
        "and some\n\n",
        "```python\n",
        "x = 1\n",
        "y = 2\n```\n",
        "\n| a |\n|--|\n",
        "| 1 |\n",
    ):
        transcript.append_delta("s", "answer", piece)
        assert _at_end(transcript), piece
        assert answer.height() == answer.heightForWidth(answer.width()), piece
        assert isinstance(answer, Answer)
        last = answer.body.views[-1]
        assert last.height() == last.heightForWidth(last.width()), piece
        assert answer.body.height() == last.geometry().bottom() + 1, piece


def test_a_message_that_grows_leaves_the_others_alone(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation([*_messages(20), _streaming()])
    _grown(transcript, qtbot)
    seen: list[tuple[QEvent.Type, str]] = []

    class Watch(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() in {QEvent.Type.Move, QEvent.Type.Resize}:
                seen.append((event.type(), watched.objectName()))
            return False

    watch = Watch()
    for widget in transcript.widgets[:-1]:
        widget.installEventFilter(watch)
    for number in range(40):
        transcript.append_delta("s", "answer", f"word {number}\n\n")
        _drawn(qtbot)
    assert seen == []


def test_what_is_scrolled_is_not_painted_anew(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation([*_messages(20), _streaming()])
    _grown(transcript, qtbot)
    for number in range(20):
        transcript.append_delta("s", "answer", f"line {number}\n\n")
    _drawn(qtbot)
    heights: list[int] = []

    class Watch(QObject):
        def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
            if isinstance(event, QPaintEvent):
                heights.append(event.rect().height())
            return False

    watch = Watch()
    column = transcript.widget()
    assert column is not None
    column.installEventFilter(watch)
    value = transcript.verticalScrollBar().value()
    transcript.append_delta("s", "answer", "another line\n\n")
    qtbot.waitUntil(lambda: bool(heights))
    _drawn(qtbot)
    assert transcript.verticalScrollBar().value() > value
    assert max(heights) < transcript.viewport().height() / 2


@pytest.mark.parametrize("is_focused", [False, True])
def test_what_stands_on_the_screen_is_what_painting_it_all_gives(
    transcript: Transcript, qtbot: QtBot, is_focused: bool
) -> None:
    transcript.show_conversation([*_messages(20), _streaming()])
    _grown(transcript, qtbot)
    if is_focused:  # which draws a frame around the answer
        transcript.activateWindow()
        transcript.widgets[-1].setFocus(Qt.FocusReason.TabFocusReason)
        qtbot.waitUntil(transcript.widgets[-1].hasFocus)
    for piece in SORTING_ANSWER.split(" "):
        transcript.append_delta("s", "answer", piece + " ")
        QApplication.processEvents()
    transcript.sync([*_messages(20), _done(SORTING_ANSWER + " ")])
    _drawn(qtbot)
    shown = transcript.screen().grabWindow(transcript.winId()).toImage()
    whole = transcript.grab().toImage().convertToFormat(shown.format())
    assert not shown.isNull()
    assert shown == whole


@pytest.mark.parametrize("how", ["wheel", "key", "bar"])
def test_any_upward_input_stops_following(transcript: Transcript, qtbot: QtBot, how: str) -> None:
    transcript.show_conversation([*_messages(20), _streaming()])
    _grown(transcript, qtbot)
    bar = transcript.verticalScrollBar()
    if how == "wheel":
        _wheel(transcript, 120)
    elif how == "key":
        qtbot.keyClick(transcript, Qt.Key.Key_PageUp)
    else:
        bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    assert not transcript.is_following
    place = bar.value()
    assert place < bar.maximum()
    for number in range(20):
        transcript.append_delta("s", "answer", f"line {number}\n\n")
    _drawn(qtbot)
    assert bar.value() == place


def test_a_tiny_upward_turn_of_the_wheel_is_enough(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation([*_messages(20), _streaming()])
    _grown(transcript, qtbot)
    _wheel(transcript, 15)
    place = transcript.verticalScrollBar().value()
    transcript.append_delta("s", "answer", "a\n\nb\n\nc\n\nd\n\n")
    _drawn(qtbot)
    assert place <= transcript.verticalScrollBar().value() <= place + 4


def test_coming_back_to_the_end_follows_again(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation([*_messages(20), _streaming()])
    _grown(transcript, qtbot)
    _wheel(transcript, 120)
    with qtbot.waitSignal(transcript.following_changed):
        _wheel(transcript, -1200)
    assert transcript.is_following


def test_nothing_moves_when_an_answer_ends(transcript: Transcript, qtbot: QtBot) -> None:
    messages = [*_messages(8), _streaming()]
    transcript.show_conversation(messages)
    _grown(transcript, qtbot)
    transcript.append_delta("s", "answer", SORTING_ANSWER)
    _drawn(qtbot)
    bar = transcript.verticalScrollBar()
    widget = transcript.widgets[-1]
    before = (bar.maximum(), bar.value(), widget.mapTo(transcript, QPoint(0, 0)).y(), widget.height())
    transcript.sync([*messages[:-1], _done(SORTING_ANSWER)])
    _drawn(qtbot)
    assert transcript.widgets[-1] is widget
    assert (bar.maximum(), bar.value(), widget.mapTo(transcript, QPoint(0, 0)).y(), widget.height()) == before


def test_a_text_is_measured_at_the_width_alone_that_it_has(
    transcript: Transcript, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question about another width lays the whole text out, twice: a stall at the end of a long answer."""
    transcript.show_conversation([*_messages(7), _streaming()])
    _grown(transcript, qtbot)
    asked: list[tuple[int, int]] = []
    measure = TextView._measure

    def noted(view: TextView, width: int) -> int:
        asked.append((width, view.viewport().width()))
        return measure(view, width)

    monkeypatch.setattr(TextView, "_measure", noted)
    text = "".join(f"{number}, " for number in range(400))
    for start in range(0, len(text), 100):
        transcript.append_delta("s", "answer", text[start : start + 100])
        _drawn(qtbot)
        if not start:
            asked.clear()  # of a view that had no place yet
    transcript.sync([*_messages(7), _done(text)])
    _drawn(qtbot)
    assert asked
    assert [pair for pair in asked if pair[0] not in {0, pair[1]}] == [], "at 0 nothing is laid out"


def test_a_reader_further_up_is_not_moved_by_the_end(transcript: Transcript, qtbot: QtBot) -> None:
    messages = [*_messages(20), _streaming()]
    transcript.show_conversation(messages)
    _grown(transcript, qtbot)
    _wheel(transcript, 600)
    place = transcript.verticalScrollBar().value()
    transcript.append_delta("s", "answer", SORTING_ANSWER)
    transcript.sync([*messages[:-1], _done(SORTING_ANSWER)])
    _drawn(qtbot)
    assert transcript.verticalScrollBar().value() == place


def test_a_long_chat_opens_with_its_last_messages_and_grows_upwards(
    transcript: Transcript, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = transcript._make
    monkeypatch.setattr(transcript, "_make", lambda view: (made.append(view.record.id), make(view))[1])
    transcript.show_conversation(_messages(500))
    assert len(made) == len(transcript.widgets)
    assert 0 < len(made) <= ALIVE_AT_FIRST
    assert transcript.verticalScrollBar().maximum() > 0, "the view is filled"
    qtbot.waitUntil(lambda: len(transcript.widgets) == ALIVE_AT_REST)
    qtbot.waitUntil(lambda: _at_end(transcript))
    anchor = transcript.widgets[0]
    bar = transcript.verticalScrollBar()
    transcript._set_following(False)
    bar.setValue(0)
    qtbot.waitUntil(lambda: len(transcript.widgets) >= ALIVE_AT_REST + ALIVE_STEP)
    _grown(transcript, qtbot)
    assert anchor in transcript.widgets
    assert abs(anchor.mapTo(transcript, QPoint(0, 0)).y() - transcript._theme.px(28)) <= 2


def test_messages_are_made_in_turns_from_the_end(
    transcript: Transcript, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.chat.alive_messages.TURN_S", 0.0)
    transcript.show_conversation(_messages(30))
    assert [widget.message_id for widget in transcript.widgets] == ["m29"], "the others wait for their turn"
    assert transcript.has_room
    qtbot.waitUntil(lambda: not transcript.has_room)
    transcript.sync(_messages(31))
    qtbot.waitUntil(lambda: len(transcript.widgets) == 31)
    assert [widget.message_id for widget in transcript.widgets] == [f"m{number}" for number in range(31)]
    assert _at_end(transcript)


def test_messages_that_stay_keep_their_widgets(transcript: Transcript) -> None:
    messages = _messages(6)
    transcript.show_conversation(messages)
    kept = transcript.widgets[:5]
    other = _done("another version", "other")
    transcript.sync([*messages[:5], other])
    assert transcript.widgets[:5] == kept
    assert transcript.widgets[5].message_id == "other"
    transcript.sync(messages[:2])
    assert transcript.widgets == kept[:2]


def test_foreign_pieces_are_dropped(transcript: Transcript) -> None:
    transcript.show_conversation(_messages(2))
    transcript.append_delta("another", "answer", "text")
    assert "text" not in str(transcript.widgets[1].view)


def test_only_the_last_answer_shows_its_actions_at_rest(transcript: Transcript) -> None:
    transcript.show_conversation(_messages(4))
    first, last = transcript.widgets[1], transcript.widgets[3]
    assert not any(button.isVisible() for button in first.foot._buttons.values())
    assert last.foot._buttons[MessageAction.COPY].isVisible()
    first.set_focus_inside(True)
    assert first.foot._buttons[MessageAction.COPY].isVisible()


def test_a_message_is_edited_in_place(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation(_messages(2))
    assert transcript.edit_last()
    own = transcript.widgets[0]
    editor = own._editor
    assert editor is not None
    assert editor.edit.toPlainText() == "question 0"
    editor.edit.setPlainText("better question")
    with qtbot.waitSignal(transcript.edit_requested) as caught:
        qtbot.keyClick(editor.edit, Qt.Key.Key_Return)
    assert caught.args == ["m0", "better question"]
    assert own._editor is None


@pytest.mark.parametrize("index", [0, 1])
def test_what_is_edited_can_be_seen(transcript: Transcript, qtbot: QtBot, index: int) -> None:
    transcript.show_conversation(_messages(2))
    widget = transcript.widgets[index]
    widget.begin_edit()
    editor = widget._editor
    assert editor is not None
    qtbot.waitUntil(lambda: widget.height() >= editor.height() == editor.sizeHint().height() > 40)
    editor.edit.setPlainText("\n".join("a line" for _ in range(8)))
    qtbot.waitUntil(lambda: editor.edit.height() > 8 * 10 and editor.height() > editor.edit.height())
    assert not editor.visibleRegion().isEmpty()
    assert (editor.x(), editor.width()) == (0, widget.width()), "to the pixel as wide as the column"


def test_escape_gives_up_an_edit(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation(_messages(2))
    transcript.edit_last()
    own = transcript.widgets[0]
    assert own._editor is not None
    with qtbot.assertNotEmitted(transcript.edit_requested):
        qtbot.keyClick(own._editor.edit, Qt.Key.Key_Escape)
    assert own._editor is None


def test_a_long_message_is_folded_and_unfolds(transcript: Transcript) -> None:
    text = "\n".join(f"line {number}" for number in range(20_000))
    transcript.show_conversation([MessageView(MessageRecord("m", "c", None, Role.USER, text), 0, 1)])
    own = transcript.widgets[0]
    assert isinstance(own, OwnMessage)
    assert own._unfold.text() == "Show all 20,000 lines"
    assert own.height() < 900


def test_a_long_message_is_unfolded_in_turns(transcript: Transcript, qtbot: QtBot) -> None:
    text = "\n".join(f"line {number}" for number in range(5000))
    transcript.show_conversation([MessageView(MessageRecord("m", "c", None, Role.USER, text), 0, 1)])
    own = transcript.widgets[0]
    assert isinstance(own, OwnMessage)
    own._unfold.click()
    shown = own._text.toPlainText()
    assert len(shown) < len(text) / 5
    assert text.startswith(shown.rstrip("\n"))
    qtbot.waitUntil(lambda: own._text.toPlainText() == text)
    qtbot.waitUntil(lambda: own.height() > 5000 * 10)


def test_what_grows_above_moves_nothing_that_is_read(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation(_messages(30))
    _grown(transcript, qtbot)
    _wheel(transcript, 900)
    above = transcript.widgets[3]
    assert isinstance(above, Answer)
    read = transcript.widgets[20]
    place = read.mapTo(transcript, QPoint(0, 0)).y()
    height = above.height()
    above._push("\n\nmore\n\nand more")
    assert above.height() > height
    assert read.mapTo(transcript, QPoint(0, 0)).y() == place


def test_own_text_is_not_interpreted(transcript: Transcript) -> None:
    text = "<b>x</b> **y** ![i](https://h)\n  two"
    transcript.show_conversation([MessageView(MessageRecord("m", "c", None, Role.USER, text), 0, 1)])
    own = transcript.widgets[0]
    assert isinstance(own, OwnMessage)
    assert own._text.toPlainText() == text


def test_the_theme_can_change_in_the_middle_of_a_stream(transcript: Transcript, theme: Theme, qtbot: QtBot) -> None:
    transcript.show_conversation([*_messages(4), _streaming()])
    transcript.append_delta("s", "answer", "before ")
    theme.zoom_in()
    transcript.append_delta("s", "answer", "after")
    _drawn(qtbot)
    answer = transcript.widgets[-1]
    assert isinstance(answer, Answer)
    assert answer.content == "before after"


def test_an_own_message_that_wakes_up_opens_no_window(transcript: Transcript) -> None:
    transcript.show_conversation(_messages(2))
    before = {widget for widget in QApplication.topLevelWidgets() if widget.isVisible()}
    transcript.widgets[0].set_focus_inside(True)
    assert transcript.widgets[0].foot._buttons[MessageAction.COPY].isVisible()
    assert {widget for widget in QApplication.topLevelWidgets() if widget.isVisible()} == before


def _message_at_the_top(transcript: Transcript) -> str:
    value = transcript.verticalScrollBar().value()
    return next(widget.message_id for widget in transcript.widgets if widget.geometry().bottom() >= value)


def _read_the_middle(transcript: Transcript, qtbot: QtBot) -> str:
    transcript.show_conversation([*_messages(40), _streaming()])
    _grown(transcript, qtbot)
    _wheel(transcript, 120)
    transcript.verticalScrollBar().setValue(transcript.verticalScrollBar().maximum() // 2)
    return _message_at_the_top(transcript)


def test_another_look_keeps_the_place_and_makes_what_is_in_sight_first(
    transcript: Transcript, theme: Theme, qtbot: QtBot
) -> None:
    read = _read_the_middle(transcript, qtbot)
    theme.zoom_in()
    assert _message_at_the_top(transcript) == read
    assert len(transcript.widgets) < 15
    assert transcript.verticalScrollBar().maximum() >= transcript.verticalScrollBar().value() > 0
    _grown(transcript, qtbot)
    assert _message_at_the_top(transcript) == read
    assert [widget.message_id for widget in transcript.widgets] == [*(f"m{number}" for number in range(40)), "s"]
    assert not transcript.is_following


def test_a_stream_goes_on_below_what_is_made_after_another_look(
    transcript: Transcript, theme: Theme, qtbot: QtBot
) -> None:
    read = _read_the_middle(transcript, qtbot)
    transcript.append_delta("s", "answer", "before")
    theme.zoom_in()
    transcript.append_delta("s", "answer", " and after")
    qtbot.waitUntil(lambda: transcript.widgets[-1].message_id == "s")
    assert transcript.widgets[-1].current_view.record.content == "before and after"
    assert _message_at_the_top(transcript) == read
    theme.zoom_out()
    transcript.scroll_to_end()
    assert transcript.widgets[-1].message_id == "s"
    assert _at_end(transcript)


def test_actions_without_room_are_left_to_the_menu(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation(_messages(2))
    foot = transcript.widgets[1].foot
    buttons = list(foot._buttons.values())
    assert all(button.isVisible() for button in buttons)
    buttons[-1].setText("Fortsetzen, so weit es nur geht, bis ganz zum Ende")
    transcript.resize(420, 400)
    qtbot.waitUntil(lambda: foot.width() < 420)
    shown = [button for button in buttons if button.isVisible()]
    assert shown
    assert buttons[-1] not in shown
    qtbot.waitUntil(lambda: all(button.width() >= button.sizeHint().width() for button in shown), timeout=1000)
    assert foot._more.isVisible()


def _ids(transcript: Transcript) -> list[str]:
    return [widget.message_id for widget in transcript.widgets]


def test_a_message_far_up_is_gone_to_without_all_between(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation([*_messages(2000), _streaming()])
    _grown(transcript, qtbot)
    widget = transcript.go_to("m301")
    assert widget is not None
    transcript.bring_into_view(widget, 0, 20)
    assert len(transcript.widgets) < 12, "only what is needed to see it"
    assert not transcript.is_following

    def height_in_view() -> int:
        found = next(widget for widget in transcript.widgets if widget.message_id == "m301")
        return found.mapTo(transcript.viewport(), QPoint(0, 0)).y()

    place = height_in_view()
    assert 0 < place < transcript.viewport().height() - 20
    _grown(transcript, qtbot)
    assert height_in_view() == place, "what is made around it moves nothing"
    ids = _ids(transcript)
    first = int(ids[0][1:])
    assert ids == [f"m{number}" for number in range(first, first + len(ids))]
    assert first < 301 < first + len(ids) - 1
    assert len(ids) < 150
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum())
    qtbot.waitUntil(lambda: len(transcript.widgets) > len(ids))
    assert transcript.go_to("nowhere") is None


def test_a_stream_goes_on_below_a_reader_far_up(transcript: Transcript, qtbot: QtBot) -> None:
    messages = [*_messages(300), _streaming()]
    transcript.show_conversation(messages)
    transcript.append_delta("s", "answer", "one ")
    transcript.go_to("m20")
    _grown(transcript, qtbot)
    place, alive = transcript.verticalScrollBar().value(), _ids(transcript)
    transcript.append_delta("s", "reasoning", "thought")
    transcript.append_delta("s", "answer", "two")
    transcript.sync([*messages[:-1], transcript._messages[-1], *_messages(1, 400)])
    transcript.append_delta("another", "answer", "text")
    assert (transcript.verticalScrollBar().value(), _ids(transcript)) == (place, alive)
    transcript.sync([*messages[:-1], transcript._messages[-2]])
    transcript.scroll_to_end()
    assert transcript.widgets[-1].message_id == "s"
    record = transcript.widgets[-1].current_view.record
    assert (record.content, record.reasoning) == ("one two", "thought")
    assert len(transcript.widgets) <= ALIVE_AT_FIRST
    assert _at_end(transcript)


def test_the_last_message_is_edited_from_far_up(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation(_messages(300))
    transcript.go_to("m20")
    assert transcript.edit_last()
    assert transcript.widgets[-1].message_id == "m299"


def test_another_branch_below_a_reader_is_made_as_it_is_read(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation(_messages(60))
    _grown(transcript, qtbot)
    transcript.go_to("m5")
    kept = transcript.widgets[:6]
    transcript.sync([*_messages(6), *_messages(500, 1000)])
    assert len(transcript.widgets) < 20
    _grown(transcript, qtbot)
    assert transcript.widgets[:6] == kept
    assert 6 < len(transcript.widgets) < 200
    assert _ids(transcript)[6:8] == ["m1000", "m1001"]


def test_an_answer_of_many_cards_is_deleted_in_turns(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_conversation([_done("```\na\n```\n" * 60, "many")])
    (widget,) = transcript.widgets
    qtbot.waitUntil(lambda: len(widget.texts) == 60)
    num_gone: list[int] = []
    for text in widget.texts:
        text.destroyed.connect(lambda: num_gone.append(0))
    transcript.show_conversation(_messages(1))
    most = before = 0
    while isValid(widget):
        QApplication.processEvents()
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        most, before = max(most, len(num_gone) - before), len(num_gone)
    assert len(num_gone) == 60
    assert 0 < most <= 2 * GONE_PARTS, "those of the first turn, too"


def test_what_is_out_of_sight_waits_while_it_is_held(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.hold()
    transcript.show_conversation(_messages(80))
    qtbot.waitUntil(lambda: not transcript._grow.isActive())
    assert not transcript.has_room
    num_in_sight = len(transcript.widgets)
    assert num_in_sight < ALIVE_AT_FIRST
    _wheel(transcript, 2000)
    qtbot.waitUntil(lambda: len(transcript.widgets) > num_in_sight)  # a person who scrolls up does not wait
    transcript.let_grow()
    qtbot.waitUntil(lambda: len(transcript.widgets) >= ALIVE_AT_REST)
