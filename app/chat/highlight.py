"""Syntax colours for a finished code block, by Pygments; gives spans, draws nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from engine.plain_data import dataclass

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MAX_HIGHLIGHTED = 60_000
"""Characters; longer code stays plain, so that no answer can hold up the window."""


@dataclass(frozen=True)
class Span:
    """A coloured piece of code: where it starts, its length, and the palette token that colours it."""

    start: int
    length: int
    colour: str


def highlight(code: str, language: str) -> list[Span]:
    """The coloured spans of ``code``, in order; none for an unknown language or a very long text."""
    lexer = _lexer(language)
    if lexer is None or len(code) > MAX_HIGHLIGHTED:
        return []
    spans: list[Span] = []
    for start, kind, text in lexer.get_tokens_unprocessed(code):
        colour = _colour(kind)
        if colour and text.strip():
            spans.append(Span(start, len(text), colour))
    return spans


def _colour(kind: Any) -> str | None:
    return next((colour for parent, colour in _colours() if kind in parent), None)


@lru_cache(maxsize=1)
def _colours() -> tuple[tuple[Any, str], ...]:
    from pygments.token import Comment, Keyword, Name, Number, Operator, String  # not before there is code

    return (
        (Comment, "muted"),
        (String, "good"),
        (Number, "caution"),
        (Keyword, "accent"),
        (Operator.Word, "accent"),
        (Name.Decorator, "caution"),
        (Name.Tag, "accent"),
    )


def file_suffix(language: str) -> str:
    """The usual file name ending of a language, with its dot; ".txt" for an unknown one."""
    lexer = _lexer(language)
    for pattern in lexer.filenames if lexer else ():
        suffix = str(pattern).removeprefix("*")
        if suffix.startswith(".") and suffix.isascii() and suffix[1:].isalnum():
            return suffix
    return ".txt"


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    if not language or language in {"text", "plain", "plaintext", "txt"}:
        return None
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
