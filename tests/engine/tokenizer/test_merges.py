"""Merges from scores, against the algorithm they stand for."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from engine.gguf import open_model
from engine.tokenizer import load_tokenizer
from engine.tokenizer.merges import Merges, derive_merges
from engine.tokenizer.texts import CodePoints

LETTERS = "abc"


def texts_of(tokens: list[str], merges: Merges) -> list[tuple[str, str]]:
    """Both parts of each merge, which must make the token that is named."""
    pairs = [(tokens[left], tokens[right]) for left, right in zip(merges.left.tolist(), merges.right.tolist())]
    assert [left + right for left, right in pairs] == [tokens[made] for made in merges.made.tolist()]
    return pairs


def merge_by_score(text: str, scores: dict[str, float]) -> list[str]:
    """SentencePiece's own way: merge the pair that makes the token of the highest score, leftmost first."""
    symbols = list(text)
    while True:
        candidates = [
            (-scores[left + right], position)
            for position, (left, right) in enumerate(itertools.pairwise(symbols))
            if left + right in scores
        ]
        if not candidates:
            return symbols
        _, position = min(candidates)
        symbols[position : position + 2] = [symbols[position] + symbols[position + 1]]


@settings(max_examples=300, deadline=None)
@given(
    words=st.lists(st.text(LETTERS, min_size=2, max_size=7), min_size=1, max_size=25, unique=True),
    texts=st.lists(st.text(LETTERS, max_size=30), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_the_merge_table_encodes_as_the_scores_do(words: list[str], texts: list[str], order: object) -> None:
    order.shuffle(words)  # type: ignore[attr-defined]
    tokens = [*LETTERS, *words]
    scores = np.array([-float(n) for n in range(len(tokens))], np.float32)
    merges = texts_of(tokens, derive_merges(CodePoints.of(tokens), scores, np.ones(len(tokens), np.bool_)))
    assert len(merges) <= len(words)
    vocab = {token: n for n, token in enumerate(tokens)}
    library = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    by_text = dict(zip(tokens, scores.tolist()))
    for text in texts:
        assert [tokens[i] for i in library.encode(text).ids] == merge_by_score(text, by_text)


def test_tokens_that_no_merge_reaches_are_left_out() -> None:
    tokens = ["a", "b", "c", "abc", "xy"]
    merges = derive_merges(CodePoints.of(tokens), np.zeros(5, np.float32) - np.arange(5), np.ones(5, np.bool_))
    assert merges.made.size == 0


def test_tokens_that_may_not_be_made_are_not_made() -> None:
    tokens = ["a", "b", "ab", "aba"]
    mergeable = np.array([True, True, False, True])
    assert derive_merges(CodePoints.of(tokens), -np.arange(4, dtype=np.float32), mergeable).made.size == 0


def test_equal_scores_keep_every_split() -> None:
    tokens = ["a", "b", "ab", "ba", "aba"]
    scores = np.array([0, 0, -1, -2, -2], np.float32)
    merges = derive_merges(CodePoints.of(tokens), scores, np.ones(5, np.bool_))
    assert texts_of(tokens, merges) == [("a", "b"), ("b", "a"), ("a", "ba"), ("ab", "a")]


def test_an_overlong_token_costs_nothing() -> None:
    tokens = ["a", "a" * 100_000]
    assert derive_merges(CodePoints.of(tokens), np.zeros(2, np.float32), np.ones(2, np.bool_)).made.size == 0


def test_the_time_of_a_vocabulary_of_262144_tokens_is_not_its_square(gemma3_path: Path) -> None:
    with open_model(gemma3_path) as file:
        load_tokenizer(file.metadata)  # compiles the loop, once on a machine
        started = time.perf_counter()
        tokenizer = load_tokenizer(file.metadata)
        took_s = time.perf_counter() - started
    assert tokenizer.vocab_size == 262_144
    assert took_s < 60, "0.6 s on an idle machine; minutes where each token looks at all others"


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_any_size_of_vocabulary(size: int) -> None:
    tokens = [chr(0x4E00 + n) for n in range(size)]
    assert derive_merges(CodePoints.of(tokens), np.zeros(size, np.float32), np.ones(size, np.bool_)).made.size == 0
