from __future__ import annotations

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QTextBlockFormat, QTextCursor, QTextDocument, QTextFormat, QTextTable
from pytestqt.qtbot import QtBot

from app.chat.block_views import ProseView
from app.chat.blocks import parse_blocks
from app.chat.prose import QUOTE_LEVEL, ProseWriter
from app.chat.table_view import TableView
from app.theme import Theme


def _write(theme: Theme, source: str) -> QTextDocument:
    document = QTextDocument()
    cursor = QTextCursor(document)
    for index, block in enumerate(parse_blocks(source)):
        ProseWriter(theme).write(cursor, block.tokens, is_first=index == 0)
    return document


def _anchors(document: QTextDocument) -> list[tuple[str, str]]:
    found = []
    block = document.begin()
    while block.isValid():
        for span in block.textFormats():
            if span.format.isAnchor():
                found.append((block.text()[span.start : span.start + span.length], span.format.anchorHref()))
        block = block.next()
    return found


@pytest.mark.parametrize("text", ["<smirk> waffles", "<b onmouseover=x>hi</b>", "<form action=x>", "a &lt; b < c"])
def test_html_is_shown_as_it_was_written(theme: Theme, text: str) -> None:
    assert _write(theme, text).toPlainText() == text.replace("&lt;", "<")


@pytest.mark.parametrize(
    "source",
    [
        "![x](https://h/p.png?leak=SECRET)",
        "![x][r]\n\n[r]: https://h/p.png?leak=SECRET",
        "<img src='https://h/p.png?leak=SECRET'>",
        "![x](data:image/svg+xml;base64,AAAA)",
    ],
)
def test_an_image_is_never_one(theme: Theme, source: str) -> None:
    document = _write(theme, source)
    formats = {fmt.objectType() for fmt in document.allFormats()}
    assert int(QTextFormat.ObjectTypes.ImageObject.value) not in formats
    assert all(not fmt.isImageFormat() for fmt in document.allFormats())
    if source.startswith("![x](https") or source.startswith("![x][r]"):
        assert "https://h/p.png?leak=SECRET" in document.toPlainText()
        assert _anchors(document)[0][1] == "https://h/p.png?leak=SECRET"


def test_a_view_loads_nothing(theme: Theme, qtbot: QtBot) -> None:
    view = ProseView(theme)
    qtbot.addWidget(view)
    assert view.loadResource(2, QUrl("https://h/p.png")) is None
    assert view.loadResource(2, QUrl("file:///etc/passwd")) is None


def test_links(theme: Theme) -> None:
    document = _write(theme, "[here](https://a.example/x) and https://b.example/y. [bad](javascript:alert(1))")
    assert _anchors(document) == [("here", "https://a.example/x"), ("https://b.example/y", "https://b.example/y")]


def test_paragraphs_have_their_own_direction(theme: Theme) -> None:
    document = _write(theme, "left\n\nשלום עולם")
    assert document.begin().textDirection() == Qt.LayoutDirection.LeftToRight
    assert document.begin().next().textDirection() == Qt.LayoutDirection.RightToLeft


def test_lists_keep_their_numbers_and_levels(theme: Theme) -> None:
    document = _write(theme, "3. three\n4. four\n   - inner\n\nend")
    block = document.begin()
    assert block.textList().itemText(block).startswith("3")
    assert block.next().textList() is not None
    inner = block.next().next()
    assert inner.textList().format().indent() == 2
    assert inner.next().textList() is None


def test_tasks_have_a_box(theme: Theme) -> None:
    source = "- [ ] open\n- [x] `done`\n  - [X] inner\n- [ ]\n- [y] none\n- plain\n\n1. [ ] numbered\n\n[ ] no item"
    document = _write(theme, source)
    none, unchecked, checked = QTextBlockFormat.MarkerType
    found, block = [], document.begin()
    while block.isValid():
        found.append((block.text(), block.blockFormat().marker()))
        block = block.next()
    assert found == [
        ("open", unchecked),
        ("done", checked),
        ("inner", checked),
        ("[ ]", none),
        ("[y] none", none),
        ("plain", none),
        ("[ ] numbered", none),
        ("[ ] no item", none),
    ]


def test_what_is_nested_deep_keeps_room_for_its_text(theme: Theme, qtbot: QtBot) -> None:
    lists = "".join("  " * depth + f"- level {depth}\n" for depth in range(9))
    document = _write(theme, f"{lists}\n{'>' * 12} deep\n")
    block, indents = document.begin(), []
    while block.textList() is not None:
        indents.append(block.textList().format().indent())
        block = block.next()
    assert indents == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert block.text() == "deep"
    assert block.blockFormat().property(QUOTE_LEVEL) == 8


def test_quotes_and_headings_are_marked(theme: Theme) -> None:
    document = _write(theme, "> > deep\n\n## Title")
    assert document.begin().blockFormat().property(QUOTE_LEVEL) == 2
    assert document.begin().next().blockFormat().headingLevel() == 2


def test_line_ends_inside_a_paragraph_stay(theme: Theme) -> None:
    assert _write(theme, "one\ntwo").toPlainText() == "one\ntwo"


def test_a_table_has_its_cells(theme: Theme, qtbot: QtBot) -> None:
    view = TableView(theme)
    qtbot.addWidget(view)
    (block,) = parse_blocks("| a | b |\n|--|--:|\n| 1 | <i> |")
    view.set_block(block)
    table = view.document().rootFrame().childFrames()[0]
    assert isinstance(table, QTextTable)
    assert (table.rows(), table.columns()) == (2, 2)
    assert "<i>" in view.toPlainText()


def test_the_open_end_is_replaced_and_the_rest_stays(theme: Theme, qtbot: QtBot) -> None:
    view = ProseView(theme)
    qtbot.addWidget(view)
    first, second = parse_blocks("first\n\n- second")
    view.update_blocks([first], [second])
    view.update_blocks([], parse_blocks("# third"))
    assert view.toPlainText() == "first\nthird"
    view.update_blocks([], [])
    assert view.toPlainText() == "first"
