from __future__ import annotations

import numpy as np
import pytest

from engine.sampling import reference
from engine.sampling.params import SamplingParams


def _by_sorting(logits: np.ndarray) -> np.ndarray:
    return np.array(sorted(range(logits.size), key=lambda i: (-logits[i], i)))


def test_likeliest_takes_equal_logits_by_lowest_id() -> None:
    logits = np.repeat(np.float32([3, 1, 3, 2]), 700)
    expected = sorted(_by_sorting(logits)[:1000].tolist())
    assert np.flatnonzero(reference.likeliest(logits, 1000)).tolist() == expected


@pytest.mark.parametrize("top_p", [0.0, 1e-9, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0])
def test_nucleus_is_the_smallest_set_with_the_mass(top_p: float, scale: float) -> None:
    logits = (np.random.default_rng(3).normal(size=3000) * scale).astype(np.float32)
    weights = np.exp(logits.astype(np.float64) - logits.max())
    order = _by_sorting(logits)
    mass = np.cumsum(weights[order]) / weights.sum()
    count = int(reference.nucleus(logits, top_p).sum())
    assert mass[count - 1] >= top_p - 1e-12
    assert count == 1 or mass[count - 2] < top_p
    assert reference.nucleus(logits, top_p)[order[:count]].all()


def test_at_least_keeps_what_is_likely_enough() -> None:
    logits = np.log(np.float32([0.5, 0.04, 0.3, 0.06, 0.1]))
    assert np.flatnonzero(reference.at_least(logits, 0.11)).tolist() == [0, 2, 3, 4]
    assert np.flatnonzero(reference.at_least(logits, 1.0)).tolist() == [0]


def test_a_mask_allows_the_tokens_whose_bits_are_set() -> None:
    logits = np.zeros(70, np.float32)
    reference.apply_mask(logits, np.array([1 << 31 | 1, 2, 1 << 5], np.uint32))
    assert np.flatnonzero(logits == 0).tolist() == [0, 31, 33, 69]


def test_penalties_by_hand() -> None:
    params = SamplingParams(repeat_penalty=2.0, presence_penalty=0.25, frequency_penalty=0.5, penalty_window=3)
    logits = np.float32([4.0, -4.0, 1.0, 1.0])
    reference.apply_penalties(logits, [2, 0, 1, 1], params)  # the 2 is outside the window
    assert logits.tolist() == [2.0 - 0.75, -8.0 - 1.25, 1.0, 1.0]
    reference.apply_penalties(logits, [2], SamplingParams(presence_penalty=1.0, penalty_window=-1))
    assert logits[2] == 0.0


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SamplingParams(), False),
        (SamplingParams(repeat_penalty=1.1), True),
        (SamplingParams(presence_penalty=0.1), True),
        (SamplingParams(frequency_penalty=-0.1), True),
        (SamplingParams(repeat_penalty=1.1, penalty_window=0), False),
    ],
)
def test_has_penalties(params: SamplingParams, expected: bool) -> None:
    assert reference.has_penalties(params) is expected
