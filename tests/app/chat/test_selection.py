from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QTextCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.conversation import MessageView
from app.chat.message_actions import MessageAction
from app.chat.text_view import TextView
from app.chat.transcript import Transcript
from app.storage.records import MessageRecord
from app.theme import Theme
from engine.protocol import Role

ANSWER = """A **bold** start, see [this](https://example.org).

```python
print("hi")
```

The end."""


@pytest.fixture
def transcript(theme: Theme, qtbot: QtBot) -> Transcript:
    made = Transcript(theme)
    qtbot.addWidget(made)
    made.resize(800, 700)
    records = [
        MessageRecord("q", "c", None, Role.USER, "My question\nin two lines"),
        MessageRecord("a", "c", "q", Role.ASSISTANT, ANSWER),
        MessageRecord("q2", "c", "a", Role.USER, "Another one"),
    ]
    made.show_conversation([MessageView(record, 0, 1) for record in records])
    made.show()
    qtbot.waitExposed(made)
    return made


def _mouse(
    view: TextView, kind: QEvent.Type, place: QPoint, button: Qt.MouseButton, pressed: Qt.MouseButton
) -> None:
    local = view.viewport().mapFromGlobal(place)
    event = QMouseEvent(kind, QPointF(local), QPointF(place), button, pressed, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(view.viewport(), event)


def _place(view: TextView, position: int) -> QPoint:
    cursor = QTextCursor(view.document())
    cursor.setPosition(position)
    return view.viewport().mapToGlobal(view.cursorRect(cursor).center())


def _drag(start: tuple[TextView, int], end: tuple[TextView, int]) -> None:
    view, button = start[0], Qt.MouseButton.LeftButton
    first, last = _place(*start), _place(*end)
    _mouse(view, QEvent.Type.MouseButtonPress, first, button, button)
    for step in range(1, 5):
        between = first + (last - first) * (step / 4)
        _mouse(view, QEvent.Type.MouseMove, between, Qt.MouseButton.NoButton, button)
    _mouse(view, QEvent.Type.MouseButtonRelease, last, button, Qt.MouseButton.NoButton)


def _texts(transcript: Transcript) -> list[TextView]:
    return [view for widget in transcript.widgets for view in widget.texts]


def test_a_drag_from_one_message_into_another_selects_what_is_between(transcript: Transcript) -> None:
    question, start, code, end, _ = _texts(transcript)
    _drag((question, 3), (end, 3))
    selection = transcript.selection
    assert selection.views == [question, start, code, end]
    assert selection.text() == 'question\nin two lines\n\nA bold start, see this.\n\nprint("hi")\n\nThe'
    assert selection.markdown().startswith("question")
    assert '```python\nprint("hi")\n```' in selection.markdown()
    assert "**bold**" in selection.markdown()
    selection.copy()
    data = QApplication.clipboard().mimeData()
    assert data.text() == selection.text()
    assert "font-weight" in data.html()
    assert "https://example.org" in data.html()


def test_a_drag_upwards_and_back_selects_as_far_as_the_pointer(transcript: Transcript) -> None:
    question, start, code, end, last = _texts(transcript)
    _drag((last, 7), (code, 5))
    assert transcript.selection.text() == '("hi")\n\nThe end.\n\nAnother'
    _drag((start, 2), (start, 6))
    assert transcript.selection.text() == "bold"
    assert transcript.selection.views == [start]
    assert not question.textCursor().hasSelection()
    assert not end.textCursor().hasSelection()


def test_another_press_lets_the_selection_go(transcript: Transcript) -> None:
    question, *_, last = _texts(transcript)
    _drag((question, 0), (last, 4))
    assert len(transcript.selection.views) == 5
    _drag((last, 2), (last, 2))
    assert transcript.selection.views == []


def test_control_c_copies_all_of_it_and_the_menu_offers_it(transcript: Transcript, qtbot: QtBot) -> None:
    question, start, *_ = _texts(transcript)
    _drag((question, 0), (start, 1))
    qtbot.keyClick(question, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.clipboard().text() == "My question\nin two lines\n\nA"
    menu = transcript.widgets[1].make_menu(_place(start, 20))
    names = [action.text() for action in menu.actions() if action.text()]
    assert names[:4] == [
        "Copy the selection",
        "Copy the selection as Markdown",
        "Copy the link",
        "Look closer at “this”",
    ]
    menu.actions()[names.index("Copy the link")].trigger()
    assert QApplication.clipboard().text() == "https://example.org"


def test_control_a_selects_the_message(transcript: Transcript, qtbot: QtBot) -> None:
    _, start, code, end, _ = _texts(transcript)
    answer = transcript.widgets[1]
    answer.setFocus()
    qtbot.keyClick(answer, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert transcript.selection.views == [start, code, end]


def test_a_formula_is_copied_as_its_source(transcript: Transcript, qtbot: QtBot) -> None:
    record = MessageRecord("m", "c", None, Role.ASSISTANT, "With $\\delta_7$ inside.")
    transcript.show_conversation([MessageView(record, 0, 1)])
    [view] = _texts(transcript)
    qtbot.waitUntil(lambda: "\ufffc" in view.toPlainText())
    transcript.selection.select_all([view])
    assert transcript.selection.text() == "With $\\delta_7$ inside."


def test_a_message_is_copied_as_it_looks_and_as_it_was_written(transcript: Transcript) -> None:
    answer = transcript.widgets[1]
    answer.act(MessageAction.COPY)
    data = QApplication.clipboard().mimeData()
    assert data.text() == ANSWER
    assert "https://example.org" in data.html()
    assert "print" in data.html()
    answer.act(MessageAction.COPY_MARKDOWN)
    assert QApplication.clipboard().text() == ANSWER
    assert not QApplication.clipboard().mimeData().hasHtml()


def test_a_table_in_parts_is_copied_as_one(theme: Theme, qtbot: QtBot) -> None:
    made = Transcript(theme)
    qtbot.addWidget(made)
    made.resize(800, 700)
    rows = "".join(f"|a{number}|b{number}|\n" for number in range(300))
    record = MessageRecord("a", "c", None, Role.ASSISTANT, f"|x|y|\n|-|-|\n{rows}")
    made.show_conversation([MessageView(record, 0, 1)])
    made.show()
    made.widgets[0].complete()
    assert len(made.widgets[0].texts) > 1
    made.selection.select_all(made.widgets[0].texts)
    lines = [line.replace(" ", "") for line in made.selection.markdown().split("\n")]
    assert [line for line in lines if set(line) - set("|-")] == ["|x|y|", *rows.split()]
    assert len(lines) == 302
    assert made.selection.text().split() == ["x", "y", *rows.replace("|", " ").split()]
    assert "<br>" not in made.selection.mime_data().html().replace("<br></p>", "")
