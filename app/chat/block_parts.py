"""What a block that grows costs to parse and write, and where one that costs too much is parted.

No answer, however odd, may make a piece of work expensive: the parser reads the open block again with each piece,
and on long runs of marks its time grows with the square of their number.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.chat.blocks import Block

MAX_OPEN_CHARACTERS = 6000
"""A longer paragraph, list or table, or one with more markup, is finished in parts."""
_MARK_COST, _LINE_COST, _ENTITY_COST, _BRACKET_COST = 7, 12, 12, 20
_TOKEN_COST, _FORMULA_COST, _CELL_COST, _BAR_COST = 10, 90, 24, 10
"""What the rest costs, in characters of plain text that take as long."""
_MARKS = "[]*_`$<>~!\\#%+:=@^{}-"
"""Where the parser stops to look for markup."""
_PIECE, _LEAST_PIECE = 1500, 40
"""Characters that are parsed in one go, and of the dearest ones: the parser's time grows faster than a block."""
_WHOLE, _WHOLE_CODE = 1.5, 10
"""Of a block that can be parted only by losing its form: so many times what others may cost; code costs little."""
_MAX_QUOTE_MARKS = 60  # that are written again in front of a quote's next part

LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
"""Lines with their ends as the parser counts them; str.splitlines knows more ends, which are characters in code."""
_LISTS = frozenset({"bullet_list_open", "ordered_list_open"})
_MAX_INDENT = 3  # columns; a line that begins a block further right is code
_QUOTE_MARKS = re.compile(r" {0,3}>[> ]*")
_JOINED = frozenset("\u200d\ufe0e\ufe0f\\`*_$[](){}<>~|&#;!")
"""Between these and their neighbours no text is parted: they make one character, or one piece of markup."""


