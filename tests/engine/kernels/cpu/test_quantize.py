"""Activations in both layouts of each format, read back as ``formats`` describes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.kernels.cpu.formats import (
    HAS_UNITS,
    MATVEC_TOKENS,
    SIGNED_BIAS,
    TOKEN_TILE,
    UNIT_BYTES,
    UNIT_ORDER,
    UNIT_SCALES,
    ActivationFormat,
    padded_width,
)
from engine.kernels.cpu.jit import load_kernels
from tests.engine.kernels.cpu.matmul_oracle import Harness, kernel_source, rounded_activations

WIDTH = 608  # 19 blocks: one short of a group
PADDED = padded_width(WIDTH, ActivationFormat.INT8)
BLOCKS = PADDED // 32


def quantized(x: npt.NDArray[np.float32], activation: ActivationFormat) -> npt.NDArray[np.uint8]:
    source = kernel_source("quantize_kernel", activation)
    return Harness().quantize(load_kernels([source])[source], activation, x)


def rows_with_zeros(num_tokens: int) -> npt.NDArray[np.float32]:
    x = np.random.default_rng(num_tokens).standard_normal((num_tokens, WIDTH)).astype(np.float32)
    x[-1, 32:64] = 0
    return x


def expected(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return np.nan_to_num(rounded_activations(x))


def rows_of(buffer: npt.NDArray[np.uint8], num_tokens: int) -> list[Any]:
    """q (tokens, blocks, 32), scales and sums of blocks (tokens, blocks), sums of halves (tokens, 2 blocks)."""
    rows = buffer.reshape(num_tokens, -1)
    q = rows[:, :PADDED].view(np.int8).reshape(num_tokens, -1, 2, 4, 16).swapaxes(2, 3).reshape(num_tokens, -1, 32)
    floats = rows[:, PADDED:].copy().view(np.float32)
    return [q, *np.split(floats, [BLOCKS, 2 * BLOCKS], axis=1)]


def units_of(buffer: npt.NDArray[np.uint8], num_tokens: int) -> list[Any]:
    units = buffer.reshape(-1, num_tokens, UNIT_BYTES).swapaxes(0, 1)
    lanes = np.argsort(UNIT_ORDER)
    q = units[..., :UNIT_SCALES].view(np.int8)
    if num_tokens == 1:
        q = q.reshape(1, -1, 2, 2, 4, 16).transpose(0, 1, 2, 4, 3, 5)
    else:
        q = q.reshape(num_tokens, -1, 8, 8, 4)[..., lanes, :].swapaxes(2, 3)
    floats = units[..., UNIT_SCALES:].copy().view(np.float32).reshape(num_tokens, -1, 4, 8)[..., lanes]
    halves = floats[:, :, 2:].swapaxes(2, 3)
    q = q.reshape(num_tokens, -1, 32)
    return [q, *(part.reshape(num_tokens, -1) for part in (floats[:, :, 0], floats[:, :, 1], halves))]


@pytest.mark.parametrize("num_tokens", [1, 3, MATVEC_TOKENS])
def test_int8_rows_for_few_tokens(num_tokens: int) -> None:
    x = rows_with_zeros(num_tokens)
    buffer = quantized(x, ActivationFormat.INT8)[: num_tokens * (PADDED + 16 * BLOCKS)]
    q, scale, sum32, sum16 = units_of(buffer, num_tokens) if HAS_UNITS else rows_of(buffer, num_tokens)
    values = q.astype(np.float64) * scale[..., None]
    np.testing.assert_allclose(values.reshape(num_tokens, -1)[:, :WIDTH], expected(x), rtol=1e-6, atol=1e-7)
    assert (values.reshape(num_tokens, -1)[:, WIDTH:] == 0).all()
    np.testing.assert_allclose(sum32, values.sum(-1), atol=1e-4)
    np.testing.assert_allclose(sum16, values.reshape(num_tokens, -1, 16).sum(-1), atol=1e-4)


@pytest.mark.parametrize("num_tokens", [MATVEC_TOKENS + 1, 37])
def test_int8_tiles_for_many_tokens(num_tokens: int) -> None:
    x = rows_with_zeros(num_tokens)
    tiles = -(-num_tokens // TOKEN_TILE)
    buffer = quantized(x, ActivationFormat.INT8)[: tiles * TOKEN_TILE * BLOCKS * 60].reshape(tiles, -1)
    q_bytes, word = PADDED * TOKEN_TILE, 4 * BLOCKS * TOKEN_TILE
    starts = np.cumsum([q_bytes, word, word, 2 * word, word])
    parts = (part.copy() for part in np.split(buffer, starts, axis=1))
    q, scale, sum32, sum16, bias32, bias16 = (part[:, : part.shape[1] * WIDTH // PADDED] for part in parts)

    def by_token(part: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        return part.reshape(tiles, -1, TOKEN_TILE).swapaxes(1, 2).reshape(tiles * TOKEN_TILE, -1)

    integers = q.view(np.int8).reshape(tiles, -1, TOKEN_TILE, 4).swapaxes(1, 2).reshape(tiles * TOKEN_TILE, -1, 32)
    values = integers.astype(np.float64) * by_token(scale.view(np.float32))[..., None]
    flat = values.reshape(len(values), -1)
    np.testing.assert_allclose(flat[:num_tokens], expected(x), rtol=1e-6, atol=1e-7)
    assert (flat[num_tokens:] == 0).all()
    np.testing.assert_allclose(by_token(sum32.view(np.float32)), values.sum(-1), atol=1e-4)
    np.testing.assert_allclose(
        by_token(sum16.view(np.float32)), values.reshape(len(values), -1, 16).sum(-1), atol=1e-4
    )
    wide = integers.astype(np.int64)
    for bias, size in ((bias32, 32), (bias16, 16)):
        blocks = wide.reshape(len(wide), -1, size)
        found = by_token(bias.view(np.int32))
        if HAS_UNITS:  # two int16
            pairs = np.ascontiguousarray(found).view(np.int16).reshape(*found.shape, 2)
            assert (pairs == -blocks.reshape(*found.shape, -1, 2, 2).sum((2, 4))).all()
        else:
            assert (found == -SIGNED_BIAS * blocks.sum(-1)).all()


def test_float32_keeps_the_values() -> None:
    few, many = rows_with_zeros(3), rows_with_zeros(MATVEC_TOKENS + 5)
    rows = quantized(few, ActivationFormat.FLOAT32).view(np.float32)[: 3 * WIDTH]
    assert (rows.reshape(3, WIDTH) == few).all()
    tiles = -(-len(many) // TOKEN_TILE)
    values = quantized(many, ActivationFormat.FLOAT32).view(np.float32)[: tiles * TOKEN_TILE * WIDTH]
    by_token = values.reshape(tiles, WIDTH, TOKEN_TILE).swapaxes(1, 2).reshape(-1, WIDTH)
    assert (by_token[: len(many)] == many).all()
    assert (by_token[len(many) :] == 0).all()
