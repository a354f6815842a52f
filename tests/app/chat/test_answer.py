from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QLabel, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.answer import Answer
from app.chat.answer_body import AnswerBody
from app.chat.block_views import ProseView
from app.chat.blocks import BlockStream, parse_blocks
from app.chat.code_card import CodeCard
from app.chat.conversation import MessageView
from app.chat.message_actions import ANSWER_ACTIONS, WORDS, MessageAction
from app.chat.reasoning_fold import ReasoningFold
from app.chat.table_view import TableView, TableWriter
from app.chat.tool_card import ToolCard
from app.storage.records import MessageRecord, MessageStatus
from app.theme import Theme
from engine.protocol import Role
from tests.app.fake_controller import STATS


def _view(content: str = "", status: MessageStatus = MessageStatus.COMPLETE, **fields: object) -> MessageView:
    record = MessageRecord("m", "c", "q", Role.ASSISTANT, content, status=status, **fields)  # type: ignore[arg-type]
    return MessageView(record, 0, 1)


def _text(answer: Answer) -> str:
    return "\n".join(view.toPlainText() for view in answer.body.views if isinstance(view, ProseView))


def _labels(answer: Answer) -> str:
    return " ".join(label.text() for label in answer.findChildren(QLabel) if not label.isHidden())


@pytest.fixture
def body(theme: Theme, qtbot: QtBot) -> AnswerBody:
    made = AnswerBody(theme)
    qtbot.addWidget(made)
    made.resize(700, 400)
    made.show()
    return made


def test_finished_blocks_are_never_touched_again(body: AnswerBody) -> None:
    body.push("one\n\n```py\nx\n```\n\ntwo\n")
    first, code = body.views[0], body.views[1]
    assert isinstance(first, ProseView)
    before = first.document().revision()
    for _ in range(5):
        body.push(" more")
    assert body.views[:2] == (first, code)
    assert first.document().revision() == before


def test_blocks_become_their_views_while_they_come(body: AnswerBody) -> None:
    text = "A\n\nB\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n```py\nx = 1\n```\n\nC"
    for character in text:
        body.push(character)
    body.finish()
    assert [type(view) for view in body.views] == [ProseView, TableView, CodeCard, ProseView]
    assert body.views[0].toPlainText() == "A\nB"  # type: ignore[union-attr]
    assert body.views[3].toPlainText() == "C"  # type: ignore[union-attr]


def _streamed_and_loaded(theme: Theme, qtbot: QtBot, body: AnswerBody, text: str) -> AnswerBody:
    """Streams the text into ``body``, character by character; another body that got it at once."""
    for character in text:
        body.push(character)
    body.finish()
    whole = AnswerBody(theme)
    qtbot.addWidget(whole)
    whole.push(text)
    whole.finish()
    return whole


def test_a_streamed_table_is_the_one_that_loading_gives(theme: Theme, qtbot: QtBot, body: AnswerBody) -> None:
    rows = "".join(f"| *r{number}* | {number} | `c` |\n" for number in range(8))
    text = "| name | n | code |\n|:--|--:|:-:|\n" + rows + "| short |\n\nend\n"
    whole = _streamed_and_loaded(theme, qtbot, body, text)
    streamed, loaded = body.views[0], whole.views[0]
    assert isinstance(streamed, TableView)
    assert isinstance(loaded, TableView)
    assert streamed.document().toHtml() == loaded.document().toHtml()


def _rims(view: TableView) -> list[bool]:
    """Whether there is a line below each row."""
    table = view._table
    assert table is not None
    formats = [table.cellAt(row, 0).format().toTableCellFormat() for row in range(table.rows())]
    return [looks.bottomBorder() > 0 for looks in formats]


def _long_table(num_columns: int, num_rows: int) -> str:
    def line(cell: str) -> str:
        return "|" + "|".join(f" {cell}{column} " for column in range(num_columns)) + "|\n"

    return line("name") + "|--" * num_columns + "|\n" + "".join(line(f"r{row}c") for row in range(num_rows))


def _lefts(view: TableView) -> list[float]:
    table, layout = view._table, view.document().documentLayout()
    assert table is not None
    cells = [table.cellAt(0, column) for column in range(table.columns())]
    return [layout.blockBoundingRect(cell.firstCursorPosition().block()).left() for cell in cells]


