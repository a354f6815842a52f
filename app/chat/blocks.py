"""Markdown into blocks, piece by piece while it streams. Pure text in, plain data out; no Qt, no HTML, no network.

A finished block never changes again, so the transcript renders each once and re-renders only the open end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from app.chat.block_growth import grown_code, grown_prose
from app.chat.maths_syntax import use_maths
from engine.plain_data import dataclass

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_OPEN_CHARACTERS = 6000
"""A longer paragraph, list or table, or one with more markup, is finished in parts, so that no answer, however odd,
makes a frame expensive."""
_MARK_COST, _BRACKET_COST, _TOKEN_COST, _FORMULA_COST, _CELL_COST = 3, 20, 10, 90, 20
"""What the rest costs, in characters of plain text that take as long."""
_MARKS = "[]*_`$<~!\\"
_PIECE = 1500  # characters that are parsed in one go: the parser's time grows faster than a block

MAX_COLUMNS = 64


class BlockKind(Enum):
    """How a block is shown."""

    PROSE = "prose"  # paragraphs, headings, lists, quotes, rules
    CODE = "code"
    TABLE = "table"


@dataclass(frozen=True)
class Block:
    """One top-level piece of an answer.

    Attributes:
        kind: which view shows it.
        tokens: the markdown tokens of prose and tables; empty for code.
        text: the code, without its fence; empty for the other kinds.
        language: what the fence says, lower case, "" if it says nothing.
        is_closed: False for a code fence whose end has not come yet.
        added: where the block was shown before: that it is the same with this text, which has no marks, behind it;
            "" where it may be any other.
    """

    kind: BlockKind
    tokens: tuple[Token, ...] = ()
    text: str = ""
    language: str = ""
    is_closed: bool = True
    added: str = ""


@dataclass(frozen=True)
class BlockUpdate:
    """What a push changed: blocks that are finished now, and the open end that replaces the previous one."""

    finished: tuple[Block, ...]
    open: tuple[Block, ...]


# Lines with their ends as the parser counts them; str.splitlines knows more ends, which are characters in code.
_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # an empty chat should not wait for it

    # Raw HTML stays text: what a model writes between angle brackets is shown, never interpreted.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    _bound_tables(parser)
    use_maths(parser)
    return parser


def _bound_tables(parser: MarkdownIt) -> None:
    """Leave a table with more columns than anybody reads as the text that it is."""
    from markdown_it.rules_block import StateBlock, table

    def bounded(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
        first = state.src[state.bMarks[start_line] : state.eMarks[start_line]]
        return first.count("|") <= MAX_COLUMNS and table(state, start_line, end_line, silent)

    parser.block.ruler.at("table", bounded, {"alt": ["paragraph", "reference"]})


class BlockStream:
    """Splits growing Markdown into finished blocks and an open end.

    A block is finished once the next one has begun for certain, with a word or a complete line: half a line ("2"
    before "2. b") may still turn out to continue the block before it.
    """

    def __init__(self) -> None:
        self._parser = _parser()
        self._environment: dict[str, Any] = {}
        self._open_source = ""
        self._open: tuple[Block, ...] = ()

    def push(self, text: str) -> BlockUpdate:
        """Add ``text``; costs time in the length of the open block, not of the answer."""
        if (grown := self._grow(text)) is not None:
            return BlockUpdate((), (grown,))
        finished: tuple[Block, ...] = ()
        for start in range(0, len(text), _PIECE):
            update = self._push(text[start : start + _PIECE])
            finished += update.finished
        self._open = update.open if text else self._push("").open
        return BlockUpdate(finished, self._open)

    def _grow(self, text: str) -> Block | None:
        """The open block with ``text`` behind it, where that is no more than words or code."""
        source = self._open_source
        if len(self._open) != 1 or not text:
            return None
        if self._open[0].kind is BlockKind.PROSE and len(source) + len(text) > MAX_OPEN_CHARACTERS:
            return None
        grow = {BlockKind.PROSE: grown_prose, BlockKind.CODE: grown_code}.get(self._open[0].kind)
        grown = grow(self._open[0], source, text) if grow is not None else None
        if grown is not None:
            self._open_source += text
            self._open = (replace(grown, added=""),)
        return grown

    def _push(self, text: str) -> BlockUpdate:
        self._open_source += text
        spans = self._spans(self._open_source)
        finished: tuple[Block, ...] = ()
        if len(spans) > 1:
            start = spans[-1][1]
            tail = "".join(_LINES.findall(self._open_source)[start:])
            if "\n" in tail or _IS_BEGUN.match(tail):
                finished = tuple(block for block, _ in spans[:-1])
                spans = spans[-1:]
                self._open_source = tail
        if not spans and len(self._open_source) > MAX_OPEN_CHARACTERS:  # nothing but what the parser has noted
            self._open_source = self._open_source[self._open_source.rfind("\n") + 1 :]
        while len(spans) == 1 and _is_heavy(self._open_source, spans[0][0]):
            block = spans[0][0]
            cut = _place_to_cut(self._open_source, block)
            if not cut:
                break
            finished += tuple(block for block, _ in self._spans(self._open_source[:cut]))
            self._open_source = _head_again(self._open_source, block) + self._open_source[cut:]
            spans = self._spans(self._open_source)
        return BlockUpdate(finished, tuple(block for block, _ in spans))

    def finish(self) -> BlockUpdate:
        """End the text: everything is finished."""
        spans = self._spans(self._open_source)
        self._open_source = ""
        self._open = ()
        return BlockUpdate(tuple(_close(block) for block, _ in spans), ())

    def _spans(self, source: str) -> list[tuple[Block, int]]:
        tokens = self._parser.parse(source, self._environment)
        lines = _LINES.findall(source)
        spans: list[tuple[Block, int]] = []
        start = 0
        depth = 0
        for position, token in enumerate(tokens):
            if depth == 0:
                start = position
            depth += token.nesting
            if depth == 0:
                group = tokens[start : position + 1]
                first_line, end_line = group[0].map or (0, 0)
                spans.append((_block(group, lines[first_line:end_line]), first_line))
        return spans


def parse_blocks(source: str) -> tuple[Block, ...]:
    """All blocks of a finished text."""
    stream = BlockStream()
    update = stream.push(source)
    return update.finished + stream.finish().finished


def as_prose(block: Block) -> Block:
    """``block`` without what its kind brings: code, and a table's cells, as lines of code between the text."""
    if block.kind is BlockKind.PROSE:
        return block
    from markdown_it.token import Token

    text = block.text
    if block.kind is BlockKind.TABLE:
        rows: list[list[str]] = []
        for token in block.tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(token.content)
        text = "\n".join(" | ".join(row) for row in rows)
    return Block(
        BlockKind.PROSE, (Token("fence", "code", 0, content=text, markup="```"),), is_closed=block.is_closed
    )


