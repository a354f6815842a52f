"""Unpacking of IQ4_XS, the ternary TQ types and the grid types IQ1, IQ2 and IQ3 (shape: see ``unpack_legacy``).

256 values in a block; d is float16, qs index a grid of 8 (IQ3: 4) small integers, signs flip single values.

    IQ4_XS   d, uint16 upper scale bits, 4 bytes of scale nibbles, 128 bytes of nibbles: blocks of 32 as in IQ4_NL
    TQ1_0    48 + 4 bytes of 5 (4) base-3 digits, d               d * (digit - 1)
    TQ2_0    64 bytes of 2 bits, d                                d * (q - 1)
    IQ2_XXS  d, 8 x (4 grid bytes, uint32: 4 x 7 sign bits, 4 bits scale)        d * (0.5 + scale) / 4 * grid
    IQ2_XS   d, 32 x uint16 (9 bits grid, 7 bits sign), 8 bytes scale nibbles    the same, 16 values a scale
    IQ2_S    d, 32 grid bytes, 32 sign bytes, 8 bytes upper grid bits, 8 bytes scale nibbles     the same
    IQ3_XXS  d, 64 grid bytes, 8 x uint32 (4 x 7 sign bits, 4 bits scale)        d * (0.5 + scale) / 2 * grid
    IQ3_S    d, 64 grid bytes, 8 bytes ninth bits, 32 sign bytes, 4 bytes scale nibbles   d * (1 + 2 * scale) * grid
    IQ1_S    d, 32 grid bytes, 8 x uint16 (4 x 3 upper bits, 3 bits scale, delta's sign)
             d * (2 * scale + 1) * (grid + delta), delta = +-1/8: stored as integers 8 * grid +- 1
    IQ1_M    32 grid bytes, 16 bytes (2 x 3 upper bits and delta's sign), 4 x uint16 (4 x 3 bits scale, 4 bits of d)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.simd import (
    F16,
    F32,
    U8X32,
    define,
    inline,
    load_f16,
    load_i8,
    load_u8,
    load_u8x16,
    load_u8x32,
    load_u16,
    load_u32,
    store_f32,
    store_i8,
    store_i32,
    store_i64,
    store_u8x16,
    store_u8x32,
    with_constant,
)
from engine.kernels.cpu.unpack_legacy import _high_nibbles, _iq4_nl, _low_nibbles

GRID_TYPES = {  # with the largest of their integers, of either sign
    TensorType.IQ1_S: 9,
    TensorType.IQ1_M: 9,
    TensorType.IQ2_XXS: 43,
    TensorType.IQ2_XS: 43,
    TensorType.IQ2_S: 43,
    TensorType.IQ3_XXS: 62,
    TensorType.IQ3_S: 15,
}
_two_bits = with_constant(U8X32, "and_", 3)
_minus_1 = with_constant(U8X32, "sub", 1)
_right_2, _right_4, _right_6 = (with_constant(U8X32, "lshr", bits) for bits in (2, 4, 6))
_half_to_float = define(types.float32, [types.uint16], lambda b, bits: b.fpext(b.bitcast(bits, F16), F32))


@inline
def iq4_xs_scale(source: int, index: int) -> Any:
    """6-bit scale of block ``index`` of 32, minus 32, as float32."""
    low = (load_u8(source + 4 + index // 2) >> (4 * (index % 2))) & 15
    high = (load_u16(source + 2) >> (2 * index)) & 3
    return np.float32(np.int64(low | (high << 4)) - 32)


@inline
def unpack_iq4_xs(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack IQ4_XS."""
    for block in range(num_blocks):
        here = source + 136 * block
        for index in range(8):
            q = load_u8x16(here + 8 + 16 * index)
            out = values + 256 * block + 32 * index
            store_u8x16(out, _iq4_nl(_low_nibbles(q)))
            store_u8x16(out + 16, _iq4_nl(_high_nibbles(q)))
            store_f32(scales + stride * (8 * block + index), load_f16(here) * iq4_xs_scale(here, index))


