"""Arguments for the form of an answer: a JSON Schema, a grammar or a regular expression."""

from __future__ import annotations

import argparse
import re

from engine.grammar.compiler import compile_format
from engine.protocol import FormatKind, ResponseFormat, StructuredResult
from engine.terminal.arguments import read_file
from engine.terminal.output import Output


def add_form(parser: argparse.ArgumentParser) -> None:
    """The options; at most one form."""
    group = parser.add_argument_group("form of the answer")
    form = group.add_mutually_exclusive_group()
    form.add_argument("--schema", metavar="FILE", help="JSON of this JSON Schema")
    form.add_argument("--grammar", metavar="FILE", help="text of this grammar, GBNF or Lark")
    form.add_argument("--regex", metavar="R", help="text that this regular expression matches as a whole")
    add_check_afterwards(group)
    group.add_argument("--certainty", action="store_true", help="how sure the model was of each value of the JSON")


def add_check_afterwards(group: argparse._ArgumentGroup | argparse.ArgumentParser) -> None:
    """The person's agreement."""
    group.add_argument(
        "--check-afterwards",
        action="store_true",
        help="take a schema that cannot be honoured in full, and check the rest when the answer is there",
    )


def form_of(arguments: argparse.Namespace) -> ResponseFormat | None:
    """The form, checked before a model is loaded. Raises EngineError where it cannot be honoured."""
    if arguments.schema is not None:
        return schema_of(arguments)
    if arguments.grammar is not None:
        text = read_file(arguments.grammar)
        is_gbnf = re.search(r"^\s*[\w-]+\s*::=", text, re.MULTILINE) is not None
        form = ResponseFormat(FormatKind.GBNF if is_gbnf else FormatKind.LARK, text)
    elif arguments.regex is not None:
        form = ResponseFormat(FormatKind.REGEX, arguments.regex)
    else:
        return None
    compile_format(form)
    return form


def schema_of(arguments: argparse.Namespace) -> ResponseFormat:
    """The form of ``--schema``, likewise checked."""
    form = ResponseFormat(FormatKind.JSON_SCHEMA, read_file(arguments.schema), arguments.check_afterwards)
    compile_format(form)
    return form


def report(structured: StructuredResult, num_tokens: int, output: Output) -> bool:
    """Say on stderr what is known about the form of an answer; False where it has not got it."""
    output.note(f"[{structured.num_forced_tokens:,} of {num_tokens:,} tokens forced]")
    for sentence in structured.checked_afterwards:
        output.note(f"[checked afterwards: {sentence}]")
    for field in structured.fields:
        others = "".join(f", {text} {probability:.0%}" for text, probability in field.alternatives[:4])
        output.note(f"[{field.path or 'answer'}: {field.probability:.0%}{others}]")
    if not structured.is_valid:
        output.note(structured.message)
    return structured.is_valid