def _block(tokens: Sequence[Token], lines: Sequence[str]) -> Block:
    first = tokens[0]
    if first.type == "fence":
        is_closed = len(lines) > 1 and _is_fence_end(lines[-1], first.markup)
        words = first.info.split()
        language = words[0].lower() if words else ""
        text = first.content
        if not is_closed:
            # The first characters of the closing fence are no code.
            text = re.sub(r"\n[ ]{0,3}([`~])\1*$", "\n", text)
        return Block(BlockKind.CODE, text=text.removesuffix("\n"), language=language, is_closed=is_closed)
    if first.type == "code_block":
        return Block(BlockKind.CODE, text=first.content.removesuffix("\n"))
    if first.type == "table_open":
        return Block(BlockKind.TABLE, tokens=tuple(tokens))
    return Block(BlockKind.PROSE, tokens=tuple(tokens))


def _is_heavy(source: str, block: Block) -> bool:
    """Whether parsing and writing the block again with each piece would take too long."""
    return _cost(source, block) > MAX_OPEN_CHARACTERS


def _cost(source: str, block: Block) -> int:
    """How long parsing and writing takes, in characters of plain text."""
    if block.kind is BlockKind.TABLE:
        return max(len(source), _CELL_COST * sum(token.type == "inline" for token in block.tokens))
    if block.kind is BlockKind.CODE:
        return len(source)
    inside = [child for token in block.tokens for child in token.children or ()]
    num_formulas = sum(child.type.startswith("math") for child in inside)
    num_unmatched = abs(source.count("[") - source.count("]"))  # the end of each is looked for
    num_unmatched += max(0, source.count("](") - source.count(")"))
    marked = len(source) + _MARK_COST * sum(map(source.count, _MARKS)) + _BRACKET_COST * num_unmatched
    return max(marked, _TOKEN_COST * (len(block.tokens) + len(inside)) + _FORMULA_COST * num_formulas)


