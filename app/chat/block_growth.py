"""An open block that only got longer: words at the end of its text, lines of code in its fence, rows, items.

Most pieces of an answer are words and spaces, which mean the same to Markdown wherever they stand behind a word.
For those the block grows without being parsed and written anew. Of a table the last row alone is parsed again, of a
list the last item.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from app.chat.block_parts import LINES
from engine.plain_data import dataclass

if TYPE_CHECKING:
    from markdown_it.token import Token

    from app.chat.blocks import Block

_WORDS = re.compile(r"(?:[^\W_]|[ ,'?!]|(?<=[^\W\d_])[-.])*")
"""No marks, no line ends; a full stop or a dash behind a letter alone, for elsewhere they may begin a list."""
_SENTENCES = re.compile(r"""(?:[^\W_]|[ ,.;:'"?!()/%‘-”„…–—«»-]|[、。！，：；？（）「」])*""")
"""What means no more in a line that has a letter, where no link, note or address is begun."""
_SENTENCE_ENDS = frozenset(""",.;:'"?!()/%’”…–—»、。！，：；？）」-""")
_CODE = re.compile(r"(?:[\t\n\x20-\x7e]|[^\W\x00-\x7f])*")
"""Printable ASCII, letters of all scripts and line ends: what is shown as it is."""
_OPENING = re.compile(r"(`{3,}+|~{3,}+)[^\n]*\n")
_HEAD_LINES = 2  # of a table: the names of its columns, and the line below
_LISTS = frozenset({"bullet_list_open", "ordered_list_open"})
_PARAGRAPH = frozenset({"paragraph_open", "paragraph_close"})
_LIST_LEVEL = 2  # of what is inside the items of a list that is in nothing
_BLANK = " \t\r\n"
_HALF_FENCE = re.compile(r" {0,3}([`~])\1*")


def grown_prose(block: Block, source: str, text: str) -> Block | None:
    """``block``, which is all of ``source``, with ``text`` behind it; None where it has to be parsed."""
    before = source.rstrip(" ")
    added = source[len(before) :] + text
    if not before or not _is_plain(before, added):
        return None
    position = len(block.tokens) - 1
    while position >= 0 and block.tokens[position].nesting == -1:
        position -= 1
    inline = block.tokens[position] if position >= 0 else None
    if inline is None or inline.type != "inline" or not inline.children:
        return None
    last = inline.children[-1]
    if last.type != "text" or not any(map(str.isalpha, last.content)):
        return None  # its first letter says in which direction all of it is read
    if not before.endswith(last.content) or "://" in last.content.rsplit(" ", 1)[-1] + added:
        return None
    if inline.content.startswith("[") or ("[" in inline.content and ("(" in added or ")" in added)):
        return None  # it may note an address, or be a link
    if "&" in inline.content and ";" in added:
        return None  # the end of a character's name
    added = added.rstrip(" ")
    last, longer = copy(last), copy(inline)
    last.content += added
    longer.content += added
    longer.children = [*inline.children[:-1], last]
    return replace(block, tokens=(*block.tokens[:position], longer, *block.tokens[position + 1 :]), added=added)


def _is_plain(before: str, added: str) -> bool:
    """Whether ``added``, which stands behind ``before`` in the same line, is nothing but words there."""
    if _is_word(before[-1]) and _WORDS.fullmatch(before[-1] + added):
        return True
    line = before[max(before.rfind("\n"), before.rfind("\r")) + 1 :]
    is_inside = any(map(str.isalpha, line)) and (_is_word(before[-1]) or before[-1] in _SENTENCE_ENDS)
    return is_inside and _SENTENCES.fullmatch(added) is not None


def grown_fence(block: Block, source: str, text: str) -> tuple[Block, int] | None:
    """The same for a block of code in a fence without indent, closed or not; None where it has to be parsed.

    With it comes where in both texts together the next block begins: 0 while it may go on.
    """
    opening = _OPENING.match(source)
    if opening is None or block.tokens or "\r" in source or "\r" in text or "\0" in text or "\0" in source:
        return None
    whole = source + text
    last = opening.end()
    if not block.is_closed:
        last = max(last, whole.rfind("\n", 0, len(source)) + 1)  # the last line may be the end by now
    markup = opening[1]
    closing = re.compile(rf"^ {{0,3}}{markup[0]}{{{len(markup)},}}+[ \t]*$", re.M).search(whole, last)
    if closing is not None:
        code = whole[opening.end() : closing.start()].removesuffix("\n")
        end = closing.end() + 1 if closing.end() < len(whole) else 0
        return replace(block, text=code, is_closed=True, added=""), end
    code = without_half_fence(whole[opening.end() :]).removesuffix("\n")
    added = code[len(block.text) :] if code.startswith(block.text) else ""
    if not _CODE.fullmatch(added) or not _CODE.fullmatch(_last_line(block.text)):
        added = ""
    return replace(block, text=code, is_closed=False, added=added), 0


def table_end(block: Block, source: str) -> str | None:
    """What of ``source``, which is all of the table ``block``, more rows depend on: its head and its last row.

    None where the last line is no row that stands below the head.
    """
    lines = LINES.findall(source)
    if block.tokens[0].map != [0, len(lines)] or len(lines) <= _HEAD_LINES:
        return None
    return "".join((*lines[:_HEAD_LINES], lines[-1]))


def first_lines(block: Block, num_lines: int) -> Block:
    """The table ``block`` as far as so many lines of its source go; it has more."""
    ends = [place for place, token in enumerate(block.tokens) if token.type == "tr_close"]
    return replace(block, tokens=(*block.tokens[: ends[num_lines - _HEAD_LINES] + 1], *block.tokens[-2:]))


def grown_table(block: Block, end: Block, num_lines: int) -> Block:
    """``block`` with the rows of ``end``, which has the same head, in place of its last one; so many lines long."""
    tokens, rows = block.tokens, end.tokens
    last = max(place for place, token in enumerate(tokens) if token.type == "tr_open")
    first = next(place for place, token in enumerate(rows) if token.type == "tbody_open") + 1
    opening = copy(tokens[0])
    opening.map = [0, num_lines]
    return replace(block, tokens=(opening, *tokens[1:last], *rows[first:]))


@dataclass(frozen=True)
class ListEnd:
    """Where the last item of an open list begins.

    Attributes:
        line: of the source.
        position: of the source, in characters.
        index: of its token.
        is_loose: the items before it stand apart, so that all do.
    """

    line: int
    position: int
    index: int
    is_loose: bool


def list_end(block: Block, source: str) -> ListEnd | None:
    """The last item of the list ``block``, which is all of ``source``.

    None where it has but one, is none, or may stand apart for what is inside an item; nor where a formula may begin
    in an item, which goes on through those that follow.
    """
    tokens = block.tokens
    if "$$" in source or not tokens or tokens[0].type not in _LISTS or (tokens[0].map or [1])[0]:
        return None
    items = [index for index, token in enumerate(tokens) if token.type == "list_item_open" and token.level == 1]
    starts = [(tokens[index].map or [0])[0] for index in items]
    if len(items) < 2:
        return None
    lines = LINES.findall(source)
    is_loose = any(not lines[start - 1].strip(_BLANK) for start in starts[1:])
    if not is_loose and not _is_tight(tokens, source):
        return None
    return ListEnd(starts[-1], sum(map(len, lines[: starts[-1]])), items[-1], is_loose)


def grown_list(block: Block, end: ListEnd, items: Block, source: str) -> Block | None:
    """``block`` with the items of the list ``items``, which is of ``source``, in place of its last one.

    None where they are no more of its items, or let all stand apart.
    """
    tokens, rest = block.tokens, items.tokens
    if not rest or rest[0].type != tokens[0].type or rest[0].markup != tokens[0].markup:
        return None
    if end.is_loose:
        for paragraph in rest:
            if paragraph.level == _LIST_LEVEL and paragraph.type in _PARAGRAPH:
                paragraph.hidden = False
    elif not _is_tight(rest, source):
        return None
    move_lines(rest, end.line)
    opening = copy(tokens[0])
    opening.map = [0, (rest[0].map or [0, 0])[1]]
    return replace(block, tokens=(opening, *tokens[1 : end.index], *rest[1:]))


def move_lines(tokens: Sequence[Token], num_lines: int) -> None:
    """Let ``tokens`` come from so many lines further down."""
    for token in tokens:
        if token.map is not None:
            token.map = [line + num_lines for line in token.map]


def _is_tight(tokens: Sequence[Token], source: str) -> bool:
    """Whether it is certain that the items of a list stand close to each other."""
    for token in tokens:
        if token.type == "paragraph_open" and token.level == _LIST_LEVEL:
            return bool(token.hidden)
    return all(line.strip(_BLANK) for line in LINES.findall(source.rstrip(_BLANK)))


def without_half_fence(code: str) -> str:
    """Code whose fence is open without the first characters of the fence's end, which are none of it.

    Nor is a last line of blanks without an end, to the parser: only what comes next makes it one.
    """
    start = code.rfind("\n") + 1
    if not code[start:].strip(" \t"):
        return code[:start]
    return code[:start] if start and _HALF_FENCE.fullmatch(code, start) else code


def _last_line(text: str) -> str:
    return text[text.rfind("\n") + 1 :]


def _is_word(character: str) -> bool:
    return character.isalnum()