@pytest.mark.parametrize(("num_columns", "num_rows"), [(3, 150), (30, 20)])
@pytest.mark.parametrize("piece", [300, 100_000])
def test_the_parts_of_a_long_table_look_like_one(
    body: AnswerBody, qtbot: QtBot, num_columns: int, num_rows: int, piece: int
) -> None:
    text = _long_table(num_columns, num_rows) + "\nend\n"
    for start in range(0, len(text), piece):
        body.push(text[start : start + piece])
    body.finish()
    qtbot.wait(1)
    *parts, end = body.views
    assert isinstance(end, ProseView)
    tables = [part for part in parts if isinstance(part, TableView)]
    assert len(tables) == len(parts) > 1
    words = " ".join(table.toPlainText() for table in tables).split()
    assert words.count("name0") == 1, "one head"
    assert [word for word in words if word.endswith("c0")] == [f"r{row}c0" for row in range(num_rows)]
    for width in (700, 520, 700):
        body.resize(width, 4000)
        qtbot.wait(1)
        assert {tuple(_lefts(table)) for table in tables} == {tuple(_lefts(tables[0]))}, "the same columns"
        assert [below.y() for below in tables[1:]] == [above.geometry().bottom() + 1 for above in tables[:-1]]
    assert end.y() > tables[-1].geometry().bottom() + 1
    bars = [table.horizontalScrollBar() for table in tables]
    assert [bar.isVisible() for bar in bars] == [False] * (len(bars) - 1) + [num_columns == 30]
    if num_columns == 30:
        bars[-1].setValue(bars[-1].maximum() // 2)
        assert {bar.value() for bar in bars} == {bars[-1].maximum() // 2} != {0}


def test_a_table_after_another_is_one_of_its_own(body: AnswerBody) -> None:
    table = _long_table(3, 150)
    body.push(f"{table}\n{table}\nend\n")
    body.finish()
    heads = ["name0" in view.toPlainText().split() for view in body.views if isinstance(view, TableView)]
    num_parts = len(heads) // 2
    assert heads == [True, *[False] * (num_parts - 1)] * 2


def test_rows_of_a_table_that_stand_are_not_written_again(
    body: AnswerBody, monkeypatch: pytest.MonkeyPatch
) -> None:
    body.push("| a |\n|--|\n" + "".join(f"| {number} |\n" for number in range(20)))
    written: list[int] = []
    write = TableWriter.write_row
    monkeypatch.setattr(
        TableWriter,
        "write_row",
        lambda writer, table, index, cells, place: (
            written.append(index),
            write(writer, table, index, cells, place),
        ),
    )
    body.push("| one more |\n")
    assert written == [21]
    written.clear()
    table = body.views[0]
    assert isinstance(table, TableView)
    assert _rims(table) == [True] * 21 + [False]
    (block,) = parse_blocks("| a |\n|--|\n" + "".join(f"| {number} |\n" for number in range(12)))
    table.set_block(block)
    assert written == []
    assert _rims(table) == [True] * 12 + [False], "the last row is another one, with another rim"
    assert table.toPlainText().split() == ["a", *map(str, range(12))]


def test_streamed_and_loaded_answers_look_the_same(theme: Theme, qtbot: QtBot, body: AnswerBody) -> None:
    text = "# T\n\n- a\n- b\n\n```\ncode\n```\n\n> q\n\n| a |\n|--|\n| 1 |\n"
    whole = _streamed_and_loaded(theme, qtbot, body, text)
    assert [type(view) for view in whole.views] == [type(view) for view in body.views]
    for left, right in zip(body.views, whole.views):
        if isinstance(left, ProseView) and isinstance(right, ProseView):
            assert left.toHtml() == right.toHtml()


def test_a_model_that_repeats_itself_gets_no_cards_without_end(body: AnswerBody) -> None:
    piece = "```\ncode\n```\n\n| a |\n|---|\n| cell |\n\n"
    for _ in range(120):
        body.push(piece)
    body.finish()
    assert sum(not isinstance(view, ProseView) for view in body.views) == 150
    shown = "\n".join(view.toPlainText() for view in body.texts)
    assert (shown.count("code"), shown.count("cell")) == (120, 120)


def test_code_gives_exactly_what_was_written(body: AnswerBody, qtbot: QtBot) -> None:
    body.push("```html\n<form action=x>\n\tdone \u202e\n```\n")
    (card,) = body.views
    assert isinstance(card, CodeCard)
    copy = next(button for button in card.findChildren(QPushButton) if button.text() == "Copy")
    copy.click()
    assert QGuiApplication.clipboard().text() == "<form action=x>\n\tdone \u202e"
    assert copy.text() == "Copied"


def test_code_is_saved_as_utf8_or_says_why_not(
    body: AnswerBody, tmp_path: object, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    body.push("```python\nname = 'Zoë'\n```\n")
    (card,) = body.views
    save = next(button for button in card.findChildren(QPushButton) if button.text() == "Save")
    target = tmp_path / "a.py"  # type: ignore[operator]
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))
    save.click()
    assert target.read_text(encoding="utf-8") == "name = 'Zoë'\n"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "no" / "a.py"), ""))  # type: ignore[operator]
    with qtbot.waitSignal(body.notice) as caught:
        save.click()
    assert "could not be saved" in caught.args[0]


