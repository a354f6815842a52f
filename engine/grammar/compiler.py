"""From the form that an answer must have to a grammar that a matcher can follow; no model is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from engine.errors import GrammarError
from engine.grammar.response_format import FormatKind, ResponseFormat
from engine.grammar.schema_check import CheckedSchema, check_schema

MAX_GRAMMAR_CHARACTERS: Final = 1 << 20


@dataclass(frozen=True)
class Grammar:
    """What a matcher is made of.

    Attributes:
        kind: the library's name of the language: ``json_schema``, ``regex`` or ``lark``.
        text: in that language.
        schema: of JSON answers, the whole of it; None for other kinds.
        checked_afterwards: sentences about what only ``violations`` finds.
        notices: what the person should know.
    """

    kind: str
    text: str
    schema: Any = None
    checked_afterwards: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def compile_format(wanted: ResponseFormat) -> Grammar:
    """The grammar of a form.

    Raises GrammarError, in one sentence, where it cannot be honoured and the person has not agreed to have that
    part checked afterwards.
    """
    if wanted.kind is FormatKind.JSON_SCHEMA:
        return _from_schema(check_schema(wanted.text), wanted.check_afterwards)
    if "\0" in wanted.text or len(wanted.text) > MAX_GRAMMAR_CHARACTERS:
        raise GrammarError("The grammar holds NUL characters or is longer than a megabyte; give another.")
    if not wanted.text.strip():
        raise GrammarError("The grammar is empty; write one, or ask without.")
    if wanted.kind is FormatKind.GBNF:
        text, kind = _lark_of_gbnf(wanted.text), "lark"
    elif wanted.kind is FormatKind.REGEX:
        text, kind = _without_anchors(wanted.text), "regex"
    else:
        text, kind = wanted.text, "lark"
    _check_grammar(kind, text)
    return Grammar(kind, text)


def _from_schema(checked: CheckedSchema, may_check_afterwards: bool) -> Grammar:
    problems = checked.problems
    if checked.grammar is None or (problems and not may_check_afterwards):
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        raise GrammarError(f"{problems[0].message}{more}")
    return Grammar(
        "json_schema",
        checked.grammar,
        checked.schema,
        tuple(problem.message for problem in problems),
        checked.notices,
    )


def _check_grammar(kind: str, text: str) -> None:
    """Raise GrammarError where the library refuses a grammar."""
    from llguidance import LLMatcher

    made = LLMatcher.grammar_from_regex(text) if kind == "regex" else LLMatcher.grammar_from_lark(text)
    is_error, messages = LLMatcher.validate_grammar_with_warnings(made)
    if is_error:
        name = "expression" if kind == "regex" else "grammar"
        raise GrammarError(f"The {name} cannot be used: {_reason(kind, messages[0])}")


def _reason(kind: str, message: str) -> str:
    """What the library's message says, in one line: it draws the text with a caret below, and a parser's in it."""
    place = re.match(r"(?:at )?(\d+)\((\d+)\): ", message)
    inner = re.search(r"^error: (.+)$", message, re.MULTILINE)
    rest = message[place.end() :] if place else message
    what = inner[1] if inner else (rest.strip().splitlines() or ["it is not valid"])[0]
    where = ""
    if kind == "regex" and (drawn := re.search(r"^ {4}(.*)\n {4}( *)(\^+)$", message, re.MULTILINE)):
        begin, width = len(drawn[2]), min(len(drawn[3]), 60)
        where = f" at “{drawn[1][begin : begin + width]}”"
    elif kind != "regex" and place:
        where = f" in line {place[1]}, character {place[2]}"
    return f"{what[:300]}{where}."


def _without_anchors(text: str) -> str:
    """A regular expression for the whole answer, which needs no ``^`` and ``$``."""
    text = text.removeprefix("^")
    return text[:-1] if re.search(r"(?<!\\)(\\\\)*\$$", text) else text


def _lark_of_gbnf(text: str) -> str:
    from llguidance.gbnf_to_lark import gbnf_to_lark

    if not re.search(r"^\s*root\s*::=", text, re.MULTILINE):
        raise GrammarError('The grammar has no rule "root"; in GBNF the answer begins there.')
    try:
        return str(gbnf_to_lark(text))
    except Exception as error:  # its parser raises several kinds
        raise GrammarError(f"The grammar is no GBNF: {' '.join(str(error).split())[:300]}.") from error


def violations(schema: Any, value: Any) -> list[str]:
    """What is wrong with a value, one sentence for each fault with its path; empty where it is valid.

    A value that cannot be judged is not valid: a sentence says so.
    """
    from jsonschema import Draft7Validator, Draft202012Validator
    from jsonschema.validators import extend, validator_for

    kind = validator_for(schema, default=Draft202012Validator)
    # Later drafts leave this keyword to older ones and would let everything through.
    kind = extend(kind, {"dependencies": Draft7Validator.VALIDATORS["dependencies"]})  # type: ignore[no-untyped-call]
    found = []
    try:
        for error in kind(schema, format_checker=kind.FORMAT_CHECKER).iter_errors(value):
            path = "/".join(["#", *(str(step) for step in error.absolute_path)])
            found.append(f"{path}: {error.message[:200]}.")
    except Exception as error:  # an expression, number or reference that the validator cannot handle
        found.append(f"#: the answer could not be checked against the schema ({str(error)[:200]}).")
    return found
