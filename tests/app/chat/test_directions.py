from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage, QTextBlockFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.answer import Answer
from app.chat.block_views import ProseView
from app.chat.blocks import parse_blocks
from app.chat.composer import Composer
from app.chat.conversation import MessageView
from app.chat.own_message import OwnMessage
from app.chat.table_view import TableView
from app.chat.tool_result import ToolResult
from app.storage.records import MessageRecord
from app.theme import Theme
from app.widgets.growing_edit import GrowingEdit
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
def test_what_is_written_stands_on_its_side(theme: Theme, qtbot: QtBot) -> None:
    edit = GrowingEdit(theme)
    qtbot.addWidget(edit)
    edit.resize(400, 200)
    edit.setPlainText("left\n" + "مرحبا بالعالم " * 8)
    edit.show()
    edit.grab()
    left, right = edit.document().firstBlock().layout(), edit.document().lastBlock().layout()
    assert left.lineAt(0).x() == 0
    assert right.lineCount() > 1
    for line in (right.lineAt(index) for index in range(right.lineCount())):
        assert round(line.x() + line.naturalTextWidth()) == edit.viewport().width() - edit.cursorWidth()
    edit.moveCursor(QTextCursor.MoveOperation.End)
    last = right.lineAt(right.lineCount() - 1)
    assert edit.cursorRect().x() < last.x() + 20, "the caret is where the text goes on: at its left end"
    first = QPoint(edit.viewport().width() - 3, edit.cursorRect().y() - edit.fontMetrics().lineSpacing())
    assert edit.cursorForPosition(first).position() > 5, "a click finds the letter that is seen there"


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


def _prose(theme: Theme, qtbot: QtBot, source: str) -> ProseView:
    view = ProseView(theme)
    qtbot.addWidget(view)
    view.resize(400, 300)
    view.update_blocks(parse_blocks(source), [])
    return view


def test_code_and_formulas_say_nothing_of_the_text_around_them(theme: Theme, qtbot: QtBot) -> None:
    view = _prose(theme, qtbot, "`print` هي دالة\n\n$x$ שלום\n\n`only`\n\n# `code` عنوان")
    assert _directions(view.document()) == [RIGHT, RIGHT, LEFT, RIGHT]


def test_a_list_has_its_marks_on_one_side(theme: Theme, qtbot: QtBot) -> None:
    view = _prose(theme, qtbot, "1. `x`\n2. الثاني\n3. Python\n\n- one\n- שלום\n  - שלום")
    assert _directions(view.document()) == [RIGHT] * 3 + [LEFT] * 2 + [RIGHT]
    block = view.document().begin()
    assert block.textList().itemText(block) == "1.", (
        "Qt draws it from right to left: the point is left of the number"
    )
    looks = block.textList().format()
    assert (looks.numberPrefix(), looks.numberSuffix()) == (".", "")


def test_the_box_of_a_task_stands_off_its_text(theme: Theme, qtbot: QtBot) -> None:
    view = _prose(theme, qtbot, "- [ ] שלום\n- [x] done")
    block = view.document().begin()
    assert _directions(view.document()) == [RIGHT, RIGHT]
    assert block.text() == "\u2009שלום"
    assert block.blockFormat().marker() == QTextBlockFormat.MarkerType.Unchecked


def test_what_goes_on_in_an_item_has_its_own_direction(theme: Theme, qtbot: QtBot) -> None:
    view = _prose(theme, qtbot, "- مرحبا\n\n  English\n\n  ```\n  مرحبا\n  ```")
    assert _directions(view.document()) == [RIGHT, LEFT, LEFT]


def _columns_of(image: QImage, colour: str) -> set[int]:
    return {
        x for x in range(image.width()) for y in range(image.height()) if image.pixelColor(x, y).name() == colour
    }


@pytest.mark.parametrize(("text", "is_rtl"), [("quote", False), ("ציטוט", True), ("123\n>\n> שלום", True)])
def test_the_line_beside_a_quote_stands_where_its_text_begins(
    theme: Theme, qtbot: QtBot, text: str, is_rtl: bool
) -> None:
    view = _prose(theme, qtbot, f"> {text}")
    view.show()
    columns = _columns_of(view.grab().toImage(), theme.colour("hairline").name())
    line = set(range(theme.px(3)))
    assert columns == ({399 - x for x in line} if is_rtl else line)
    formats = view.document().begin().blockFormat()
    assert (formats.rightMargin() > 0, formats.leftMargin() > 0) == (is_rtl, not is_rtl)


