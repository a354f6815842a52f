"""Ops of several residual streams: the definitions against loops written out, the kernels against both."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from engine.kernels import definitions
from engine.model.plan import Activate, Activation, Buffer, KeepLargest, MatchLength, MixStreams, ScaleColumns
from tests.engine.kernels.cpu.support import Floats, run_ops, vector

WIDTHS = (3, 16, 37, 64)  # parts of a vector of 16, and several


def floats(*shape: int) -> Floats:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("inputs", "outputs"), [(4, 4), (1, 4), (3, 2)])
def test_streams_are_mixed_by_each_tokens_weights(width: int, inputs: int, outputs: int) -> None:
    x, weights = floats(5, inputs * width), floats(5, inputs * outputs)
    source, factors = Buffer("x", inputs * width), Buffer("weights", inputs * outputs)
    op = MixStreams(source, factors, Buffer("out", outputs * width), inputs)
    expected = np.zeros((5, outputs * width))
    for token in range(5):
        for output in range(outputs):
            for stream in range(inputs):
                part = x[token, stream * width : (stream + 1) * width].astype(np.float64)
                expected[token, output * width : (output + 1) * width] += (
                    part * weights[token, output * inputs + stream]
                )
    np.testing.assert_allclose(definitions.mix_streams(x, weights, op), expected, atol=1e-6)
    np.testing.assert_allclose(run_ops([op], op.out, {source: x, factors: weights}), expected, atol=1e-6)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("is_in_place", [True, False])
def test_parts_get_the_length_of_another_row_and_zeros_stay_zeros(width: int, is_in_place: bool) -> None:
    x, like = floats(5, 3 * width), floats(5, width)
    x[2, :width] = 0.0
    source, model = Buffer("x", 3 * width), Buffer("like", width)
    op = MatchLength(source, model, source if is_in_place else Buffer("out", 3 * width), 3)
    expected = np.zeros((5, 3 * width))
    for token in range(5):
        for part in range(3):
            values = x[token, part * width : (part + 1) * width].astype(np.float64)
            if length := math.hypot(*values):
                values *= math.hypot(*like[token].astype(np.float64)) / length
            expected[token, part * width : (part + 1) * width] = values
    np.testing.assert_allclose(definitions.match_length(x, like, op), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run_ops([op], op.out, {source: x, model: like}), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", WIDTHS)
def test_each_column_has_its_factor(width: int) -> None:
    x, weight, source = floats(5, width), floats(width), Buffer("x", width)
    op = ScaleColumns(source, vector(weight), source)
    np.testing.assert_array_equal(run_ops([op], source, {source: x}), x * weight)


@pytest.mark.parametrize("width", WIDTHS)
def test_only_what_stands_out_of_a_row_is_kept(width: int) -> None:
    x, source = floats(5, width), Buffer("x", width)
    op = KeepLargest(source, source, 0.7)
    rows = [[float(value) for value in row] for row in x]
    cutoffs = [statistics.mean(row) + 0.7 * statistics.stdev(row) for row in rows]
    expected = [[max(value - cutoff, 0.0) for value in row] for row, cutoff in zip(rows, cutoffs, strict=True)]
    assert np.count_nonzero(expected) not in {0, x.size}
    np.testing.assert_allclose(definitions.keep_largest(x, op), expected, atol=1e-6)
    np.testing.assert_allclose(run_ops([op], source, {source: x}), expected, atol=1e-6)


def test_the_hyperbolic_tangent_keeps_its_sign_and_never_overflows() -> None:
    x = np.array([[-1e4, -3.0, -1e-3, 0.0, 1e-3, 0.5, 3.0, 1e4]], np.float32)
    source = Buffer("x", x.shape[1])
    expected = [[math.tanh(value) for value in x[0]]]
    np.testing.assert_allclose(definitions.activate(x, Activation.TANH), expected, atol=1e-6)
    result = run_ops([Activate(source, source, Activation.TANH)], source, {source: x})
    np.testing.assert_allclose(result, expected, atol=1e-6)
