"""The compiled choice against its definition."""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np
import pytest

from engine.errors import NumericError
from engine.sampling import choice, reference
from engine.sampling.params import SamplingParams

OFF = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
NO_TOKENS = array("i")


def _logits(generator: np.random.Generator, size: int) -> np.ndarray:
    logits = generator.normal(size=size) * generator.choice([0.01, 1.0, 8.0])
    if generator.random() < 0.5:
        logits = np.round(logits * 4) / 4  # many that are equal
    logits = logits.astype(np.float32)
    logits[generator.random(size) < 0.2] = -np.inf
    logits[generator.integers(size)] = generator.choice([0.0, -0.0, 5.0])
    return logits


def _params(generator: np.random.Generator, size: int) -> SamplingParams:
    return SamplingParams(
        temperature=float(generator.choice([0.0, 0.2, 1.0, 3.0])),
        top_k=int(generator.choice([0, 1, 2, 40, size // 2, size - 1, size, size + 5])),
        top_p=float(generator.choice([0.0, 0.3, 0.9, 0.999, 1.0])),
        min_p=float(generator.choice([0.0, 1e-6, 0.05, 0.5, 1.0])),
        repeat_penalty=float(generator.choice([1.0, 1.3, 0.5])),
        presence_penalty=float(generator.choice([0.0, 0.5])),
        frequency_penalty=float(generator.choice([0.0, -0.25])),
        penalty_window=int(generator.choice([-1, 0, 7])),
    )


def _mask(generator: np.random.Generator, logits: np.ndarray) -> np.ndarray | None:
    if generator.random() < 0.5:
        return None
    allowed = generator.random(-(-logits.size // 32) * 32) < generator.choice([0.02, 0.5, 0.98])
    allowed[int(logits.argmax())] = True
    return np.packbits(allowed, bitorder="little").view("<u4").astype(np.uint32)


@pytest.mark.parametrize("size", [1, 2, 15, 16, 63, 64, 65, 100, 1000, 5003])
def test_it_chooses_what_the_definition_chooses(size: int) -> None:
    generator = np.random.default_rng(size)
    for _ in range(150):
        logits, params = _logits(generator, size), _params(generator, size)
        mask, random = _mask(generator, logits), float(generator.random())
        tokens = generator.integers(size, size=int(generator.choice([0, 3, 40]))).tolist()
        recent = tokens if params.penalty_window < 0 else tokens[len(tokens) - params.penalty_window :]
        recent = recent if reference.has_penalties(params) else []
        before = logits.copy()
        chosen = choice.choose(logits, array("i", recent), params, random, mask)
        np.testing.assert_array_equal(logits, before)
        # Weights are float32 here and float64 there: at the edge between two tokens either may be chosen.
        near = {
            reference.choose(logits, tokens, replace(params, top_p=top_p), edge, mask)
            for top_p in {params.top_p, min(params.top_p * (1 + 1e-5), 1.0), params.top_p * (1 - 1e-5)}
            for edge in {random, min(random * (1 + 1e-4) + 1e-5, 1 - 1e-9), random * (1 - 1e-4)}
        }
        assert chosen in near, params


@pytest.mark.parametrize("size", [50, 262_144])
def test_likeliest_tokens_have_the_models_own_probabilities(size: int) -> None:
    logits = (np.random.default_rng(5).normal(size=size) * 3).astype(np.float32)
    logits[[7, 30]] = logits.max() + 1
    expected = reference.log_probabilities(logits)
    ranked = choice.rank(logits, 20, token_id=11)
    order = np.argsort(-logits, kind="stable")[:20].tolist()
    assert [token.token_id for token in ranked] == [*order, *([11] if 11 not in order else [])]
    assert ranked[0].token_id == 7, "of equal ones the lowest id comes first"
    np.testing.assert_allclose([t.logprob for t in ranked], expected[[t.token_id for t in ranked]], atol=2e-6)
    assert [token.token_id for token in choice.rank(logits, 0, token_id=3)] == [3]
    assert len(choice.rank(logits[:5], 20)) == 5


def test_tokens_that_are_impossible_are_not_ranked() -> None:
    logits = np.float32([-np.inf, 1, -np.inf, 1])
    assert [token.token_id for token in choice.rank(logits, 4)] == [1, 3]


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 77, 999])
def test_invalid_numbers_are_found_behind_a_mask_too(bad: float, place: int) -> None:
    logits = np.zeros(1000, np.float32)
    logits[place] = bad
    only_five = np.zeros(32, np.uint32)
    only_five[0] = 1 << 5
    for mask in (None, only_five):
        with pytest.raises(NumericError, match="invalid numbers"):
            choice.choose(logits, NO_TOKENS, OFF, 0.5, mask)
    with pytest.raises(NumericError, match="invalid numbers"):
        choice.rank(logits, 3)


def test_a_mask_that_allows_nothing_ends_the_answer() -> None:
    logits = np.full(100, -np.inf, np.float32)
    logits[99] = 1
    with pytest.raises(NumericError, match="No token that the model offers"):
        choice.choose(logits, NO_TOKENS, OFF, 0.5, np.zeros(4, np.uint32))
    nothing_but_impossible = np.array([7, 0, 0, 0], np.uint32)
    with pytest.raises(NumericError, match="No token that the model offers"):
        choice.choose(logits, NO_TOKENS, OFF, 0.5, nothing_but_impossible)


def test_what_a_short_mask_does_not_cover_is_forbidden() -> None:
    logits = np.arange(100, dtype=np.float32)
    assert choice.choose(logits, NO_TOKENS, replace(OFF, temperature=0), 0.5, np.array([1 << 3], np.uint32)) == 3


def test_a_read_only_row_is_left_alone() -> None:
    logits = np.float32([1, 2, 3])
    logits.flags.writeable = False
    params = replace(OFF, temperature=0, presence_penalty=5)
    assert choice.choose(logits, array("i", [2]), params, 0.5) == 1


def test_recent_tokens_outside_the_vocabulary_are_passed_over() -> None:
    params = replace(OFF, temperature=0, presence_penalty=5)
    assert choice.choose(np.float32([1, 2, 3]), array("i", [2, 3, -1, 2_000_000_000]), params, 0.5) == 1
