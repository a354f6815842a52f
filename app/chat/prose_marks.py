"""What a writer of prose remembers of what it wrote, so that of a text which changed its end alone is written anew.

An open block is parsed again with each piece that comes; most of its tokens are the same as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import field, replace
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor, QTextList, QTextListFormat

from app.chat.reading_direction import direction_inside, direction_of_inline
from engine.plain_data import dataclass

if TYPE_CHECKING:
    from markdown_it.token import Token


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
        return replace(self, lists=[copy(item) for item in self.lists])

    def holds(self, tokens: Sequence[Token]) -> bool:
        """Whether lists and quotes are read in the same direction in ``tokens``, which open them alike."""
        if any(item.direction != direction_inside(tokens, item.index) for item in self.lists):
            return False
        rtl = Qt.LayoutDirection.RightToLeft
        return not self.quotes or self.is_rtl_quote == (direction_inside(tokens, self.quote_index) == rtl)


@dataclass(frozen=True)
class Mark:
    """Where a token was written: from there on it and all that follows can be written anew.

    Attributes:
        index: of the token; the tokens before it stay.
        position: in the document, before what was written for it.
        state: what the writer stood in there.
        children: positions before each of the token's children that stay, and behind the last of them; empty where
            all that belongs to the token is written anew.
    """

    index: int
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
    num_same = next((n for n, (old, new) in enumerate(zip(before, after)) if not _same(old, new)), None)
    if num_same is None:
        num_same = min(len(before), len(after))
    kept = [mark for mark in marks if mark.index <= num_same]
    while kept:
        last = kept.pop()
        if not last.state.holds(after):
            continue
        places = [Mark(last.index, last.position, last.state)]
        if last.children and last.index < len(after) and _same_direction(before[last.index], after[last.index]):
            children = zip(before[last.index].children or (), after[last.index].children or ())
            num_children = next((n for n, (old, new) in enumerate(children) if old != new), None)
            if num_children is None:
                num_children = min(len(before[last.index].children or ()), len(after[last.index].children or ()))
            stands = last.children[: num_children + 1]
            places.append(Mark(last.index, last.position, last.state, stands))
        while places:
            cursor.setPosition(places[-1].place)
            if not cursor.atBlockStart():
                return [*kept, places[-1]]
            places.pop()
    return []


def _same_direction(old: Token, new: Token) -> bool:
    return direction_of_inline(old) == direction_of_inline(new)


def _same(old: Token, new: Token) -> bool:
    """Whether two tokens are written alike."""
    return old is new or (
        old.type == new.type
        and old.tag == new.tag
        and old.hidden == new.hidden
        and old.attrs == new.attrs
        and old.content == new.content
        and old.children == new.children
    )