def test_colours_come_when_the_fence_is_closed(body: AnswerBody, theme: Theme, qtbot: QtBot) -> None:
    def colours() -> set[str]:
        card = body.views[0]
        assert isinstance(card, CodeCard)
        document = card._text.document()
        return {fmt.foreground().color().name() for fmt in document.allFormats() if fmt.isCharFormat()}

    body.push("```python\nimport os\n")
    assert theme.colour("accent").name() not in colours()
    body.push("```\n")
    qtbot.waitUntil(lambda: theme.colour("accent").name() in colours())


def test_an_answer_streams_and_ends_without_growing(theme: Theme, qtbot: QtBot) -> None:
    answer = Answer(theme, _view(status=MessageStatus.STREAMING))
    qtbot.addWidget(answer)
    answer.resize(700, 300)
    answer.set_last(True)
    answer.show()
    answer.append("answer", "Hello ")
    assert _text(answer) == "Hello"
    answer.append("answer", "world")
    qtbot.waitUntil(lambda: _text(answer) == "Hello world")
    height = answer.heightForWidth(700)
    answer.show_view(_view("Hello world", stats=STATS))
    assert answer.heightForWidth(700) == height
    assert answer.foot.status == "312 tok/s · first word 0.06 s · 1,148 reused, 56 read · seed 1"


def _long_text() -> str:
    return "\n\n".join(f"Paragraph {number} with **bold** words.\n\n```\nx\n```" for number in range(60))


