"""Regular expressions, Lark and GBNF as grammars."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import GrammarError
from engine.grammar.compiler import compile_format
from engine.grammar.response_format import FormatKind, ResponseFormat
from tests.engine.grammar.vocabulary import constraint_of, decode, draw


@pytest.mark.parametrize(
    ("kind", "text", "answers"),
    [
        (FormatKind.REGEX, "^(yes|no)$", {"yes", "no"}),
        (FormatKind.REGEX, r"1\$", {"1$"}),
        (FormatKind.LARK, 'start: "a" | "b" "c"', {"a", "bc"}),
        (FormatKind.GBNF, 'root ::= ("x" | y) "!"\ny ::= [yz]', {"x!", "y!", "z!"}),
    ],
)
def test_answers_follow_the_grammar(kind: FormatKind, text: str, answers: set[str]) -> None:
    grammar = compile_format(ResponseFormat(kind, text))
    random = np.random.default_rng(1)
    drawn = set()
    for _ in range(40):
        tokens, is_finished = draw(constraint_of(grammar), random, 20)
        assert is_finished
        drawn.add(decode(tokens))
    assert drawn == answers


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (FormatKind.REGEX, "(?=a)b", "look-around"),
        (FormatKind.REGEX, "(", "expression cannot be used"),
        (FormatKind.REGEX, "  ", "empty"),
        (FormatKind.LARK, 'stat: "a"', "no start rule"),
        (FormatKind.LARK, 'start: "a\0"', "NUL"),
        (FormatKind.GBNF, 'rot ::= "a"', 'no rule "root"'),
        (FormatKind.GBNF, "root ::= missing", "'missing' not found"),
    ],
)
def test_a_bad_grammar_is_refused_in_one_sentence(kind: FormatKind, text: str, said: str) -> None:
    with pytest.raises(GrammarError, match=said) as raised:
        compile_format(ResponseFormat(kind, text))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (FormatKind.REGEX, "[0-9", "The expression cannot be used: unclosed character class at “[”."),
        (FormatKind.REGEX, "^a(b$", "The expression cannot be used: unclosed group at “(”."),
        (FormatKind.REGEX, r"(a)\1", r"The expression cannot be used: backreferences are not supported at “\1”."),
        (
            FormatKind.LARK,
            "start: /[0-9/",
            "The grammar cannot be used: unclosed character class in line 1, character 8.",
        ),
        (
            FormatKind.LARK,
            "start: a\na: foo",
            'The grammar cannot be used: unknown name: "foo" in line 2, character 4.',
        ),
        (FormatKind.LARK, "x: /a/", "The grammar cannot be used: no start rule found."),
    ],
)
def test_what_is_wrong_with_a_grammar_is_said_without_a_drawing(kind: FormatKind, text: str, sentence: str) -> None:
    with pytest.raises(GrammarError) as raised:
        compile_format(ResponseFormat(kind, text))
    assert str(raised.value) == sentence


def test_published_gbnf_grammars_are_understood(shared_data: Path) -> None:
    files = sorted((shared_data / "json_schema" / "gbnf_llama_cpp").glob("*.gbnf"))
    assert files
    for file in files:
        grammar = compile_format(ResponseFormat(FormatKind.GBNF, file.read_text(encoding="utf-8")))
        tokens, _ = draw(constraint_of(grammar), np.random.default_rng(2), 30)
        assert tokens, file.name
