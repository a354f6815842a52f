"""Markdown into blocks, piece by piece while it streams. Pure text in, plain data out; no Qt, no HTML, no network.

A finished block never changes again, so the transcript renders each once and re-renders only the open end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from app.chat.answer_parser import answer_parser
from app.chat.block_growth import (
    first_lines,
    grown_fence,
    grown_list,
    grown_prose,
    grown_table,
    list_end,
    move_lines,
    table_end,
    without_half_fence,
)
from app.chat.block_parts import LINES, affordable, is_heavy, is_long, part, place_in_line
from engine.plain_data import dataclass

if TYPE_CHECKING:
    from markdown_it.token import Token

_MAX_UNDECIDED = 200
"""A longer last line is a block of its own, whatever it may still become."""


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
        continues: it is a part of the table before it, whose head it has again.
    """

    kind: BlockKind
    tokens: tuple[Token, ...] = ()
    text: str = ""
    language: str = ""
    is_closed: bool = True
    added: str = ""
    continues: bool = False


@dataclass(frozen=True)
class BlockUpdate:
    """What a push changed: blocks that are finished now, and the open end that replaces the previous one."""

    finished: tuple[Block, ...]
    open: tuple[Block, ...]


class BlockStream:
    """Splits growing Markdown into finished blocks and an open end.

    A block is finished once the next one has begun for certain, with a word or a complete line: half a line ("2"
    before "2. b") may still turn out to continue the block before it.
    """

    def __init__(self) -> None:
        self._parser = answer_parser()
        self._environment: dict[str, Any] = {"references": {}}  # the addresses that finished text has noted
        self._has_notes = False  # whether the open text notes some
        self._note_line = 0  # of the open text, where the last one is noted with no block behind it; 0 for none
        self._open_source = ""
        self._open: tuple[Block, ...] = ()
        self._continues = False  # what is open is the rest of a table

    def push(self, text: str) -> BlockUpdate:
        """Add ``text``; costs time in the length of the open block, not of the answer."""
        if (grown := self._grow(text)) is not None:
            return BlockUpdate((), (grown,))
        finished: tuple[Block, ...] = ()
        start = 0
        while True:
            end = start + affordable(text, start)
            finished += self._push(text[start:end])
            if end >= len(text):
                return BlockUpdate(finished, self._open)
            start = end

    def _grow(self, text: str) -> Block | None:
        """The open block with ``text`` behind it, where that is no more than words, and no title of an address."""
        source = self._open_source
        if len(self._open) != 1 or self._has_notes or not text or is_long(source + text):
            return None
        block = self._open[0]
        grown = grown_prose(block, source, text) if block.kind is BlockKind.PROSE else None
        if grown is not None:
            self._open_source += text
            self._open = (replace(grown, added=""),)
        return grown

    def _grow_table(self, text: str) -> Block | None:
        """The open table with ``text`` behind it, where that is rows and nothing else."""
        block = self._open[0] if len(self._open) == 1 else None
        if block is None or block.kind is not BlockKind.TABLE:
            return None
        end = table_end(block, self._open_source)
        if end is None:
            return None
        blocks = [each for each, _ in self._spans(end + text)]
        is_table = [each.kind for each in blocks] == [BlockKind.TABLE]
        if not is_table or blocks[0].tokens[0].map != [0, len(LINES.findall(end + text))]:
            return None
        return grown_table(block, blocks[0], len(LINES.findall(self._open_source + text)))

    def _grow_list(self, text: str) -> list[tuple[Block, int]] | None:
        """The open list with ``text`` behind it and what follows it, where the last item alone has to be parsed."""
        block = self._open[0] if len(self._open) == 1 else None
        end = list_end(block, self._open_source) if block is not None and not self._has_notes else None
        if block is None or end is None:
            return None
        source = self._open_source[end.position :] + text
        spans = self._spans(source)
        grown = grown_list(block, end, spans[0][0], source) if spans and not self._has_notes else None
        if grown is None:
            return None
        return [(grown, 0), *((block, line + end.line) for block, line in spans[1:])]

    def _push(self, text: str) -> tuple[Block, ...]:
        """Add ``text``, parse what is open, and give what is finished by that."""
        finished: tuple[Block, ...] = ()
        table = self._grow_table(text)
        spans = self._grow_list(text) if table is None else [(table, 0)]
        if len(self._open) == 1 and (fence := grown_fence(self._open[0], self._open_source, text)) is not None:
            block, end = fence
            self._open_source = self._open_source + text
            if not end:
                self._open = (block,)
                return ()
            finished, self._open_source = (block,), self._open_source[end:]
        else:
            self._open_source += text
        if spans is None:
            spans = self._open_spans()
        if len(spans) > 1:
            start = spans[-1][1]
            tail = "".join(LINES.findall(self._open_source)[start:])
            before = self._open_source[: len(self._open_source) - len(tail)]
            if _is_certain(spans[-1][0], tail) and not _may_be_formula(before):
                finished += tuple(block for block, _ in spans[:-1])
                spans = spans[-1:]
                self._keep(tail)
                self._continues = False
                move_lines(spans[0][0].tokens, -start)
                self._note_line = max(0, self._note_line - start)
        elif spans and (first := spans[0][1]) and not self._has_notes:  # the lines before are blank
            self._open_source = "".join(LINES.findall(self._open_source)[first:])
            move_lines(spans[0][0].tokens, -first)
        if self._note_line:
            finished += tuple(block for block, _ in spans)
            spans = []
            self._keep("".join(LINES.findall(self._open_source)[self._note_line :]))
        if not spans:
            finished += self._let_go()
        while len(spans) == 1 and is_heavy(self._open_source, spans[0][0]):
            cut, head = part(self._open_source, spans[0][0])
            if not cut:
                break
            finished += self._parted(spans[0][0], self._open_source[:cut])
            self._keep(self._open_source[cut:])
            self._open_source = head + self._open_source
            self._continues = bool(head) and spans[0][0].kind is BlockKind.TABLE
            spans = self._open_spans()
        self._open = tuple(block for block, _ in spans)
        return finished

    def _keep(self, rest: str) -> None:
        """Have ``rest`` open, which is the open text's end; what is before it is finished, its notes hold."""
        if self._has_notes:
            self._parser.parse(self._open_source[: len(self._open_source) - len(rest)], self._environment)
        self._open_source = rest

    def _parted(self, block: Block, text: str) -> tuple[Block, ...]:
        """What becomes of the first part of ``block``: a fence whose first line is too long is none."""
        if block.kind is BlockKind.CODE and "\n" not in text:
            return (_as_it_is(text),)
        if block.kind is not BlockKind.TABLE:
            return tuple(block for block, _ in self._spans(text))
        if table_end(block, self._open_source) is not None:
            return (first_lines(block, len(LINES.findall(text))),)
        return tuple(replace(part, continues=block.continues) for part, _ in self._spans(text))

    def _let_go(self) -> tuple[Block, ...]:
        """Forget lines that show nothing: spaces, and addresses that the parser has noted; a long one is shown."""
        source = self._open_source
        if not is_long(source):
            return ()
        line = source[source.rfind("\n") + 1 :]
        self._keep(line)
        if not is_long(line):
            return ()
        cut = place_in_line(line)
        self._open_source = line[cut:]
        return (_as_it_is(line[:cut]),) if line.strip() else ()

    def finish(self) -> BlockUpdate:
        """End the text: everything is finished."""
        spans = self._open_spans()
        self._open_source = ""
        self._open = ()
        self._continues = False
        return BlockUpdate(tuple(_close(block) for block, _ in spans), ())

    def _open_spans(self) -> list[tuple[Block, int]]:
        """The blocks of what is open; the first one may be the rest of a table, which is none without rows."""
        spans = self._spans(self._open_source)
        if not self._continues or not spans or spans[0][0].kind is not BlockKind.TABLE:
            return spans
        if any(token.type == "tbody_open" for token in spans[0][0].tokens):
            return [(replace(spans[0][0], continues=True), 0), *spans[1:]]
        if len(spans) > 1:
            first = spans[1][1]
            self._open_source = "".join(LINES.findall(self._open_source)[first:])
            self._continues = False
            self._note_line = max(0, self._note_line - first)
            return [(block, line - first) for block, line in spans[1:]]
        return []

    def _spans(self, source: str) -> list[tuple[Block, int]]:
        """The blocks of ``source`` and the lines in which they begin.

        What it notes of addresses holds for itself alone: the last one may not be complete yet.
        """
        known = self._environment["references"]
        environment: dict[str, Any] = {"references": dict(known)}
        tokens = self._parser.parse(source, environment)
        lines = LINES.findall(source)
        spans: list[tuple[Block, int]] = []
        start = depth = end_line = 0
        for position, token in enumerate(tokens):
            if depth == 0:
                start = position
            depth += token.nesting
            if depth == 0:
                group = tokens[start : position + 1]
                first_line, end_line = group[0].map or (0, 0)
                spans.append((_block(group, lines[first_line:end_line]), first_line))
        notes = [note for label, note in environment["references"].items() if label not in known]
        notes += environment.get("duplicate_refs", ())
        self._has_notes = bool(notes)
        last_line = max((note["map"][0] for note in notes), default=0)
        self._note_line = last_line if last_line >= end_line else 0
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
        text = "\n".join(" | ".join(row) for row in (rows[1:] if block.continues else rows))
    return Block(
        BlockKind.PROSE, (Token("fence", "code", 0, content=text, markup="```"),), is_closed=block.is_closed
    )


