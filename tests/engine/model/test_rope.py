"""Frequencies against the formulas, written out pair by pair."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.model.rope import RopeParameters, RopeScaling, RopeScalingKind, rope_table


def test_plain_frequencies_fall_from_one_by_powers_of_the_base() -> None:
    table = rope_table(RopeParameters(8, 10000.0), is_interleaved=True)
    np.testing.assert_allclose(table.inv_freq, [1.0, 0.1, 0.01, 0.001])
    assert (table.magnitude, table.interleaved) == (1.0, True)


def test_linear_scaling_and_factors_divide() -> None:
    scaling = RopeScaling(RopeScalingKind.LINEAR, factor=4.0)
    factors = np.array([1, 2, 4, 8], np.float32)
    table = rope_table(RopeParameters(8, 10000.0, scaling), is_interleaved=False, factors=factors)
    np.testing.assert_allclose(table.inv_freq, np.array([1.0, 0.05, 0.0025, 0.000125]) / 4)


def test_yarn_keeps_fast_pairs_divides_slow_ones_and_blends_between() -> None:
    scaling = RopeScaling(RopeScalingKind.YARN, factor=8.0, original_context_length=4096, attention_factor=1.5)
    table = rope_table(RopeParameters(64, 10000.0, scaling), is_interleaved=False)
    low = math.floor(64 * math.log(4096 / (32 * 2 * math.pi)) / (2 * math.log(10000)))
    high = math.ceil(64 * math.log(4096 / (2 * math.pi)) / (2 * math.log(10000)))
    assert 0 < low < high < 31
    for pair, frequency in enumerate(table.inv_freq):
        plain = 10000.0 ** (-2 * pair / 64)
        share = min(max((pair - low) / (high - low), 0.0), 1.0)
        assert frequency == pytest.approx(plain * (1 - share) + plain / 8 * share)
    assert table.magnitude == pytest.approx(1.5 * (1 + 0.1 * math.log(8)))


def test_yarns_log_multiplier_takes_the_magnitude_back() -> None:
    scaling = RopeScaling(RopeScalingKind.YARN, factor=8.0, original_context_length=64, log_multiplier=1.0)
    assert rope_table(RopeParameters(8, 10000.0, scaling), is_interleaved=False).magnitude == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sections", "is_interleaved", "still"),
    [
        ((2, 3, 3, 0), False, []),
        ((2, 2, 2, 2), False, [6, 7]),
        ((3, 3, 2, 0), True, []),
        # Pairs 0, 3, 6 | 1, 4, 7 | 2, 5 would be needed; the third dimension has but one.
        ((3, 3, 1, 1), True, [5]),
    ],
)
def test_text_does_not_turn_the_pairs_of_the_fourth_dimension(
    sections: tuple[int, ...], is_interleaved: bool, still: list[int]
) -> None:
    rope = RopeParameters(16, 10000.0, sections=sections, has_interleaved_sections=is_interleaved)
    assert np.flatnonzero(rope_table(rope, is_interleaved=False).inv_freq == 0).tolist() == still
