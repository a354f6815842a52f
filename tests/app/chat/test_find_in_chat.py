from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.find_in_chat import FindInChat
from app.chat.text_view import TextView
from app.storage.records import AttachmentRecord
from app.window.main_window import MainWindow
from engine.protocol import Role
from tests.app.conftest import Bench
from tests.app.fake_controller import FakeController


def _fill(fake: FakeController, count: int) -> list[str]:
    """A long chat; every tenth message has a needle."""
    fake.new_conversation()
    ids = []
    fake.blockSignals(True)
    for number in range(count):
        role = Role.ASSISTANT if number % 2 else Role.USER
        text = f"Message {number} with some words.\n\nAnd a second paragraph"
        ids.append(fake.add(role, text + (f", a NEEDLE {number}" if number % 10 == 5 else "") + "."))
    fake.blockSignals(False)
    fake.open_conversation(fake.current_id)
    return ids


def _type(window: MainWindow, qtbot: QtBot, text: str) -> FindInChat:
    qtbot.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    find = window.chat_page.finding
    find.bar.field.setText(text)
    qtbot.waitUntil(lambda: find._finder.is_done)
    _arrive(window, qtbot)
    return find


def _arrive(window: MainWindow, qtbot: QtBot) -> None:
    """Wait until what was gone to is in sight."""
    qtbot.waitUntil(lambda: not window.chat_page.finding._marks._steps.is_busy)


def _marked(window: MainWindow) -> list[tuple[TextView, str, str]]:
    """What is marked in the messages that are alive: the view, the words, their ground."""
    found = []
    for widget in window.chat_page.transcript.widgets:
        for view in widget.texts:
            found += [
                (view, mark.cursor.selectedText(), mark.format.background().color().name().upper())
                for mark in view.extraSelections()
            ]
    return found


def _current(window: MainWindow, theme_colour: str) -> TextView:
    (view,) = [view for view, _text, ground in _marked(window) if ground == theme_colour]
    return view


def _is_in_sight(window: MainWindow, view: TextView) -> bool:
    viewport = window.chat_page.transcript.viewport()
    top = view.mapTo(viewport, view.rect().topLeft()).y()
    return -view.height() < top < viewport.height()


