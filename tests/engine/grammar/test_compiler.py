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


def test_published_gbnf_grammars_are_understood(shared_data: Path) -> None:
    files = sorted((shared_data / "json_schema" / "gbnf_llama_cpp").glob("*.gbnf"))
    assert files
    for file in files:
        grammar = compile_format(ResponseFormat(FormatKind.GBNF, file.read_text(encoding="utf-8")))
        tokens, _ = draw(constraint_of(grammar), np.random.default_rng(2), 30)
        assert tokens, file.name
