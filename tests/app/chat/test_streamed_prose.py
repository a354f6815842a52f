"""An answer that comes in pieces looks after each of them as one that came whole."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QTextDocument
from pytestqt.qtbot import QtBot

from app.chat.answer_body import AnswerBody
from app.chat.block_views import ProseView
from app.chat.maths import FormulaSetter
from app.chat.maths_text import shared_setter
from app.chat.prose import IS_RULE, QUOTE_LEVEL
from app.theme import Theme

ANSWER = """Here is *how*, with `code`, **bold [link](https://a.example/x)** and $x^2$ or $5:

1. **First**: look at https://b.example/y.
2. Second, a
   long one

   with ~~two~~ paragraphs
10. Tenth
    - inner `one`
    - - deep

      > quoted **words**
      > again
    - ```py
      x = 1
      ```
-

- loose

- # Title
-
  empty first
* other marks
* [ ] a *task*
* [x] **done**
* [x]
* [ ]not one
* * *

## A heading with *marks* ##

Setext **title**
===
> quote
> - in it
> - more

1. 123
2. `code` עברית
3. **last**

+ [x] `code`
+ [ ] *עברית*

> 1
>
> *שלום* and

[note]: https://c.example/long
See [note] and \\*no\\* &amp; <b> \\(y\\) end.
"""


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let formulas be their sources: when their pictures come is a matter of chance."""
    monkeypatch.setattr(FormulaSetter, "image", lambda _setter, _formula: None)


def _looks(document: QTextDocument) -> list[tuple[object, ...]]:
    looks: list[tuple[object, ...]] = [(document.toHtml(),)]
    block = document.begin()
    while block.isValid():
        form, of = block.blockFormat(), block.textList()
        marks = (form.property(QUOTE_LEVEL), form.property(IS_RULE), form.headingLevel(), form.indent())
        looks.append((block.text(), *marks, of and (of.itemText(block), of.itemNumber(block), of.count())))
        block = block.next()
    return looks


def _shown(body: AnswerBody) -> list[object]:
    return [(type(view), [_looks(text.document())]) for view, text in zip(body.views, body.texts)]


def _whole(theme: Theme, text: str) -> AnswerBody:
    body = AnswerBody(theme)
    body.push(text)
    return body


def _compare(theme: Theme, pieces: list[str]) -> None:
    body, text = AnswerBody(theme), ""
    for piece in pieces:
        body.push(piece)
        text += piece
        whole = _whole(theme, text)
        assert _shown(body) == _shown(whole), text
        whole.deleteLater()
    body.finish()
    whole = _whole(theme, text)
    whole.finish()
    assert _shown(body) == _shown(whole)
    for each in (body, whole):
        each.deleteLater()


@pytest.mark.parametrize("size", [2, 5, 40])
def test_an_answer_looks_the_same_wherever_it_is_cut(theme: Theme, qtbot: QtBot, size: int) -> None:
    _compare(theme, [ANSWER[start : start + size] for start in range(0, len(ANSWER), size)])


_PIECES = st.one_of(
    st.sampled_from(
        ["- a", "\n- b", "\n\n- c", "\n1. d", "\n2) e", "\n* f", "\n  - g", "\n\n  h", "\n    i", "\n-"]
    ),
    st.sampled_from(
        [" word", "*", "**", "`", "~~", "$", "[", "](/x)", "\n", "\n\n", " ", "\\", "<", "&amp", ";", "!"]
    ),
    st.sampled_from(
        [
            "\n> q",
            "\n# t",
            "\n---",
            "\n===",
            "\n```",
            "\n  ```\n",
            "x",
            ".",
            "1",
            " **b** c",
            "\n| a",
            "עב",
            "\n- 1",
        ]
    ),
)


@given(st.lists(_PIECES, max_size=22))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_of_any_kind_look_the_same(theme: Theme, qtbot: QtBot, pieces: list[str]) -> None:
    _compare(theme, pieces)


def test_a_heading_without_words_keeps_its_looks(theme: Theme, qtbot: QtBot) -> None:
    _compare(theme, ["#", "\n> qx", "["])
    _compare(theme, ["#", "\n\n- c", "!", "\n\n5. `x` "])


def test_what_stands_is_not_written_again(theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    body = AnswerBody(theme)
    qtbot.addWidget(body)
    body.push("- a *b*\n" * 20 + "- **c** and")
    (view,) = body.views
    assert isinstance(view, ProseView)
    changes: list[tuple[int, int]] = []
    view.document().contentsChange.connect(lambda place, _removed, added: changes.append((place, added)))
    body.push(" `d`")
    length = view.document().characterCount()
    assert min(place for place, _ in changes) >= length - len("and d") - 2
    assert sum(added for _, added in changes) < 10


def test_a_formula_that_is_set_meanwhile_stays(theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    body = AnswerBody(theme)
    qtbot.addWidget(body)
    body.push("- the formula $x^2 + 1$ is set\n- and")
    with qtbot.waitSignal(shared_setter().was_set):
        pass
    for piece in (" more", " **text**", "\n- to the", " *end*"):
        body.push(piece)
    (view,) = body.views
    assert view.toPlainText() == "the formula \ufffc is set\nand more text\nto the end"  # type: ignore[union-attr]


def test_an_item_that_begins_with_a_list_has_its_marker_first(theme: Theme, qtbot: QtBot) -> None:
    body = AnswerBody(theme)
    qtbot.addWidget(body)
    body.push("- - deep")
    body.push(" word")
    (text,) = body.texts
    assert text.toPlainText().split("\n") == ["\u200b", "deep word"]
