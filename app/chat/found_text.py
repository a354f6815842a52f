"""Where words stand in the text of messages as it is shown: read from Markdown, and found again in documents.

Both give the same places in the same order, so a hit can be counted before its message has a widget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from app.chat.block_parts import MAX_OPEN_CHARACTERS
from app.chat.blocks import Block, BlockKind, BlockStream, displayable
from app.chat.conversation import MessageView
from app.chat.prose import image_text
from app.chat.tool_calls import call_title, called_name, calls_of, result_title, shown_arguments
from app.storage.records import MessageRecord
from app.storage.spelling import any_pattern, expression, folded
from engine.plain_data import dataclass
from engine.protocol import Role

if TYPE_CHECKING:
    from markdown_it.token import Token
    from PySide6.QtGui import QTextBlock, QTextDocument

_NO_MARKUP = str.maketrans(dict.fromkeys("*_~`\\"))
_FORMULA = "\ufffc"  # nothing is found in formulas: they are pictures


@dataclass(frozen=True)
class Wanted:
    """What is looked for.

    Attributes:
        pattern: matches it however it is spelled, with any white space where it has some.
        needle: a part of it that every message with a match holds, whatever Markdown stands between; "" for none.
    """

    pattern: re.Pattern[str]
    needle: str

    def may_be_in(self, source: str) -> bool:
        """Whether Markdown can show a match; False spares reading it."""
        return "&" in source or self.needle in folded(source.translate(_NO_MARKUP))


def wanted(text: str) -> Wanted | None:
    """What a person typed to find, as it is looked for; None for nothing."""
    parts = displayable(text).split()
    if not parts:
        return None
    words = re.findall(r"[^\W_]+", text)
    pattern = re.compile(r"\s+".join(map(expression, parts)), re.IGNORECASE)
    return Wanted(pattern, folded(max(words, key=len, default="")))


def any_of(words: Sequence[str]) -> re.Pattern[str]:
    """Matches each of ``words`` however it is spelled."""
    return any_pattern(sorted(words, key=len, reverse=True))


def source_of(view: MessageView) -> tuple[str, ...]:
    """All that a message shows, as it is kept: while this is the same, the same is found in it."""
    record = view.record
    return (
        *attachment_names(view),
        record.content,
        record.reasoning,
        *(part for call in calls_of(record) for part in (call.name, call.arguments)),
    )


def attachment_names(view: MessageView) -> list[str]:
    """What is attached to a message, as it is shown above it."""
    return [attachment.name for attachment in view.attachments]


def reasoning_paragraphs(reasoning: str) -> list[str]:
    """What was thought before an answer, as it is shown above it."""
    return displayable(reasoning.lstrip()).split("\n") if reasoning else []


def call_paragraphs(record: MessageRecord) -> Iterator[str]:
    """What an answer calls, as it is shown below it."""
    for call in calls_of(record):
        yield call_title(call)
        yield from displayable(shown_arguments(call)).split("\n")


def content_paragraphs(record: MessageRecord) -> Iterator[str]:
    """The text of a message as it is shown, paragraph by paragraph; read as it is asked for."""
    if record.role is Role.TOOL:
        yield result_title(called_name(record))
    if record.role is not Role.ASSISTANT:
        yield from displayable(record.content).split("\n")
        return
    stream = BlockStream()
    for start in range(0, len(record.content), MAX_OPEN_CHARACTERS):
        for block in stream.push(record.content[start : start + MAX_OPEN_CHARACTERS]).finished:
            yield from _paragraphs(block)
    for block in stream.finish().finished:
        yield from _paragraphs(block)


def places_in(document: QTextDocument, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where ``pattern`` matches in a document: half-open ranges of its positions, in order."""
    if not pattern.search(document.toPlainText()):
        return []
    places: list[tuple[int, int]] = []
    block = document.begin()
    while block.isValid():
        text = block.text()
        if pattern.search(text):
            text = _without_formulas(block, text)
            for match in pattern.finditer(text):
                start = block.position() + _utf16_length(text[: match.start()])
                places.append((start, start + _utf16_length(match.group())))
        block = block.next()
    return places


def _paragraphs(block: Block) -> Iterator[str]:
    if block.kind is BlockKind.CODE:
        yield from displayable(block.text).split("\n")
    for token in block.tokens:
        if token.type == "inline":
            yield "".join(map(_inline_text, token.children or ()))
        elif token.type in {"fence", "code_block"}:
            yield from displayable(token.content).split("\n")


def _inline_text(token: Token) -> str:
    if token.nesting:
        return ""
    if token.type in {"softbreak", "hardbreak"}:
        return "\u2028"
    if token.type in {"math_inline", "math_inline_double"}:
        return _FORMULA
    return image_text(token) if token.type == "image" else displayable(token.content)


def _without_formulas(block: QTextBlock, text: str) -> str:
    """``text`` of a block with what stands for formulas blanked, in as many positions."""
    from app.chat.maths_text import SOURCE, fragments

    for fragment in fragments(block):
        if fragment.charFormat().hasProperty(SOURCE):
            start = _character(text, fragment.position() - block.position())
            end = _character(text, fragment.position() - block.position() + fragment.length())
            text = text[:start] + _FORMULA * _utf16_length(text[start:end]) + text[end:]
    return text


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _character(text: str, position: int) -> int:
    """The index of the character at a position that counts UTF-16 units."""
    if text.isascii():
        return position
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * position].decode("utf-16-le", "surrogatepass"))