def test_the_whole_chat_is_searched_and_gone_through(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    _fill(fake, 200)
    window.chat_page.focus_composer()
    edit = window.chat_page.composer.edit
    find = _type(window, qtbot, "needle")
    accent = window._theme.palette.accent.upper()
    assert find.bar.state == "20 of 20", "the nearest to where the person reads"
    assert _is_in_sight(window, _current(window, accent))
    qtbot.keyClick(find.bar.field, Qt.Key.Key_Return)
    assert find.bar.state == "1 of 20", "round the end"
    assert not window.chat_page.transcript.viewport().updatesEnabled(), "nobody sees the way"
    _arrive(window, qtbot)
    assert window.chat_page.transcript.viewport().updatesEnabled()
    assert _is_in_sight(window, _current(window, accent))
    assert not window.chat_page.transcript.is_following
    assert len(window.chat_page.transcript.widgets) < 120, "what is between is not made"
    qtbot.keyClick(find.bar.field, Qt.Key.Key_F3)
    assert find.bar.state == "2 of 20"
    qtbot.keyClick(find.bar.field, Qt.Key.Key_F3, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClick(find.bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert find.bar.state == "20 of 20"
    assert {text for _view, text, _ground in _marked(window)} == {"NEEDLE"}
    find.bar.field.setText("nowhere")
    qtbot.waitUntil(lambda: find._finder.is_done)
    assert find.bar.state == "Not found"
    assert _marked(window) == []
    qtbot.keyClick(find.bar.field, Qt.Key.Key_Escape)
    assert not find.is_open
    assert QApplication.focusWidget() is edit


def test_what_is_found_in_a_chat_that_is_left_is_dropped(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    ids = _fill(fake, 100)
    fake.message_found.emit(ids[15], ("needle",))
    fake.new_conversation()
    _arrive(window, qtbot)
    assert window.chat_page.transcript.widgets == ()
    other = _fill(fake, 40)
    fake.message_found.emit(other[5], ("needle",))
    fake.message_found.emit(other[15], ("needle",))
    _arrive(window, qtbot)
    assert [text for _view, text, _ground in _marked(window)] == ["NEEDLE"]
    [view] = [view for view, _text, _ground in _marked(window)]
    assert "15" in view.toPlainText()


def test_a_stream_moves_nobody_who_finds(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    _fill(fake, 30)
    find = _type(window, qtbot, "needle")
    find._finder.step(-1)
    bar = window.chat_page.transcript.verticalScrollBar()
    qtbot.wait(100)
    place = bar.value()
    answer = fake.begin_answer()
    fake.push(answer, "Here is a needle, too.\n\n```\nneedle()\n```\n\n| needle |\n|---|\n| no |\n")
    qtbot.waitUntil(lambda: find.bar.state == "2 of 6", timeout=3000)
    fake.end_answer(answer)
    qtbot.wait(50)
    assert bar.value() == place
    qtbot.waitUntil(lambda: sum(text == "needle" for _view, text, _ground in _marked(window)) == 3, timeout=3000)


def test_the_bar_moves_nothing_that_is_read(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    _fill(fake, 40)
    transcript = window.chat_page.transcript
    qtbot.waitUntil(lambda: len(transcript.widgets) == 40 and not transcript._grow.isActive())
    qtbot.wait(50)  # the last one that was made takes its place
    transcript._set_following(False)
    transcript.verticalScrollBar().setValue(600)
    widget = next(widget for widget in transcript.widgets if widget.y() > 700)
    place = widget.mapTo(window, widget.rect().topLeft())
    qtbot.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert widget.mapTo(window, widget.rect().topLeft()) == place
    window.chat_page.finding.close()
    assert widget.mapTo(window, widget.rect().topLeft()) == place


def test_folded_text_is_unfolded_for_what_is_found_in_it(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    fake.new_conversation()
    fake.add(Role.USER, "\n".join(f"line {number}" for number in range(400)) + "\nneedle")
    _type(window, qtbot, "needle")
    assert [text for _view, text, _ground in _marked(window)] == ["needle"]


def test_thoughts_and_calls_are_found_where_they_are_folded(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    fake.new_conversation()
    fake.add(Role.USER, "A needle?")
    call = {"name": "find_needle", "arguments": '{"what": "needle"}', "call_id": "c1"}
    thoughts = "\n\n".join(f"Thought {number}" for number in range(60)) + "\n\nThe needle. The NEEDLE!"
    answer = fake.add(
        Role.ASSISTANT, "Here is *a* needle.", reasoning="\n" + thoughts, stats={"tool_calls": [call]}
    )
    find = _type(window, qtbot, "needle")
    accent = window._theme.palette.accent.upper()
    widget = next(one for one in window.chat_page.transcript.widgets if one.message_id == answer)
    assert find.bar.state == "1 of 6"
    steps = []
    for _ in range(5):
        find._finder.step(1)
        _arrive(window, qtbot)
        view = _current(window, accent)
        steps.append((find.bar.state, widget.texts.index(view), bool(widget.folded_text)))
        assert _is_in_sight(window, view)
    assert [state for state, _text, _folded in steps] == [f"{number} of 6" for number in range(2, 7)]
    texts = [text for _state, text, _folded in steps]
    assert texts == [0, 0, 1, 2, 3], "twice in the thoughts, in the answer, in the call's name and below it"
    assert not any(is_folded for _state, _text, is_folded in steps)
    box = view.mapTo(window.chat_page.transcript.viewport(), view.cursorRect().topLeft())
    assert window.chat_page.transcript.viewport().rect().contains(box)


def test_functions_are_found_by_their_names(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    fake.new_conversation()
    call = {"name": "get_rain", "arguments": "{}", "call_id": "c1"}
    fake.add(Role.ASSISTANT, "Let me see.", stats={"tool_calls": [call]})
    fake.add(Role.TOOL, "dry", stats={"tool_result": {"name": "get_rain", "call_id": "c1"}})
    find = _type(window, qtbot, "GET_rain")
    accent = window._theme.palette.accent.upper()
    assert find.bar.state == "1 of 2"
    assert _current(window, accent).toPlainText() == "Calls get_rain"
    find._finder.step(1)
    _arrive(window, qtbot)
    assert _current(window, accent).toPlainText() == "Result of get_rain"
    find = _type(window, qtbot, "of get_rain")
    assert find.bar.state == "1 of 1", "as it is shown"


def test_what_is_found_below_folded_thoughts_leaves_them_folded(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    fake.new_conversation()
    answer = fake.add(Role.ASSISTANT, "A needle, and a needle.", reasoning="No needle.")
    find = _type(window, qtbot, "needle")
    assert find.bar.state == "1 of 3"
    widget = next(one for one in window.chat_page.transcript.widgets if one.message_id == answer)
    assert not widget.folded_text, "the first one is in the thoughts"
    widget._fold._toggle.setChecked(False)  # type: ignore[attr-defined]
    find._finder.step(1)
    assert find.bar.state == "2 of 3"
    assert widget.folded_text
    accent = window._theme.palette.accent.upper()
    marks = [ground == accent for _view, _text, ground in _marked(window)]
    assert marks == [True, False]


def test_another_chat_is_searched_when_it_opens(window: MainWindow, fake: FakeController, qtbot: QtBot) -> None:
    first = fake.current_id
    find = _type(window, qtbot, "log")
    assert find.bar.state == "1 of 4"
    _fill(fake, 4)
    assert not find.is_open, "a new chat has nothing to find"
    find = _type(window, qtbot, "message")
    fake.open_conversation(first)
    qtbot.waitUntil(lambda: find._finder.is_done)
    assert find.bar.state == "Not found"


@pytest.mark.parametrize("word", ["needle", "title only"])
def test_a_found_chat_opens_at_the_message(
    window: MainWindow, fake: FakeController, qtbot: QtBot, word: str
) -> None:
    other = fake.add_conversation("Title only")
    fake.search("title only")
    window.sidebar.list.open_requested.emit(other)
    assert fake.calls[-2:] == [("open_found", other), ("open_conversation", other)]
    ids = _fill(fake, 100)
    fake.message_found.emit(ids[15], (word,))
    _arrive(window, qtbot)
    transcript = window.chat_page.transcript
    found = next(widget for widget in transcript.widgets if widget.message_id == ids[15])
    assert 0 <= found.mapTo(transcript.viewport(), found.rect().topLeft()).y() < transcript.viewport().height()
    assert {text for _view, text, _ground in _marked(window)} == ({"NEEDLE"} if word == "needle" else set())
    window.chat_page.finding._marks._end_flash()
    assert _marked(window) == []


def test_a_hit_in_another_branch_is_shown(bench: Bench) -> None:
    controller = bench.controller
    found: list[tuple[str, object]] = []
    controller.message_found.connect(lambda message_id, words: found.append((message_id, words)))
    bench.ask("Tea or coffee?", "Put the kettle on.")
    bench.ask("And then?", "Pour.")
    question = controller.current_messages[0].record.id
    chat_id = controller.current_id
    controller.edit_and_resend(question, "Milk?")
    bench.engine.finish(bench.request())
    bench.wait_idle()
    bench.settle()
    assert controller.current_messages[0].record.content == "Milk?"
    controller.search("KETTLE on")
    bench.settle()
    controller.open_found(chat_id)
    shown = [view.record.content for view in controller.current_messages]
    assert shown == ["Tea or coffee?", "Put the kettle on.", "And then?", "Pour."]
    assert found == [(controller.current_messages[1].record.id, ("KETTLE", "on"))]
    controller.new_conversation()
    controller.open_found(chat_id)
    assert controller.current_id == chat_id
    assert len(found) == 2
    controller.rename_conversation(chat_id, "Breakfast")
    controller.search("breakfast")
    bench.settle()
    controller.open_found(chat_id)
    assert len(found) == 2, "it was the title that was found"
    bench.settle()


def _attach(fake: FakeController, message_id: str, *names: str) -> None:
    """Let files be attached to a message of the open chat, and show it so."""
    views = fake._messages[fake.current_id]
    index = next(index for index, view in enumerate(views) if view.record.id == message_id)
    files = tuple(
        AttachmentRecord(f"f{number}", fake.current_id, message_id, number, name, "x", 10)
        for number, name in enumerate(names)
    )
    views[index] = replace(views[index], attachments=files)
    fake.conversation_opened.emit(fake.current_id)


def _chip_looks(window: MainWindow, message_id: str) -> list[str]:
    widget = window.chat_page.transcript.widget_of(message_id)
    assert widget is not None
    return [chip.property("found") for chip in widget.chips]


def test_names_of_what_is_attached_are_found_and_marked(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    ids = _fill(fake, 40)
    _attach(fake, ids[10], "needle and needle.csv", "other.txt", "Needle.pdf")
    find = _type(window, qtbot, "needle")
    assert find._finder.total == 4 + 3
    seen = []
    for _ in range(7):
        find.step(1)
        _arrive(window, qtbot)
        hit = find._finder.current
        assert hit is not None
        if hit.message_id == ids[10]:
            seen.append((hit.ordinal, _chip_looks(window, ids[10])))
            chip = window.chat_page.transcript.widget_of(ids[10]).chips[0]  # type: ignore[union-attr]
            place = chip.mapTo(window.chat_page.transcript.viewport(), QPoint(0, 0)).y()
            assert 0 <= place < window.chat_page.transcript.viewport().height()
        else:
            assert window.chat_page.transcript.widget_of(hit.message_id) is not None
    assert seen == [
        (0, ["current", "", "found"]),
        (1, ["current", "", "found"]),
        (2, ["found", "", "current"]),
    ]
    for _ in range(7):
        if find._finder.current is None or find._finder.current.message_id != ids[10]:
            find.step(1)
            _arrive(window, qtbot)
    find.close()
    assert _chip_looks(window, ids[10]) == ["", "", ""]


def test_a_name_that_was_found_from_elsewhere_is_shown(
    window: MainWindow, fake: FakeController, qtbot: QtBot
) -> None:
    ids = _fill(fake, 40)
    _attach(fake, ids[0], "Straße.txt", "other.txt")
    fake.message_found.emit(ids[0], ("strasse",))
    _arrive(window, qtbot)
    assert _chip_looks(window, ids[0]) == ["current", ""]
    window.chat_page.finding._marks._end_flash()
    assert _chip_looks(window, ids[0]) == ["", ""]


def test_the_sidebar_finds_a_chat_by_what_is_attached(bench: Bench, tmp_path: Path) -> None:
    controller, found = bench.controller, list[tuple[str, object]]()
    file = tmp_path / "Quarterly figures.csv"
    file.write_text("a,b", encoding="utf-8")
    controller.attachments.add_files(controller.current_conversation, [file])
    bench.qtbot.waitUntil(lambda: bool(controller.attachments.draft(controller.current_id)))
    controller.search("figures")
    bench.qtbot.wait(100)
    assert not [record for record in controller.conversations if record.title == "Sum it up"], (
        "it is no message yet"
    )
    controller.search("")
    bench.ask("Sum it up", "Done")
    chat_id, asked = controller.current_id, controller.current_messages[0].record.id
    controller.new_conversation()
    controller.search("FIGURES")
    bench.qtbot.waitUntil(lambda: [record.id for record in controller.conversations] == [chat_id])
    assert controller.excerpt(chat_id) == "Quarterly figures.csv"
    controller.message_found.connect(lambda message_id, words: found.append((message_id, words)))
    controller.open_found(chat_id)
    assert found == [(asked, ("FIGURES",))]
