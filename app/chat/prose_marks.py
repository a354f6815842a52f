"""What a writer of prose remembers of what it wrote, so that of a text which changed its end alone is written anew.

An open block is parsed again with each piece that comes; most of its tokens are the same as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor, QTextList, QTextListFormat

from app.chat.reading_direction import direction_inside, direction_of_inline
from engine.plain_data import dataclass

if TYPE_CHECKING:
    from markdown_it.token import Token


_LEAST_TOKENS = 14
"""Fewer are written as a whole in less time than it takes to see what stands."""


@dataclass
class ListItem:
    """One list the writer stands in, opened by the token ``index``.

    ``is_fresh`` until the item's first block is written.
    """

    format: QTextListFormat
    direction: Qt.LayoutDirection | None
    index: int
    list: QTextList | None = None
    is_tight: bool = True
    is_fresh: bool = False


@dataclass
class ProseState:
    """What the writer stands in.

    Attributes:
        lists: the innermost last.
        quotes: how many there are around.
        quote_index: of the token that opened the outermost one.
        is_rtl_quote: that one is read from right to left.
        heading: its tag; "" outside.
        use_existing: the document's first block is there already, and empty.
    """

    lists: list[ListItem] = field(default_factory=list)
    quotes: int = 0
    quote_index: int = 0
    is_rtl_quote: bool = False
    heading: str = ""
    use_existing: bool = False

    def copied(self) -> ProseState:
        """Another one, which going on from this one does not change."""
        lists = [copy(item) for item in self.lists] if self.lists else []
        return ProseState(lists, self.quotes, self.quote_index, self.is_rtl_quote, self.heading, self.use_existing)

    def holds(self, tokens: Sequence[Token]) -> bool:
        """Whether lists and quotes are read in the same direction in ``tokens``, which open them alike."""
        if any(item.direction != direction_inside(tokens, item.index) for item in self.lists):
            return False
        rtl = Qt.LayoutDirection.RightToLeft
        return not self.quotes or self.is_rtl_quote == (direction_inside(tokens, self.quote_index) == rtl)


class Mark(NamedTuple):
    """Where a token was written: from there on it and all that follows can be written anew.

    Attributes:
        token_index: of the token; the tokens before it stay.
        position: in the document, before what was written for it.
        state: what the writer stood in there.
        children: positions before each of the token's children that stay, and behind the last of them; empty where
            all that belongs to the token is written anew.
    """

    token_index: int
    position: int
    state: ProseState
    children: tuple[int, ...] = ()

    @property
    def place(self) -> int:
        """The position in the document from which on it is written anew."""
        return self.children[-1] if self.children else self.position


def kept_marks(
    before: Sequence[Token], after: Sequence[Token], marks: Sequence[Mark], cursor: QTextCursor
) -> list[Mark]:
    """Those of ``marks``, of the tokens ``before``, that hold for the tokens ``after``; none where nothing stays.

    The last one says where to go on: no place at the start of a line, for when all behind it is removed Qt may give
    the line the looks of one that followed. ``cursor`` is moved there.
    """
    num_tokens = sum(1 + len(token.children or ()) for token in before)
    if num_tokens < _LEAST_TOKENS:
        return []
    num_same = _num_same(before, after)
    kept = [mark for mark in marks if mark.token_index <= num_same]
    while kept:
        last = kept.pop()
        if not last.state.holds(after):
            continue
        index = last.token_index
        if last.children and index < len(after) and _same_direction(before[index], after[index]):
            num_children = _num_same(before[index].children or (), after[index].children or ())
            stands = last.children[: num_children + 1]
            cursor.setPosition(stands[-1])
            if not cursor.atBlockStart():
                return [*kept, last._replace(children=stands)]
        cursor.setPosition(last.position)
        if not cursor.atBlockStart():
            return [*kept, last._replace(children=())]
    return []


def _num_same(before: Sequence[Token], after: Sequence[Token]) -> int:
    """How many of the first tokens are written alike."""
    number = 0
    for old, new in zip(before, after):
        if old is not new and not _same(old, new):
            break
        number += 1
    return number


def _same_direction(old: Token, new: Token) -> bool:
    return direction_of_inline(old) == direction_of_inline(new)


def _same(old: Token, new: Token) -> bool:
    """Whether two tokens are written alike."""
    return (
        old.type == new.type
        and old.content == new.content
        and old.tag == new.tag
        and old.hidden == new.hidden
        and old.attrs == new.attrs
        and old.children == new.children
    )