def test_a_long_answer_is_shown_in_turns(theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.answer.TURN_S", 0.0)
    monkeypatch.setattr("app.chat.answer._MOST_PIECE", 100)
    answer = Answer(theme, _view(_long_text(), stats=STATS))
    qtbot.addWidget(answer)
    assert 0 < len(_text(answer)) < 400, "only the beginning is there at once"
    assert answer.content == _long_text()
    assert not any(text.has_caret for text in answer.body.texts), "nobody writes it any more"
    qtbot.waitUntil(lambda: "Paragraph 59" in _text(answer))
    whole = AnswerBody(theme)
    qtbot.addWidget(whole)
    whole.push(_long_text())
    whole.finish()
    qtbot.waitUntil(lambda: not answer._turns.isActive())
    assert _shown(answer.body) == _shown(whole)


def test_a_short_answer_is_there_at_once(theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.chat.answer.TURN_S", 0.0)
    answer = Answer(theme, _view("word " * 250 + "and the end", stats=STATS))
    qtbot.addWidget(answer)
    assert _text(answer).endswith("and the end")


def test_pieces_that_come_meanwhile_wait_for_their_turn(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.chat.answer.TURN_S", 0.0)
    monkeypatch.setattr("app.chat.answer._MOST_PIECE", 100)
    answer = Answer(theme, _view(_long_text(), MessageStatus.STREAMING))
    qtbot.addWidget(answer)
    answer.append("answer", "\n\nand the end")
    answer.show_view(_view(_long_text() + "\n\nand the end.", stats=STATS))
    qtbot.waitUntil(lambda: _text(answer).endswith("and the end."))


def _shown(body: AnswerBody) -> list[str]:
    return [text.toPlainText() for text in body.texts]


def test_the_keyboard_goes_from_an_answer_to_its_actions(theme: Theme, qtbot: QtBot) -> None:
    answer = Answer(theme, _view("text\n\n```python\nx\n```\n"))
    qtbot.addWidget(answer)
    answer.show()
    answer.set_last(True)  # its buttons are made last of all
    names, widget = [], answer.nextInFocusChain()
    while widget is not answer:
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isVisible():
            names.append(widget.accessibleName())
        widget = widget.nextInFocusChain()
    buttons = [WORDS[action].name for action in ANSWER_ACTIONS if WORDS[action].button]
    assert names == [*buttons, "More for this message", "Copy the code", "Save the code as a file"]


def test_words_behind_words_are_not_parsed_again(body: AnswerBody, monkeypatch: pytest.MonkeyPatch) -> None:
    body.push("Some **bold** words, 1. not a list")
    parsed: list[str] = []
    spans = BlockStream._spans
    monkeypatch.setattr(
        BlockStream, "_spans", lambda stream, source: (parsed.append(source), spans(stream, source))[1]
    )
    for piece in (" and", " more", " of", " them, step-by-step", " (all: 3.5 %),", " “so”; "):
        body.push(piece)
    assert parsed == []
    body.push("*now*")
    assert len(parsed) == 1
    view = body.views[0]
    assert isinstance(view, ProseView)
    assert (
        view.toPlainText()
        == "Some bold words, 1. not a list and more of them, step-by-step (all: 3.5 %), “so”; now"
    )


def test_the_end_of_a_stream_shows_the_rest(theme: Theme, qtbot: QtBot) -> None:
    answer = Answer(theme, _view(status=MessageStatus.STREAMING))
    qtbot.addWidget(answer)
    answer.append("answer", "one ")
    answer.append("answer", "two")
    answer.show_view(_view("one two three", MessageStatus.STOPPED))
    assert _text(answer) == "one two three"
    assert "Stopped." in _labels(answer)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (_view("x", MessageStatus.INTERRUPTED), "Interrupted"),
        (_view("", MessageStatus.FAILED, error="The machine has not enough memory."), "not enough memory"),
        (_view("x", stats={**STATS, "finish_reason": "length"}), "longest answer"),
        (_view("x", stats={**STATS, "finish_reason": "context"}), "context is full"),
        (_view("\n", stats={**STATS, "finish_reason": "stop"}), "without an answer"),
    ],
)
def test_other_endings_are_said(theme: Theme, qtbot: QtBot, view: MessageView, words: str) -> None:
    answer = Answer(theme, view)
    qtbot.addWidget(answer)
    assert words in _labels(answer)


def test_an_ordinary_end_says_nothing(theme: Theme, qtbot: QtBot) -> None:
    answer = Answer(theme, _view("x", stats=STATS))
    qtbot.addWidget(answer)
    assert answer._ending.isHidden()


def test_reasoning_is_folded_with_its_time(theme: Theme, qtbot: QtBot) -> None:
    view = _view("answer", reasoning="because", stats={**STATS, "reasoning_ms": 2000})
    answer = Answer(theme, view)
    qtbot.addWidget(answer)
    answer.show()
    fold = answer._fold
    assert fold is not None
    assert fold._toggle.text() == "Thought for 2 s"
    assert not fold._text.isVisible()
    fold._toggle.click()
    assert fold._text.isVisible()
    assert fold._text.toPlainText() == "because"


def test_reasoning_streams_apart_from_the_answer(theme: Theme, qtbot: QtBot) -> None:
    answer = Answer(theme, _view(status=MessageStatus.STREAMING))
    qtbot.addWidget(answer)
    answer.append("reasoning", "hm ")
    assert answer._fold is not None
    assert answer._fold._toggle.text().startswith("Thinking")
    answer.append("answer", "yes")
    assert answer._fold._toggle.text().startswith("Thought for")
    assert _text(answer) == "yes"


def test_copy_gives_the_exact_text(theme: Theme, qtbot: QtBot) -> None:
    answer = Answer(theme, _view("<smirk> **waffles** \u0000"))
    qtbot.addWidget(answer)
    assert not answer.foot._buttons, "nothing is made that nobody sees"
    answer.set_last(True)
    answer.foot._buttons[MessageAction.COPY].click()
    assert QGuiApplication.clipboard().text() == "<smirk> **waffles** \u0000"


def test_calls_are_cards_and_not_text(theme: Theme, qtbot: QtBot) -> None:
    calls = [
        {"name": "weather", "arguments": '{"city": "Lisboa"}', "call_id": "1"},
        {"name": "<b>odd</b>", "arguments": "no json", "call_id": ""},
    ]
    record = MessageRecord("m", "c", None, Role.ASSISTANT, "Let me see.", stats={"tool_calls": calls})
    answer = Answer(theme, MessageView(record, 0, 1))
    qtbot.addWidget(answer)
    answer.show()
    first, second = answer.findChildren(ToolCard)
    shown = ["Let me see.", "Calls weather", '{\n  "city": "Lisboa"\n}', "Calls <b>odd</b>", "no json"]
    assert [text.toPlainText() for text in answer.texts] == shown
    assert [first.code, second.code] == [shown[2], shown[4]]
    answer.show_view(MessageView(record, 0, 2))
    assert len(answer.findChildren(ToolCard)) == 2


def test_how_long_it_thinks_is_said_twice_a_second(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Answer(theme, _view(status=MessageStatus.STREAMING))
    qtbot.addWidget(answer)
    clock = {"now": 100.0}
    monkeypatch.setattr("app.chat.answer.time.monotonic", lambda: clock["now"])
    titles: list[str] = []
    for _ in range(21):
        answer.append("reasoning", "a thought ")
        fold = answer.findChild(ReasoningFold)
        assert fold is not None
        titles.append(fold.title)
        clock["now"] += 0.125
    assert len(set(titles)) == 6
    assert titles[-1] == "Thinking · 2.5 s"
