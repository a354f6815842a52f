from __future__ import annotations

import numpy as np
import pytest

from engine.sampling import processors
from engine.sampling.params import SamplingParams


def _by_sorting(logits: np.ndarray) -> np.ndarray:
    return np.array(sorted(range(logits.size), key=lambda i: (-logits[i], i)))


@pytest.mark.parametrize("size", [1, 5, 255, 256, 5000, 262_144])
@pytest.mark.parametrize("count", [1, 2, 40, 1000])
def test_likeliest_equals_a_full_sort(size: int, count: int) -> None:
    logits = np.random.default_rng(size + count).normal(size=size).astype(np.float32)
    np.testing.assert_array_equal(processors.likeliest(logits, min(count, size)), _by_sorting(logits)[:count])


def test_likeliest_takes_equal_logits_by_lowest_id() -> None:
    logits = np.repeat(np.float32([3, 1, 3, 2]), 700)
    np.testing.assert_array_equal(processors.likeliest(logits, 1000), _by_sorting(logits)[:1000])


@pytest.mark.parametrize("top_p", [0.0, 1e-9, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0])
def test_nucleus_is_the_smallest_set_with_the_mass(top_p: float, scale: float) -> None:
    logits = (np.random.default_rng(3).normal(size=3000) * scale).astype(np.float32)
    weights = np.exp(logits.astype(np.float64) - logits.max())
    mass = np.cumsum(weights[_by_sorting(logits)]) / weights.sum()
    expected = max(1, int(np.sum(mass < top_p - 1e-6)) + 1)
    kept = processors.nucleus(logits, top_p)
    np.testing.assert_array_equal(kept, _by_sorting(logits)[: kept.size])
    assert abs(kept.size - expected) <= 1  # float32 weights at the boundary


def test_at_least_keeps_what_is_likely_enough() -> None:
    logits = np.log(np.float32([0.5, 0.04, 0.3, 0.06, 0.1]))
    assert processors.at_least(logits, 0.11).tolist() == [0, 2, 4, 3]
    assert processors.at_least(logits, 1.0).tolist() == [0]


def test_penalties_by_hand() -> None:
    params = SamplingParams(repeat_penalty=2.0, presence_penalty=0.25, frequency_penalty=0.5, penalty_window=3)
    logits = np.float32([4.0, -4.0, 1.0, 1.0])
    processors.apply_penalties(logits, [2, 0, 1, 1], params)  # the 2 is outside the window
    assert logits.tolist() == [2.0 - 0.75, -8.0 - 1.25, 1.0, 1.0]
    processors.apply_penalties(logits, [2], SamplingParams(presence_penalty=1.0, penalty_window=-1))
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
    assert processors.has_penalties(params) is expected
