"""The probability of each value, token by token."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from engine.grammar.certainty import CertaintyTrace, field_certainties, value_spans
from tests.engine.grammar.vocabulary import VOCAB_SIZE, encode, piece

SCHEMA: dict[str, Any] = {
    "properties": {
        "name": {"type": "string"},
        "n": {"type": "integer"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/money"}},
    },
    "$defs": {"money": {"enum": ["EUR", "USD", 7]}},
}


def test_spans_have_the_paths_of_their_values() -> None:
    text = json.dumps(
        {"a": ['x"]}', {"b": None, "c/d": -1.5e3}, [], {}], "e": True, "ü": "ö"}, ensure_ascii=False
    ).encode()
    spans = [(span.path, json.loads(text[span.start : span.end])) for span in value_spans(text)]
    assert spans == [
        (("a", 0), 'x"]}'),
        (("a", 1, "b"), None),
        (("a", 1, "c/d"), -1500.0),
        (("e",), True),
        (("ü",), "ö"),
    ]
    assert value_spans(b'{"a": "cut o') == []
    assert [span.path for span in value_spans(b"12")] == [()]


def trace_of(ids: list[int], probabilities: dict[int, float], choices: dict[int, list[int]]) -> CertaintyTrace:
    """A trace of an answer whose tokens have the given probabilities, others 1, after a prompt of one token."""
    trace = CertaintyTrace(1, piece)
    rows = []
    for index, token_id in enumerate(ids):
        own = probabilities.get(index, 1.0)
        row = np.full(VOCAB_SIZE, -80.0, np.float32)
        others = [i for i in choices.get(index, ()) if i != token_id] or [(token_id + 1) % VOCAB_SIZE]
        row[others] = math.log(max(1 - own, 1e-30) / len(others))
        row[token_id] = math.log(own)
        rows.append(row)
        if index in choices:
            trace.note_choice(index, np.asarray(choices[index]))
    trace.see([0, *ids], 0, np.stack(rows))
    return trace


def test_a_value_is_as_likely_as_its_tokens_and_its_end() -> None:
    text = '{"name": "ab", "n": 12, "list": ["EUR"]}'
    ids = encode(text)
    position = {text[len("".join(piece(i).decode() for i in ids[:k])) :]: k for k in range(len(ids))}
    a = position['ab", "n": 12, "list": ["EUR"]}']
    comma = position[', "list": ["EUR"]}']
    key = position['n": 12, "list": ["EUR"]}']
    eur = position['EUR"]}']
    trace = trace_of(
        ids,
        {a: 0.5, a + 1: 0.5, comma: 0.25, key: 0.1, eur: 0.75},
        {eur: encode("EUR") + encode("US") + encode("USD")},
    )
    name, n, money = field_certainties(trace, [piece(i) for i in ids], SCHEMA)
    assert (name.path, n.path, money.path) == ("/name", "/n", "/list/0")
    assert name.probability == pytest.approx(0.25, rel=1e-3)
    assert n.probability == pytest.approx(0.25, rel=1e-3), "where a number ends is a part of it"
    assert money.probability == pytest.approx(0.75, rel=1e-3)
    assert money.alternatives == (('"USD"', pytest.approx(0.25, rel=1e-3)),), "what begins with US or USD"


def test_thinking_before_the_answer_is_no_part_of_it() -> None:
    ids = encode("hm7")
    trace = trace_of(ids, {0: 0.1, 2: 0.5}, {})
    (field,) = field_certainties(trace, [b"7"], {"type": "integer"}, first_index=2)
    assert field.path == ""
    assert field.probability == pytest.approx(0.5, rel=1e-3)
