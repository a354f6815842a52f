"""An open block that only got longer: words at the end of its text, lines of code inside its fence, a table's rows.

Most pieces of an answer are words and spaces, which mean the same to Markdown wherever they stand behind a word.
For those the block grows without being parsed and written anew. Of a table the last row alone is parsed again.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from app.chat.block_parts import LINES

if TYPE_CHECKING:
    from app.chat.blocks import Block

_WORDS = re.compile(r"(?:[^\W_]|[ ,'?!]|(?<=[^\W\d_])[-.])*")
"""No marks, no line ends; a full stop or a dash behind a letter alone, for elsewhere they may begin a list."""
_CODE = re.compile(r"(?:[\t\n\x20-\x7e]|[^\W\x00-\x7f])*")
"""Printable ASCII, letters of all scripts and line ends: what is shown as it is."""
_OPENING = re.compile(r"(`{3,}+|~{3,}+)[^\n]*\n")
_HEAD_LINES = 2  # of a table: the names of its columns, and the line below
_HALF_FENCE = re.compile(r" {0,3}([`~])\1*")


def grown_prose(block: Block, source: str, text: str) -> Block | None:
    """``block``, which is all of ``source``, with ``text`` behind it; None where it has to be parsed."""
    before = source.rstrip(" ")
    if not before or not _is_word(before[-1]) or not _WORDS.fullmatch(before[-1] + source[len(before) :] + text):
        return None
    position = len(block.tokens) - 1
    while position >= 0 and block.tokens[position].nesting == -1:
        position -= 1
    inline = block.tokens[position] if position >= 0 else None
    if inline is None or inline.type != "inline" or not inline.children:
        return None
    last = inline.children[-1]
    if last.type != "text" or not before.endswith(last.content) or "://" in last.content.rsplit(" ", 1)[-1]:
        return None
    added = (source[len(before) :] + text).rstrip(" ")
    from markdown_it.token import Token  # the block has some: it is imported

    last = Token("text", "", 0, level=last.level, content=last.content + added)
    longer = Token(
        "inline", "", 0, map=inline.map, level=inline.level, block=True, content=inline.content + added,
        children=[*inline.children[:-1], last],
    )  # fmt: skip
    return replace(block, tokens=(*block.tokens[:position], longer, *block.tokens[position + 1 :]), added=added)


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