def _as_it_is(text: str) -> Block:
    """A paragraph of ``text``, whatever it would mean."""
    from markdown_it.token import Token

    children = [Token("text", "", 0, content=text.strip())]
    inline = Token("inline", "", 0, content=text.strip(), children=children, level=1, block=True)
    opening, closing = Token("paragraph_open", "p", 1, block=True), Token("paragraph_close", "p", -1, block=True)
    return Block(BlockKind.PROSE, (opening, inline, closing))


def _block(tokens: Sequence[Token], lines: Sequence[str]) -> Block:
    first = tokens[0]
    if first.type == "fence":
        is_closed = len(lines) > 1 and _is_fence_end(lines[-1], first.markup)
        words = first.info.split()
        language = words[0].lower() if words else ""
        text = first.content
        if not is_closed:
            text = without_half_fence(text)
        return Block(BlockKind.CODE, text=text.removesuffix("\n"), language=language, is_closed=is_closed)
    if first.type == "code_block":
        return Block(BlockKind.CODE, text=first.content.removesuffix("\n"))
    if first.type == "table_open":
        return Block(BlockKind.TABLE, tokens=tuple(tokens))
    return Block(BlockKind.PROSE, tokens=tuple(tokens))


def _close(block: Block) -> Block:
    return block if block.is_closed else Block(block.kind, block.tokens, block.text, block.language)


