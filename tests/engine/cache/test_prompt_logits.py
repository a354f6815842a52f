"""Logits after the last prompts, within a bound that counts the prompts, too."""

from __future__ import annotations

import numpy as np

from engine.cache.prompt_logits import PromptLogits


def _row(number: float) -> np.ndarray:
    return np.full(10, number, np.float32)


def test_the_prompts_used_longest_ago_are_forgotten() -> None:
    logits = PromptLogits(max_bytes=3 * (40 + 8))
    for number in range(3):
        logits.put([number, 7], _row(number))
    assert logits.get([0, 7]) is not None
    logits.put([3, 7], _row(3))
    assert [logits.get([number, 7]) is None for number in range(4)] == [False, True, False, False]


def test_a_long_prompt_counts_with_its_tokens() -> None:
    logits = PromptLogits(max_bytes=500)
    for number in range(4):
        logits.put([number], _row(number))
    logits.put([9] * 100, _row(9))
    assert logits.get([9] * 100) is not None
    assert [logits.get([number]) is None for number in range(4)] == [True, True, True, False]


def test_the_same_prompt_counts_once_and_has_the_newest_row() -> None:
    logits = PromptLogits(max_bytes=2 * 44)
    for number in range(9):
        logits.put([1], _row(number))
    logits.put([2], _row(0))
    row = logits.get([1])
    assert row is not None
    assert (row == 8).all()


def test_the_prompts_that_a_text_begins_with() -> None:
    logits = PromptLogits()
    for prompt in ([1], [1, 2, 3], [1, 2], [2], [1, 300]):
        logits.put(prompt, _row(0))
    assert logits.prefixes([1, 2, 3, 4], 2) == [[1, 2, 3], [1, 2]]
    assert logits.prefixes([257], 5) == [], "tokens are compared, not bytes"
