"""Masks, forced tokens and completion, as the engine sees them."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import numpy as np
import pytest

from engine.chat.channel_markers import HARMONY, Channels
from engine.errors import GenerationError
from engine.grammar.answer_gate import AnswerGate
from engine.grammar.library import TokenTable
from engine.grammar.structured_answer import CUT_OFF, StructuredAnswer
from engine.tokenizer.texts import TokenBytes
from tests.engine.grammar.vocabulary import (
    END,
    THINK,
    TOKENS,
    accepts,
    constraint_of,
    decode,
    draw,
    encode,
    grammar_of,
    piece,
)

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def is_allowed(mask: Any, token_id: int) -> bool:
    return bool(mask[token_id // 32] >> token_id % 32 & 1)


def test_forced_tokens_come_before_choices_and_are_counted() -> None:
    constraint = constraint_of(grammar_of(PERSON))
    forced = constraint.forced_tokens()
    assert decode(forced).startswith('{"na')
    assert forced == encode(decode(forced))  # as the tokenizer would write them
    for token_id in forced:
        constraint.advance(token_id)
    assert constraint.num_forced_tokens == len(forced)


def test_the_mask_is_the_same_computed_beside_the_model_or_when_asked() -> None:
    masks = []
    for prepares in (False, True):
        constraint = constraint_of(grammar_of({"type": "integer"}))
        if prepares:
            constraint.prepare()
            constraint.prepare()
        assert constraint.forced_tokens() == []
        masks.append(constraint.mask())
    assert np.array_equal(masks[0], masks[1])
    assert is_allowed(masks[0], ord("7"))
    assert not is_allowed(masks[0], ord("a"))
    assert not is_allowed(masks[0], END)


@pytest.mark.parametrize(
    ("schema", "answers"),
    [
        (
            {"anyOf": [{"const": "decision"}, {"enum": ['a"b', "c\\d", "e\nf"]}]},
            ["decision", 'a"b', "c\\d", "e\nf"],
        ),
        ({"type": "object", "properties": {}, "additionalProperties": False}, [{}]),
        ({"type": "array", "maxItems": 0}, [[]]),
        ({"enum": [None, True, 12, {"a": [1]}]}, [None, True, 12, {"a": [1]}]),
    ],
)
def test_answers_are_exactly_the_values(schema: Any, answers: list[Any]) -> None:
    random = np.random.default_rng(3)
    drawn = []
    for _ in range(60):
        tokens, is_finished = draw(constraint_of(grammar_of(schema)), random, 60)
        assert is_finished
        value = json.loads(decode(tokens))
        if value not in drawn:
            drawn.append(value)
    assert sorted(map(json.dumps, drawn)) == sorted(map(json.dumps, answers))


def test_characters_of_several_tokens_stay_possible() -> None:
    schema = {"type": "object", "properties": {"satz": {"type": "string"}}, "required": ["satz"]}
    text = '{"satz": "Die Bären hören 🦙 日本"}'
    assert any(0x80 <= token_id < 256 for token_id in encode(text)), "some are single bytes"
    assert accepts(schema, text)


def test_a_token_that_may_not_follow_is_an_error() -> None:
    constraint = constraint_of(grammar_of({"type": "integer"}))
    with pytest.raises(GenerationError):
        constraint.advance(ord("x"))


def gate(template: str, opens_reasoning: bool, channels: Channels | None = None) -> AnswerGate:
    ids = {"<think>": THINK}
    return AnswerGate(channels or Channels(), template, opens_reasoning, ids.get, piece)


def test_thinking_that_the_prompt_opened_is_free_and_the_answer_is_not() -> None:
    constraint = constraint_of(grammar_of({"enum": ["yes"]}), gate=gate("<think>", True))
    thinking = encode('Hm, {"x": no.</think>')
    for token_id in thinking:
        assert constraint.forced_tokens() == []
        mask = constraint.mask()
        assert is_allowed(mask, token_id)
        assert not is_allowed(mask, END), "it must answer"
        constraint.advance(token_id)
        assert not constraint.is_complete
    assert constraint.first_index == len(thinking)
    assert decode(constraint.forced_tokens()) == '"yes"'


def test_a_model_that_may_think_is_free_to_begin_with_that_or_the_answer() -> None:
    constraint = constraint_of(grammar_of({"type": "integer"}), gate=gate("uses <think> and </think>", False))
    mask = constraint.mask()
    assert is_allowed(mask, THINK)
    assert is_allowed(mask, ord("1"))
    assert not is_allowed(mask, ord("x"))
    constraint.advance(THINK)
    for token_id in encode("well</think>"):
        constraint.advance(token_id)
    assert not is_allowed(constraint.mask(), THINK)
    constraint.advance(ord("1"))
    assert constraint.is_accepting

    at_once = constraint_of(grammar_of({"type": "integer"}), gate=gate("<think></think>", False))
    at_once.advance(ord("1"))
    assert not is_allowed(at_once.mask(), THINK)


def test_a_forced_beginning_waits_for_a_model_that_may_think() -> None:
    constraint = constraint_of(grammar_of(PERSON), gate=gate("<think>", False))
    assert constraint.forced_tokens() == []
    assert is_allowed(constraint.mask(), THINK)


def test_headers_lead_to_the_answer() -> None:
    constraint = constraint_of(grammar_of({"type": "integer"}), gate=gate("", False, Channels((), HARMONY)))
    for token_id in encode(
        "<|channel|>analysis<|message|>12 or so<|end|><|start|>assistant<|channel|>final<|message|>"
    ):
        assert not constraint.is_accepting
        constraint.advance(token_id)
    assert not is_allowed(constraint.mask(), ord("x"))


def test_an_answer_within_the_closing_marker_is_refused() -> None:
    the_gate = gate("<think>", True)
    for token_id in encode("</thin"):
        the_gate.push(token_id)
    the_gate._token_bytes = lambda token_id: b'k>{"'
    with pytest.raises(GenerationError, match="mid-token"):
        the_gate.push(0)


def test_random_answers_are_valid_or_known_to_be_cut_off() -> None:
    random = np.random.default_rng(4)
    num_cut = 0
    for _ in range(40):
        grammar = grammar_of(PERSON)
        constraint = constraint_of(grammar)
        tokens, is_finished = draw(constraint, random, 30)
        result = StructuredAnswer(grammar, constraint, None, "", piece).result(tokens, is_finished, [END])
        assert result.is_valid == result.is_complete == is_finished
        if is_finished:
            value = json.loads(decode(tokens))
            assert set(value) == {"name", "age"}
        else:
            num_cut += 1
            assert result.message == CUT_OFF
    assert 0 < num_cut < 40


def test_what_was_left_to_a_check_afterwards_is_found() -> None:
    schema = {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2, "uniqueItems": True}
    grammar = grammar_of(schema, check_afterwards=True)
    random = np.random.default_rng(5)
    verdicts = set()
    for _ in range(20):
        constraint = constraint_of(grammar)
        tokens, is_finished = draw(constraint, random, 30)
        result = StructuredAnswer(grammar, constraint, None, "", piece).result(tokens, is_finished, [END])
        values = json.loads(decode(tokens))
        assert result.is_complete
        assert result.is_valid == (values[0] != values[1])
        assert bool(result.message) != result.is_valid
        assert result.checked_afterwards
        verdicts.add(result.is_valid)
    assert verdicts == {True, False}


def test_other_threads_run_while_a_vocabulary_is_indexed() -> None:
    many = TokenBytes.of([*TOKENS, *(f" word{number}".encode() for number in range(60_000))])
    num_turns, is_begun, is_done = [0], threading.Event(), threading.Event()

    def watch() -> None:
        while not is_done.is_set():
            time.sleep(0.0001)
            num_turns[0] += is_begun.is_set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        is_begun.set()
        TokenTable(many, [END], encode)
    finally:
        is_done.set()
        watcher.join()
    assert num_turns[0] > 5, "a thread that has to wait for the end gets one turn or two"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", ["2024-02-29", "2000-02-29", "2023-04-30"], ["2023-02-29", "2100-02-29", "2023-04-31"]),
        ("date", ["0001-01-01", "2023-12-31"], ["2023-00-10", "2023-13-01", "2023-01-32", "2023-1-1"]),
        ("time", ["23:59:60Z", "01:02:03.5+02:00"], ["24:00:00Z", "22:59:60Z", "01:02:03", "23:59:60+01:00"]),
        ("date-time", ["2024-02-29T00:00:00Z"], ["2023-02-29T00:00:00Z", "2024-02-29 00:00:00Z"]),
        ("hostname", ["a", "a-b.example", "a" * 63, "a--b"], ["-a", "a-", "ab--c", "a" * 64]),
        ("hostname", ["a." * 126 + "a"], ["a..b", "a." * 126 + "aa", "a."]),
    ],
)  # fmt: skip
def test_formats_are_exact(name: str, good: list[str], bad: list[str]) -> None:
    schema = {"type": "string", "format": name}
    for text in good:
        assert accepts(schema, json.dumps(text)), text
        assert accepts(schema | {"minLength": 1, "pattern": "^."}, json.dumps(text)), text
    for text in bad:
        assert not accepts(schema, json.dumps(text)), text