@inline
def unpack_tq2_0(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack TQ2_0."""
    for block in range(num_blocks):
        here = source + 66 * block
        for half in range(2):
            q, out = load_u8x32(here + 32 * half), values + 256 * block + 128 * half
            store_u8x32(out, _minus_1(_two_bits(q)))
            store_u8x32(out + 32, _minus_1(_two_bits(_right_2(q))))
            store_u8x32(out + 64, _minus_1(_two_bits(_right_4(q))))
            store_u8x32(out + 96, _minus_1(_right_6(q)))
        for index in range(8):
            store_f32(scales + stride * (8 * block + index), load_f16(here + 64))


@inline
def _store_digits(source: int, num_bytes: int, num_digits: int, out: int) -> None:
    """Base-3 digit n of each byte, a fraction of 256, is floor(3 * (byte * 3^n mod 256) / 256)."""
    power = np.int64(1)
    for digit in range(num_digits):
        for index in range(num_bytes):
            fraction = (np.int64(load_u8(source + index)) * power) & 255
            store_i8(out + num_bytes * digit + index, np.int8(((fraction * 3) >> 8) - 1))
        power *= 3


@inline
def unpack_tq1_0(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack TQ1_0."""
    for block in range(num_blocks):
        here, out = source + 54 * block, values + 256 * block
        _store_digits(here, 32, 5, out)
        _store_digits(here + 32, 16, 5, out + 160)
        _store_digits(here + 48, 4, 4, out + 240)
        for index in range(8):
            store_f32(scales + stride * (8 * block + index), load_f16(here + 52))


def _grid(name: str, factor: int = 1) -> Any:
    """A grid as (entries,) integers that hold 8 (or 4) int8 values each, first value in the low byte."""
    from gguf import quants  # only a model with such a type pays for it

    quant = getattr(quants, name)
    quant.init_grid()
    values = (quant.grid.reshape(quant.grid_shape) * factor).astype(np.int8)
    return values.view(np.int64 if quant.grid_shape[1] == 8 else np.int32).reshape(-1)


_PARITY_SIGNS = np.array(
    [index | (index.bit_count() % 2) << 7 for index in range(128)], np.uint8
)  # even number set


@inline
def _flip(out: int, signs: Any) -> None:
    """Negate byte i of the 8 at ``out`` where bit i of ``signs`` is set."""
    for index in range(8):
        if (signs >> index) & 1:
            store_i8(out + index, np.int8(-load_i8(out + index)))


def grid_unpacker(tensor_type: TensorType) -> tuple[Callable[[int, int, int, int, int, int], None], int]:
    """The unpacker of a type of ``GRID_TYPES`` and its values per scale. The grid becomes part of its code."""
    make, values_per_scale = _GRID_UNPACKERS[tensor_type]
    return make(), values_per_scale


def _make_iq2_xxs() -> Any:
    grid, parity_signs = _grid("IQ2_XXS"), _PARITY_SIGNS

    @inline
    def unpack(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
        for part in range(8 * num_blocks):
            block = source + 66 * (part // 8)
            here, out = block + 2 + 8 * (part % 8), values + 32 * part
            bits = np.int64(load_u32(here + 4))
            for index in range(4):
                store_i64(out + 8 * index, grid[load_u8(here + index)])
                _flip(out + 8 * index, np.int64(parity_signs[(bits >> (7 * index)) & 127]))
            scale = np.float32(0.5) + np.float32(bits >> 28)
            store_f32(scales + stride * part, load_f16(block) * scale * np.float32(0.25))

    return unpack


def _make_iq2_xs() -> Any:
    grid, parity_signs = _grid("IQ2_XS"), _PARITY_SIGNS

    @inline
    def unpack(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
        for part in range(16 * num_blocks):
            block, index = source + 74 * (part // 16), part % 16
            for eight in range(2):
                bits = np.int64(load_u16(block + 2 + 2 * (2 * index + eight)))
                out = values + 16 * part + 8 * eight
                store_i64(out, grid[bits & 511])
                _flip(out, np.int64(parity_signs[bits >> 9]))
            scale = np.float32((load_u8(block + 66 + index // 2) >> (4 * (index % 2))) & 15) + np.float32(0.5)
            store_f32(scales + stride * part, load_f16(block) * scale * np.float32(0.25))

    return unpack


def _make_iq2_s() -> Any:
    grid = _grid("IQ2_S")

    @inline
    def unpack(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
        for part in range(16 * num_blocks):
            block, index = source + 82 * (part // 16), part % 16
            for eight in range(2):
                entry = 2 * index + eight
                upper = (np.int64(load_u8(block + 66 + entry // 4)) >> (2 * (entry % 4))) & 3
                out = values + 16 * part + 8 * eight
                store_i64(out, grid[np.int64(load_u8(block + 2 + entry)) | (upper << 8)])
                _flip(out, np.int64(load_u8(block + 34 + entry)))
            scale = np.float32((load_u8(block + 74 + index // 2) >> (4 * (index % 2))) & 15) + np.float32(0.5)
            store_f32(scales + stride * part, load_f16(block) * scale * np.float32(0.25))

    return unpack


def _make_iq3_xxs() -> Any:
    grid, parity_signs = _grid("IQ3_XXS"), _PARITY_SIGNS

    @inline
    def unpack(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
        for part in range(8 * num_blocks):
            block, index = source + 98 * (part // 8), part % 8
            bits = np.int64(load_u32(block + 66 + 4 * index))
            for eight in range(4):
                out = values + 32 * part + 8 * eight
                store_i32(out, grid[load_u8(block + 2 + 8 * index + 2 * eight)])
                store_i32(out + 4, grid[load_u8(block + 3 + 8 * index + 2 * eight)])
                _flip(out, np.int64(parity_signs[(bits >> (7 * eight)) & 127]))
            scale = np.float32(0.5) + np.float32(bits >> 28)
            store_f32(scales + stride * part, load_f16(block) * scale * np.float32(0.5))

    return unpack


def _make_iq3_s() -> Any:
    grid = _grid("IQ3_S")

    @inline
    def unpack(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
        for part in range(8 * num_blocks):
            block, index = source + 110 * (part // 8), part % 8
            ninth = np.int64(load_u8(block + 66 + index))
            for four in range(8):
                entry = np.int64(load_u8(block + 2 + 8 * index + four)) | (((ninth >> four) & 1) << 8)
                store_i32(values + 32 * part + 4 * four, grid[entry])
            for eight in range(4):
                _flip(values + 32 * part + 8 * eight, np.int64(load_u8(block + 74 + 4 * index + eight)))
            scale = np.float32(1 + 2 * ((load_u8(block + 106 + index // 2) >> (4 * (index % 2))) & 15))
            store_f32(scales + stride * part, load_f16(block) * scale)

    return unpack


@inline
def _add_delta(out: int, is_negative: Any) -> None:
    delta = np.int8(-1) if is_negative else np.int8(1)
    for index in range(8):
        store_i8(out + index, np.int8(load_i8(out + index) + delta))


def _make_iq1_s() -> Any:
    grid = _grid("IQ1_S", factor=8)

    @inline
    def unpack(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
        for part in range(8 * num_blocks):
            block, index = source + 50 * (part // 8), part % 8
            bits = np.int64(load_u16(block + 34 + 2 * index))
            for eight in range(4):
                out = values + 32 * part + 8 * eight
                entry = np.int64(load_u8(block + 2 + 4 * index + eight)) | (((bits >> (3 * eight)) & 7) << 8)
                store_i64(out, grid[entry])
                _add_delta(out, bits >= 0x8000)
            scale = np.float32(2 * ((bits >> 12) & 7) + 1)
            store_f32(scales + stride * part, load_f16(block) * scale * np.float32(0.125))

    return unpack


def _make_iq1_m() -> Any:
    grid = _grid("IQ1_S", factor=8)

    @inline
    def unpack(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
        for part in range(16 * num_blocks):
            block, index = source + 56 * (part // 16), part % 16
            packed = block + 48
            half = (load_u16(packed) >> 12) | ((load_u16(packed + 2) >> 12) << 4)
            half |= ((load_u16(packed + 4) >> 12) << 8) | ((load_u16(packed + 6) >> 12) << 12)
            for eight in range(2):
                out = values + 16 * part + 8 * eight
                bits = np.int64(load_u8(block + 32 + index)) >> (4 * eight)
                store_i64(out, grid[np.int64(load_u8(block + 2 * index + eight)) | ((bits & 7) << 8)])
                _add_delta(out, (bits & 8) != 0)
            scale = np.float32(2 * ((load_u16(packed + 2 * (index // 4)) >> (3 * (index % 4))) & 7) + 1)
            store_f32(scales + stride * part, _half_to_float(np.uint16(half)) * scale * np.float32(0.125))

    return unpack


_GRID_UNPACKERS = {
    TensorType.IQ2_XXS: (_make_iq2_xxs, 32),
    TensorType.IQ2_XS: (_make_iq2_xs, 16),
    TensorType.IQ2_S: (_make_iq2_s, 16),
    TensorType.IQ3_XXS: (_make_iq3_xxs, 32),
    TensorType.IQ3_S: (_make_iq3_s, 32),
    TensorType.IQ1_S: (_make_iq1_s, 32),
    TensorType.IQ1_M: (_make_iq1_m, 16),
}
