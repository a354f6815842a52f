"""A small vocabulary for grammars, and answers drawn from it at random."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np

from engine.grammar.compiler import Grammar, compile_format
from engine.grammar.constraint import GrammarConstraint
from engine.grammar.library import SPECIAL_MARK, TokenTable
from engine.grammar.response_format import FormatKind, ResponseFormat
from engine.tokenizer.texts import TokenBytes

WORDS = (
    '{"',
    '":',
    ' "',
    '", "',
    '",',
    '"}',
    "true",
    "false",
    "null",
    "12",
    "name",
    "na",
    "me",
    "EUR",
    "US",
    "USD",
)
PIECES = [*(bytes([byte]) for byte in range(256)), *(word.encode() for word in WORDS), "ä".encode(), "🦙".encode()]
THINK = len(PIECES)
END = THINK + 1
TOKENS = [*PIECES, SPECIAL_MARK + b"<think>", SPECIAL_MARK + b"<end>"]
VOCAB_SIZE = len(TOKENS)
_LONGEST = sorted(range(256, len(PIECES)), key=lambda token_id: -len(PIECES[token_id]))


def encode(text: str) -> list[int]:
    """The longest token that fits, from left to right."""
    data, ids = text.encode(), []
    while data:
        found = next((i for i in _LONGEST if data.startswith(PIECES[i])), data[0])
        ids.append(found)
        data = data[len(PIECES[found]) :]
    return ids


def piece(token_id: int) -> bytes:
    return TOKENS[token_id].removeprefix(SPECIAL_MARK)


def decode(token_ids: list[int]) -> str:
    return b"".join(piece(token_id) for token_id in token_ids if token_id != END).decode()


@functools.cache
def table() -> TokenTable:
    return TokenTable(TokenBytes.of(TOKENS), [END], encode)


def grammar_of(schema: Any, *, check_afterwards: bool = False) -> Grammar:
    return compile_format(ResponseFormat(FormatKind.JSON_SCHEMA, json.dumps(schema), check_afterwards))


def constraint_of(grammar: Grammar, **options: Any) -> GrammarConstraint:
    return GrammarConstraint(table().matcher(grammar.kind, grammar.text), VOCAB_SIZE, [END], **options)


def accepts(schema: Any, text: str) -> bool:
    """Whether a constraint would let ``text`` be generated as a whole answer."""
    grammar = grammar_of(schema)
    matcher = table().matcher(grammar.kind, grammar.text)
    ids = encode(text)
    if matcher.num_valid(ids) < len(ids):
        return False
    for token_id in ids:
        matcher.consume(token_id)
    return matcher.is_accepting


def draw(constraint: GrammarConstraint, random: np.random.Generator, max_tokens: int) -> tuple[list[int], bool]:
    """Tokens as the engine would append them for random logits, and whether the answer came to its end."""
    tokens: list[int] = []
    while len(tokens) < max_tokens:
        constraint.prepare()
        chosen = constraint.forced_tokens()
        if not chosen:
            mask = constraint.mask()
            assert mask is not None
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little", count=VOCAB_SIZE))
            closing = [i for i in allowed if i == END or set(piece(i)) <= set(b'"}],:0123456789')]
            likely = closing if closing and random.random() < 0.5 else allowed
            chosen = [int(random.choice(likely))]
        for token_id in chosen:
            tokens.append(token_id)
            if token_id == END:
                return tokens, True
            constraint.advance(token_id)
            if constraint.is_complete:
                return tokens, True
    return tokens, False