def _table(theme: Theme, qtbot: QtBot, source: str) -> TableView:
    view = TableView(theme)
    qtbot.addWidget(view)
    view.resize(400, 300)
    view.set_block(parse_blocks(source)[0])
    return view


def _cells(view: TableView) -> list[list[str]]:
    table = view._table
    assert table is not None
    return [
        [table.cellAt(row, column).firstCursorPosition().block().text() for column in range(table.columns())]
        for row in range(table.rows())
    ]


RTL_TABLE = "| الاسم | العدد | ID |\n|:--|--:|:-:|\n| تفاح | 12 | a |\n| pear | 7 | b |\n"


def test_a_table_that_is_read_from_right_to_left_has_its_columns_so(theme: Theme, qtbot: QtBot) -> None:
    view = _table(theme, qtbot, RTL_TABLE)
    assert _cells(view) == [["ID", "العدد", "الاسم"], ["a", "12", "تفاح"], ["b", "7", "pear"]]
    table = view._table
    assert table is not None
    absolute = Qt.AlignmentFlag.AlignAbsolute
    for row in range(3):  # whatever direction a cell has: a column stands on one side
        sides = [table.cellAt(row, each).firstCursorPosition().blockFormat().alignment() for each in range(3)]
        assert sides == [
            Qt.AlignmentFlag.AlignHCenter,
            Qt.AlignmentFlag.AlignLeft | absolute,
            Qt.AlignmentFlag.AlignRight | absolute,
        ]


def test_a_wide_table_begins_where_it_is_read_from(theme: Theme, qtbot: QtBot) -> None:
    view = _table(theme, qtbot, "|" + "عمود|" * 20 + "\n|" + "--|" * 20 + "\n|" + "خلية|" * 20 + "\n")
    view.show()
    bar = view.horizontalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    assert bar.value() == 0
    first = view.cursorForPosition(QPoint(view.viewport().width() - 12, 12)).position()
    assert view._table is not None
    assert view._table.cellAt(first).column() == 19, "the first column is the rightmost one, and in sight"


@pytest.mark.parametrize(
    ("head", "is_rtl"),
    [("| # | الاسم | ملاحظة |", True), ("| Name | عدد | Note |", False), ("| 1 | 2 | 3 |", True)],
)
def test_most_cells_say_how_a_table_is_read(theme: Theme, qtbot: QtBot, head: str, is_rtl: bool) -> None:
    view = _table(theme, qtbot, f"{head}\n|--|--|--|\n| تفاح | 12 | x |\n")
    assert (_cells(view)[1][-1] == "تفاح") is is_rtl


def test_a_table_turns_round_when_its_first_letters_come(theme: Theme, qtbot: QtBot) -> None:
    head = "| 1 | 2 |\n|--|--|\n"
    view = _table(theme, qtbot, head)
    view.set_block(parse_blocks(head + "| שלום | 3 |\n")[0])
    assert _cells(view) == [["2", "1"], ["3", "שלום"]]


def test_a_table_is_copied_as_it_is_read(theme: Theme, qtbot: QtBot) -> None:
    view = _table(theme, qtbot, RTL_TABLE)
    view.selectAll()
    data = view.createMimeDataFromSelection()
    assert data.text().split() == ["الاسم", "العدد", "ID", "تفاح", "12", "a", "pear", "7", "b"]
    html = data.html()
    assert html.index("الاسم") < html.index("العدد") < html.index(">ID<")
    cursor = view.textCursor()
    cursor.setPosition(view._table.cellAt(1, 0).firstPosition())  # type: ignore[union-attr]
    cursor.setPosition(view._table.cellAt(1, 2).lastPosition(), cursor.MoveMode.KeepAnchor)  # type: ignore[union-attr]
    view.setTextCursor(cursor)
    assert view.createMimeDataFromSelection().text().split() == ["تفاح", "12", "a"]
