from __future__ import annotations

import pytest
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.chat.answer_body import AnswerBody
from app.chat.block_views import ProseView
from app.chat.blocks import BlockStream, parse_blocks
from app.chat.maths import MAX_CHARACTERS, Formula, FormulaSetter, set_formula
from app.chat.maths_text import fragments
from app.chat.table_view import TableView
from app.theme import Theme


def _maths(source: str) -> list[tuple[str, str]]:
    found = []
    for block in parse_blocks(source):
        for token in block.tokens:
            found += [(token.type, token.content)] if token.type == "math_block" else []
            found += [(child.type, child.content) for child in token.children or () if "math" in child.type]
    return found


def _text(source: str) -> str:
    tokens = [token for block in parse_blocks(source) for token in block.tokens]
    return "".join(child.content for token in tokens for child in token.children or ())


@pytest.mark.parametrize(
    "source",
    [
        "It costs $5 and $10 in total.",
        "between $1,000 and $2,000",
        "a $5 bill and a five-$ note",
        "$20/month vs $30/month",
        "US$ 5 and US$ 6",
        "$HOME and $PATH",
        "5$ or 6$",
        "`$x$` stays code, \\$5 and \\$6 stay money",
        "an open \\( bracket and an empty \\(\\) one",
    ],
)
def test_money_and_code_are_no_maths(source: str) -> None:
    assert _maths(source) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("so $x^2$ grows", [("math_inline", "x^2")]),
        ("$2 \\times 3$", [("math_inline", "2 \\times 3")]),
        ("$5x + 3$ for $5", [("math_inline", "5x + 3")]),
        ("with \\(a_1+b\\), and \\[c\\] too", [("math_inline", "a_1+b"), ("math_inline_double", "c")]),
        ("$$\n\\frac{a}{b}\n$$", [("math_block", "\n\\frac{a}{b}\n")]),
        ("\\[\nx = 1\n\\]\nafter", [("math_block", "\nx = 1\n")]),
        ("text before\n\\[ y \\]\nand after", [("math_block", " y ")]),
        ("- item\n\n  \\[\n  z\n  \\]", [("math_block", "\nz\n")]),
    ],
)
def test_what_is_maths(source: str, expected: list[tuple[str, str]]) -> None:
    assert _maths(source) == expected


def test_a_formula_that_streams_is_finished_like_any_block() -> None:
    source = "Before\n\n\\[\na = b\n\\]\n\nBetween $x$\n\n$$\nc\n$$\n\nAfter\n"
    whole = [block.tokens for block in parse_blocks(source)]
    for size in (1, 3, 7):
        stream = BlockStream()
        finished = []
        for start in range(0, len(source), size):
            finished += stream.push(source[start : start + size]).finished
        finished += stream.finish().finished
        assert [[token.type for token in block.tokens] for block in finished] == [
            [token.type for token in tokens] for tokens in whole
        ]


def _formula(source: str, *, is_display: bool = False) -> Formula:
    return Formula(source, is_display, 15, "#22201d", 2.0)


def test_a_formula_is_set_in_its_colour_and_knows_its_baseline() -> None:
    one = set_formula(_formula("x"))
    fraction = set_formula(_formula("\\frac{a}{b}", is_display=True))
    assert one is not None
    assert fraction is not None
    assert fraction.depth > 4 > one.depth
    assert fraction.ascent + fraction.depth == pytest.approx(fraction.image.height() / 2, abs=1)
    assert {_darkest(one.image), _darkest(fraction.image)} == {"#22201d"}


def _darkest(image: QImage) -> str:
    pixels = [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]
    return max(pixels, key=lambda colour: colour.alpha()).name()


@pytest.mark.parametrize("source", ["", "{", "\\frac{a}", "\\begin{nothing}", "{" * 5000, "\x00", "\\left("])
def test_no_source_makes_setting_fail(source: str) -> None:
    set_formula(_formula(source))


def test_a_source_that_is_too_long_is_not_set(qtbot: QtBot) -> None:
    setter = FormulaSetter()
    assert setter.image(_formula("x" * (MAX_CHARACTERS + 1))) is None
    assert setter._runner is None
    setter.close()


def test_the_image_takes_the_place_of_the_source(theme: Theme, qtbot: QtBot) -> None:
    body = AnswerBody(theme)
    qtbot.addWidget(body)
    body.resize(600, 400)
    body.show()
    body.push("With $\\alpha_9 + 1$ and so on.\n\n| a |\n|---|\n| $\\beta_9$ |\n\nMore: $\\gamma_9$ an")
    prose, table, more = body.views
    assert isinstance(prose, ProseView)
    assert isinstance(table, TableView)
    assert isinstance(more, ProseView)
    views = (prose, table, more)
    qtbot.waitUntil(lambda: all("\ufffc" in view.toPlainText() for view in views))
    assert prose.toPlainText() == "With \ufffc and so on."
    body.push("d then it ends.")
    body.finish()
    assert more.toPlainText() == "More: \ufffc and then it ends."


def test_formulas_of_one_kind_are_laid_out_at_once(theme: Theme, qtbot: QtBot) -> None:
    body = AnswerBody(theme)
    qtbot.addWidget(body)
    body.resize(600, 400)
    body.push("Each $\\delta_9$ " * 50)
    body.finish()
    view = body.texts[0]
    changes: list[int] = []
    view.document().contentsChanged.connect(lambda: changes.append(view.toPlainText().count("\ufffc")))
    qtbot.waitUntil(lambda: bool(changes))
    assert changes == [50]
    formats = [each.charFormat() for each in fragments(view.document().begin())]
    pictures = {each.toImageFormat().name() for each in formats if each.isImageFormat()}
    assert len(pictures) == 1, "all show the same"


def test_a_dollar_may_end_a_formula(theme: Theme, qtbot: QtBot) -> None:
    body = AnswerBody(theme)
    qtbot.addWidget(body)
    body.push("It is $a = b\\$$ then.")
    body.finish()
    qtbot.waitUntil(lambda: "\ufffc" in body.texts[0].toPlainText())


def test_a_bracket_is_not_followed_for_ever() -> None:
    short, long = ("\\[\n" + "a\n" * number + "\\]\n" for number in (50, 150))
    assert [kind for kind, _ in _maths(short)] == ["math_block"]
    assert [kind for kind, _ in _maths(long)] == ["math_inline_double"], "it is found with its paragraph"
