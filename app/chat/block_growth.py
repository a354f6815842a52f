"""An open block that only got longer: words at the end of its text, or lines of code inside its fence.

Most pieces of an answer are words and spaces, which mean the same to Markdown wherever they stand behind a word.
For those the block grows without being parsed and written anew.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.chat.blocks import Block

_WORDS = re.compile(r"(?:[^\W_]|[ ,'?!]|(?<=[^\W\d_])[-.])*")
"""No marks, no line ends; a full stop or a dash behind a letter alone, for elsewhere they may begin a list."""
_CODE = re.compile(r"(?:[\t\n\x20-\x5f\x61-\x7d]|[^\W\x00-\x7f])*")
"""Printable ASCII, letters of all scripts and line ends, but nothing that could end a fence."""


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


def grown_code(block: Block, source: str, text: str) -> Block | None:
    """The same for a block of code whose fence is open."""
    if block.is_closed or source[:1] not in {"`", "~"} or not _CODE.fullmatch(text):
        return None
    code = source[source.find("\n") + 1 :]
    if "\n" not in source or code.removesuffix("\n") != block.text or not _CODE.fullmatch(_last_line(code)):
        return None
    code += text
    if _last_line(code).isspace():
        return None
    code = code.removesuffix("\n")
    return replace(block, text=code, added=code[len(block.text) :])


def _last_line(text: str) -> str:
    return text[text.rfind("\n") + 1 :]


def _is_word(character: str) -> bool:
    return character.isalnum()
