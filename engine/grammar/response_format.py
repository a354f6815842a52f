"""What form an answer must have, and that one will be wanted: plain data that crosses the border."""

from __future__ import annotations

from enum import Enum

from engine.plain_data import dataclass


class FormatKind(str, Enum):
    """The languages in which a form can be written."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"  # of the whole answer; Rust's syntax, without look-around
    LARK = "lark"  # llguidance's variant
    GBNF = "gbnf"  # llama.cpp's grammars


@dataclass(frozen=True)
class ResponseFormat:
    """The form of an answer.

    Attributes:
        kind: the language of ``text``.
        text: the schema, expression or grammar.
        check_afterwards: the person agrees that what cannot be honoured while generating is checked when the answer
            is there, and fails it; otherwise such a schema is refused.
    """

    kind: FormatKind
    text: str
    check_afterwards: bool = False


@dataclass(frozen=True)
class PrepareForms:
    """A command: an answer in a given form will be asked for, so that the engine gets ready to begin it at once.

    Never answered; does nothing where no model is loaded.
    """