def _place_to_cut(source: str, block: Block) -> int:
    """Where a block that is too long can be parted; 0 is nowhere.

    A paragraph or heading at a line or word, a list at an item, a quote at a line, a table at a row.
    """
    kind = block.tokens[0].type if block.tokens else ""
    end = min(len(source), MAX_OPEN_CHARACTERS * len(source) // _cost(source, block))
    half = end // 2
    if kind in {"paragraph_open", "heading_open"}:
        at_space = max(source.rfind(space, half, end) + 1 for space in "\n ")
        return at_space or _place_to_break(source, end)
    if kind in {"bullet_list_open", "ordered_list_open"}:
        starts = [
            token.map[0]
            for token in block.tokens
            if token.type == "list_item_open" and token.level == 1 and token.map
        ]
        return sum(map(len, _LINES.findall(source)[: starts[-1]])) if len(starts) > 1 else 0
    if kind == "blockquote_open":
        return source.rfind("\n>", half, end) + 1
    if kind == "table_open" and len(_head_again(source, block)) < half:
        return source.rfind("\n", half, end) + 1
    return 0


def _head_again(source: str, block: Block) -> str:
    """What the rest of a block that was parted begins with: a table has its head again."""
    return "".join(_LINES.findall(source)[:2]) if block.kind is BlockKind.TABLE else ""


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


def _close(block: Block) -> Block:
    return block if block.is_closed else Block(block.kind, block.tokens, block.text, block.language)


def _is_fence_end(line: str, markup: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(markup) and set(stripped) == {markup[0]}


_IS_BEGUN = re.compile(r"(?:[-*+] +|\d{1,9}[.)] +|#{1,6} +|> ?)?[^\W\d_]")
"""How a block begins whose line, however it goes on, is no part of the block before."""
_JOINED = frozenset("\u200d\ufe0e\ufe0f\\`*_$[](){}<>~|&#;!")
"""Between these and their neighbours no text is parted: they make one character, or one piece of markup."""
_MAX_COMBINING = 8
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufdd0\ufdd1\ufffe\uffff]")
_MARK_RUN = re.compile(rf"[^\x00-\u02ff\u0370-\u0482]{{{_MAX_COMBINING + 1},}}")


def displayable(text: str) -> str:
    """``text`` with what would break a line of text shown as its code point, and piles of accents cut short.

    Control characters, overrides of the reading direction and Qt's own document markers become ``⟨U+202E⟩``;
    tabs and line ends stay. Only for the screen: what is copied is always the original.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _HIDDEN.sub(lambda match: f"⟨U+{ord(match.group()):04X}⟩", text)
    return _MARK_RUN.sub(lambda match: _cut_marks(match.group()), text)


def _cut_marks(run: str) -> str:
    if not any(map(unicodedata.combining, run)):
        return run
    kept: list[str] = []
    marks = 0
    for character in run:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MAX_COMBINING:
            kept.append(character)
    return "".join(kept)
