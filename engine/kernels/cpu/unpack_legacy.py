"""Unpacking of the types with blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4.

Every unpacker of this package has one shape: ``unpack(source, num_blocks, values, scales, offsets, stride)`` reads
``num_blocks`` blocks at ``source`` and writes their integers as bytes in order to ``values``, and for every 32 (or
16) of them a float32 scale and, for affine types, an offset, each ``stride`` bytes after the last:

    weight = scale * integer - offset

Layouts (d, m float16; nibbles of 16 bytes: low ones are values 0..15, high ones 16..31):
    Q4_0    d, 16 bytes nibbles                  d * (q - 8)
    Q4_1    d, m, 16 bytes nibbles               d * q + m
    Q5_0    d, 32 bits, 16 bytes nibbles         d * (q + 16 * bit - 16)
    Q5_1    d, m, 32 bits, 16 bytes nibbles      d * (q + 16 * bit) + m
    Q8_0    d, 32 int8                           d * q
    IQ4_NL  d, 16 bytes nibbles                  d * IQ4_NL_VALUES[q]
    MXFP4   e (uint8), 16 bytes nibbles          2^(e - 128) * MXFP4_VALUES[q]
"""

from __future__ import annotations

from typing import Any

from numba import types

from engine.kernels.cpu.dot import lookup
from engine.kernels.cpu.simd import (
    F32,
    I32,
    U8X16,
    U8X32,
    define,
    inline,
    load_f16,
    load_u8,
    load_u8x16,
    load_u8x32,
    load_u32,
    shuffle,
    spread_bits,
    store_f32,
    store_u8x16,
    store_u8x32,
    with_constant,
)

IQ4_NL_VALUES = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
MXFP4_VALUES = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]  # twice E2M1

_join = shuffle(U8X16, range(32), both=True)
_low_nibbles = with_constant(U8X16, "and_", 15)
_high_nibbles = with_constant(U8X16, "lshr", 4)
_minus_8 = with_constant(U8X16, "sub", 8)
_minus_16 = with_constant(U8X32, "sub", 16)
_fifth_bits = spread_bits(U8X32, 16)
_iq4_nl = lookup(IQ4_NL_VALUES, 16)
_mxfp4 = lookup(MXFP4_VALUES, 16)


def _emit_half_power(b: Any, exponent: Any) -> Any:
    """2^(e - 128) from its bits; e of 0 and 1 give subnormal numbers."""
    wide = b.zext(exponent, I32)
    normal = b.shl(b.sub(wide, I32(1)), I32(23))
    subnormal = b.shl(I32(0x00200000), wide)
    return b.bitcast(b.select(b.icmp_unsigned("<", wide, I32(2)), subnormal, normal), F32)


half_power = define(types.float32, [types.uint8], _emit_half_power)


@inline
def unpack_q4_0(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q4_0."""
    for block in range(num_blocks):
        here = source + 18 * block
        q = load_u8x16(here + 2)
        store_u8x16(values + 32 * block, _minus_8(_low_nibbles(q)))
        store_u8x16(values + 32 * block + 16, _minus_8(_high_nibbles(q)))
        store_f32(scales + stride * block, load_f16(here))


@inline
def unpack_q4_1(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q4_1."""
    for block in range(num_blocks):
        here = source + 20 * block
        q = load_u8x16(here + 4)
        store_u8x16(values + 32 * block, _low_nibbles(q))
        store_u8x16(values + 32 * block + 16, _high_nibbles(q))
        store_f32(scales + stride * block, load_f16(here))
        store_f32(offsets + stride * block, -load_f16(here + 2))


@inline
def unpack_q5_0(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q5_0."""
    for block in range(num_blocks):
        here = source + 22 * block
        nibbles = load_u8x16(here + 6)
        q = _join(_low_nibbles(nibbles), _high_nibbles(nibbles)) | _fifth_bits(load_u32(here + 2))
        store_u8x32(values + 32 * block, _minus_16(q))
        store_f32(scales + stride * block, load_f16(here))


@inline
def unpack_q5_1(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q5_1."""
    for block in range(num_blocks):
        here = source + 24 * block
        nibbles = load_u8x16(here + 8)
        q = _join(_low_nibbles(nibbles), _high_nibbles(nibbles)) | _fifth_bits(load_u32(here + 4))
        store_u8x32(values + 32 * block, q)
        store_f32(scales + stride * block, load_f16(here))
        store_f32(offsets + stride * block, -load_f16(here + 2))


@inline
def unpack_q8_0(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q8_0."""
    for block in range(num_blocks):
        here = source + 34 * block
        store_u8x32(values + 32 * block, load_u8x32(here + 2))
        store_f32(scales + stride * block, load_f16(here))


@inline
def unpack_iq4_nl(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack IQ4_NL."""
    for block in range(num_blocks):
        here = source + 18 * block
        q = load_u8x16(here + 2)
        store_u8x16(values + 32 * block, _iq4_nl(_low_nibbles(q)))
        store_u8x16(values + 32 * block + 16, _iq4_nl(_high_nibbles(q)))
        store_f32(scales + stride * block, load_f16(here))


@inline
def unpack_mxfp4(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack MXFP4."""
    for block in range(num_blocks):
        here = source + 17 * block
        q = load_u8x16(here + 1)
        store_u8x16(values + 32 * block, _mxfp4(_low_nibbles(q)))
        store_u8x16(values + 32 * block + 16, _mxfp4(_high_nibbles(q)))
        store_f32(scales + stride * block, half_power(load_u8(here)))
