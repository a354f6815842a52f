"""In which direction a text is read: paragraphs, and the lists, quotes and tables they stand in.

It is that of the first letter. Code and formulas are read from left to right everywhere and say nothing of the text
around them; Qt by itself goes by the first letter of a line, whatever that is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

if TYPE_CHECKING:
    from markdown_it.token import Token

_LETTER = re.compile(r"[^\W\d_]")
_SILENT = {"code_inline", "math_inline", "math_inline_double"}


def direction_of_text(text: str) -> Qt.LayoutDirection | None:
    """The direction of the first letter; None where there is none."""
    letter = _LETTER.search(text)
    if letter is None:
        return None
    is_rtl = unicodedata.bidirectional(letter.group()) in {"R", "AL"}
    return Qt.LayoutDirection.RightToLeft if is_rtl else Qt.LayoutDirection.LeftToRight


def direction_of_inline(token: Token) -> Qt.LayoutDirection | None:
    """The direction of what stands in a paragraph, a heading or a cell; None where it has no letters."""
    return _first(direction_of_text(child.content) for child in token.children or () if child.type not in _SILENT)


def direction_inside(tokens: Sequence[Token], start: int) -> Qt.LayoutDirection | None:
    """The direction of the list or quote that opens at ``start``: that of the first text in it which has one."""
    return _first(direction_of_inline(token) for token in _inside(tokens, start) if token.type == "inline")


def direction_of_table(rows: Iterable[Sequence[tuple[Token, str]]]) -> Qt.LayoutDirection | None:
    """The direction of most cells in the first row with letters; of as many in both, that of the first."""
    for row in rows:
        found = [each for token, _ in row if (each := direction_of_inline(token)) is not None]
        if found:
            return max(found, key=found.count)
    return None


def _first(directions: Iterable[Qt.LayoutDirection | None]) -> Qt.LayoutDirection | None:
    return next((direction for direction in directions if direction is not None), None)


def _inside(tokens: Sequence[Token], start: int) -> Iterator[Token]:
    depth = 0
    for position in range(start, len(tokens)):
        depth += tokens[position].nesting
        if depth == 0:
            return
        yield tokens[position]