def affordable(text: str, start: int = 0) -> int:
    """How many of the next characters of ``text`` may be parsed in one go, at least one where there are any."""
    size = min(_PIECE, len(text) - start)
    while size > _LEAST_PIECE and (weight := _piece_weight(text[start : start + size])) > 2 * _PIECE:
        size = max(_LEAST_PIECE, min(size - 1, _PIECE * size // weight))
    if start + size < len(text) and (whole := text.rfind("\n", start + size // 2, start + size) + 1):
        return whole - start  # the row of a table that came half would be read and written again
    return size


def is_long(source: str) -> bool:
    """Whether even plain text of this length takes too long."""
    return len(source) > MAX_OPEN_CHARACTERS


def is_heavy(source: str, block: Block) -> bool:
    """Whether parsing and writing the block again with each piece would take too long."""
    return _cost(source, block) > MAX_OPEN_CHARACTERS


def part(source: str, block: Block) -> tuple[int, str]:
    """Where a block that is too long is parted, 0 for not yet, and what its rest begins with.

    A paragraph, heading or rule at a line or word, a list at an item, a quote and a table at a line: these go on
    as what they are. One that is far too long is parted anywhere.
    """
    cost = _cost(source, block)
    end = min(len(source), MAX_OPEN_CHARACTERS * len(source) // cost)
    cut = _place_to_cut(source, block, end)
    if not cut and cost > (_WHOLE if block.tokens else _WHOLE_CODE) * MAX_OPEN_CHARACTERS:
        is_list = bool(block.tokens) and block.tokens[0].type in _LISTS
        cut = _place_in_item(source) if is_list else _place_anywhere(source, len(source) - 1)
    return cut, _head_again(source, block, cut) if cut else ""


def place_in_line(source: str) -> int:
    """Where a line that is too long is parted."""
    return _place_anywhere(source, min(len(source) - 1, MAX_OPEN_CHARACTERS))


def place_in_text(source: str, end: int) -> int:
    """A line's or word's end in the second half before ``end``, or the next best place."""
    return max(source.rfind(space, end // 2, end) + 1 for space in "\n ") or _place_to_break(source, end)


def _weight(source: str) -> int:
    """How long parsing takes by the marks in it, in characters of plain text."""
    num_unmatched = abs(source.count("[") - source.count("]"))  # the end of each is looked for
    num_unmatched += max(0, source.count("](") - source.count(")"))
    marks = _MARK_COST * sum(map(source.count, _MARKS)) + _ENTITY_COST * source.count("&")
    return len(source) + marks + _BRACKET_COST * num_unmatched


def _piece_weight(text: str) -> int:
    """The same where each line may be a block or an item of its own, and each bar a cell."""
    return _weight(text) + _LINE_COST * text.count("\n") + _BAR_COST * text.count("|")


def _cost(source: str, block: Block) -> int:
    """How long parsing and writing takes, in characters of plain text."""
    if not block.tokens and "\n" in source:
        return len(source)
    inside = [child for token in block.tokens for child in token.children or ()]
    num_formulas = sum(child.type.startswith("math") for child in inside)
    written = _TOKEN_COST * (len(block.tokens) + len(inside)) + _FORMULA_COST * num_formulas
    if block.tokens and block.tokens[0].type == "table_open":
        written = _CELL_COST * sum(token.type == "inline" for token in block.tokens) + _FORMULA_COST * num_formulas
    return max(_weight(source), written)


def _place_to_cut(source: str, block: Block, end: int) -> int:
    """Where the block goes on as what it is; 0 is nowhere."""
    kind = block.tokens[0].type if block.tokens else ""
    half = end // 2
    is_half_fence = not kind and "\n" not in source  # which may be none
    if kind in {"paragraph_open", "heading_open", "hr"} or is_half_fence:
        return place_in_text(source, end)
    if kind in _LISTS:
        starts = [
            token.map[0]
            for token in block.tokens
            if token.type == "list_item_open" and token.level == 1 and token.map
        ]
        return sum(map(len, LINES.findall(source)[: starts[-1]])) if len(starts) > 1 else 0
    if kind == "blockquote_open":
        return source.rfind("\n>", half, end) + 1 or place_in_text(source, end)
    if kind == "table_open" and len(_table_head(source)) < half:
        return source.rfind("\n", half, end) + 1
    return 0


def _place_in_item(source: str) -> int:
    """The last of the least indented lines in the second half; a deep one goes on without what makes it code."""
    cut, least, start = 0, len(source), 0
    for line in LINES.findall(source):
        text = line.lstrip(" \t")
        indent = max(len(line) - len(text), _MAX_INDENT)
        if start > len(source) // 2 and text.strip() and indent <= least:
            cut, least = start if indent == _MAX_INDENT else start + indent, indent
        start += len(line)
    return cut or _place_anywhere(source, len(source) - 1)


def _place_anywhere(source: str, end: int) -> int:
    return source.rfind("\n", end // 2, end) + 1 or place_in_text(source, end)


def _head_again(source: str, block: Block, cut: int) -> str:
    """What the rest of a block that was parted begins with: a table's head, a quote's marks, a fence."""
    kind = block.tokens[0].type if block.tokens else ""
    if kind == "table_open":
        head = _table_head(source)
        return head if len(head) < cut else ""
    if kind == "blockquote_open" and source[cut - 1] != "\n":
        marks = _QUOTE_MARKS.match(source)
        return marks.group() if marks is not None and len(marks.group()) <= _MAX_QUOTE_MARKS else "> "
    if not kind and "\n" in source[:cut] and source.lstrip(" ")[:3] in {"```", "~~~"}:
        return source[: source.index("\n") + 1]
    return ""


def _table_head(source: str) -> str:
    return "".join(LINES.findall(source)[:2])


def _place_to_break(source: str, end: int) -> int:
    """Where to part a text without spaces: after a stop of a script that has none, else between two characters."""
    half = end // 2
    if at_stop := max(source.rfind(stop, half, end) + 1 for stop in "。！？；，、"):
        return at_stop
    place = min(end, len(source) - 1)
    while place > half and (
        unicodedata.combining(source[place]) or source[place] in _JOINED or source[place - 1] in _JOINED
    ):
        place -= 1
    return place