def _is_fence_end(line: str, markup: str) -> bool:
    stripped = line.rstrip(" \t\r\n")
    indent = len(stripped) - len(stripped.lstrip(" "))
    return indent <= 3 and len(stripped) - indent >= len(markup) and set(stripped[indent:]) == {markup[0]}


def _is_certain(block: Block, source: str) -> bool:
    """Whether ``block``, whose source ends the text, is no part of what is before it however it goes on."""
    if len(source) > _MAX_UNDECIDED:
        return True
    if block.kind is BlockKind.TABLE:
        return source.count("\n") > 1  # the line below the names is complete
    if block.tokens and block.tokens[0].type == "math_block":
        return source.endswith("\n")  # nothing stands behind its end
    return "\n" in source or _IS_BEGUN.match(source) is not None


def _may_be_formula(before: str) -> bool:
    """Whether a formula may have begun in ``before`` that goes on behind it: a blank line would have ended it."""
    if "$$" not in before and "\\[" not in before:
        return False
    return _FORMULA_BEGINS.search(_BLANK_LINE.split(before)[-1]) is not None


_FORMULA_BEGINS = re.compile(r"^ {0,3}(?:\$\$|\\\[)", re.M)
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n")
_IS_BEGUN = re.compile(r"(?:[-*+] +|\d{1,9}[.)] +|#{1,6} +|> ?)?[^\W\d_]")
"""How a block begins whose line, however it goes on, is no part of the block before."""
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
