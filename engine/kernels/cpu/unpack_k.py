"""Unpacking of the K types, 256 values in a block (the shape of an unpacker is told in ``unpack_legacy``).

Layouts (d, dmin float16; value i of the block):
    Q2_K  16 bytes scale | min << 4, 64 bytes of 2 bits, d, dmin   d * scale * q - dmin * min, 16 values each
    Q3_K  32 bytes third bits, 64 bytes of 2 bits, 12 bytes of 6-bit scales, d   d * (scale - 32) * (q - 4), 16 each
    Q4_K  d, dmin, 12 bytes of 6-bit scales and mins, 128 bytes of nibbles          as Q2_K, 32 values each
    Q5_K  d, dmin, 12 bytes, 32 bytes fifth bits, 128 bytes of nibbles              as Q4_K
    Q6_K  128 bytes of nibbles, 64 bytes of upper 2 bits, 16 int8 scales, d         d * scale * (q - 32), 16 each
Two-bit fields: byte l of 32 holds values l, l + 32, l + 64, l + 96 of a half of the block. Nibbles of Q4_K and
Q5_K: byte l of 32 holds values l and l + 32 of a quarter; of Q6_K: byte l of 64 holds l and l + 64 of a half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from engine.kernels.cpu.simd import (
    F32,
    F32X8,
    F32X16,
    I8,
    I32,
    U8X16,
    U8X32,
    Vector,
    define,
    inline,
    load_f16,
    load_u8x16,
    load_u8x32,
    load_u32,
    load_u64,
    pointer,
    shuffle,
    splat_f32x8,
    splat_f32x16,
    store_u8x32,
    with_constant,
)

low_nibbles = with_constant(U8X32, "and_", 15)
high_nibbles = with_constant(U8X32, "lshr", 4)
_two_bits = with_constant(U8X32, "and_", 3)
_bit_2 = with_constant(U8X32, "and_", 4)
_bit_4 = with_constant(U8X32, "and_", 16)
_bits_4_5 = with_constant(U8X32, "and_", 48)
_minus_4 = with_constant(U8X32, "sub", 4)
_minus_32 = with_constant(U8X32, "sub", 32)
_right = [with_constant(U8X32, "lshr", bits) for bits in range(8)]
_left = [with_constant(U8X32, "shl", bits) for bits in range(8)]
_right_1, _right_2, _right_3, _right_4, _right_6 = (_right[bits] for bits in (1, 2, 3, 4, 6))
_right_5 = _right[5]
_left_1, _left_2, _left_3, _left_4 = (_left[bits] for bits in (1, 2, 3, 4))
_low_nibbles_16, _high_nibbles_16 = with_constant(U8X16, "and_", 15), with_constant(U8X16, "lshr", 4)


def _bytes_to_floats(vector: Vector, source: Any, is_signed: bool = False) -> Any:
    small, wide = ir.VectorType(I8, vector.lanes), ir.VectorType(I32, vector.lanes)

    def emit(b: Any, value: Any) -> Any:
        integers = getattr(b, "sext" if is_signed else "zext")(b.bitcast(value, small), wide)
        return b.sitofp(integers, vector.llvm)

    return define(vector, [source], emit)


def _store_lanes(vector: Vector) -> Any:
    """Makes ``f(address, stride, vector)``: lane i goes to ``address + stride * i``."""

    def emit(b: Any, address: Any, stride: Any, value: Any) -> None:
        for lane in range(vector.lanes):
            target = b.add(address, b.mul(stride, stride.type(lane)))
            b.store(b.extract_element(value, I32(lane)), pointer(b, target, F32), align=4)

    return define(types.void, [types.int64, types.int64, vector], emit)


_floats_8 = _bytes_to_floats(F32X8, types.uint64)
_floats_16 = _bytes_to_floats(F32X16, U8X16)
_signed_floats_16 = _bytes_to_floats(F32X16, U8X16, is_signed=True)
_join_8 = shuffle(F32X8, range(16), both=True)
_store_8, _store_16 = _store_lanes(F32X8), _store_lanes(F32X16)


@inline
def scales_q4_k(source: int) -> Any:
    """The 8 scales and the 8 mins of a Q4_K or Q5_K block (F32X8)."""
    first, second, third = (
        np.uint64(load_u32(source + 4)),
        np.uint64(load_u32(source + 8)),
        np.uint64(load_u32(source + 12)),
    )
    six, four, two = np.uint64(0x3F3F3F3F), np.uint64(0x0F0F0F0F), np.uint64(0x30303030)
    high_scales = (third & four) | ((first >> np.uint64(2)) & two)
    high_mins = ((third >> np.uint64(4)) & four) | ((second >> np.uint64(2)) & two)
    shift = np.uint64(32)
    scales = _floats_8((first & six) | (high_scales << shift))
    mins = _floats_8((second & six) | (high_mins << shift))
    return scales * splat_f32x8(load_f16(source)), mins * splat_f32x8(load_f16(source + 2))


@inline
def scales_q6_k(source: int) -> Any:
    """The 16 scales of a Q6_K block (F32X16)."""
    return _signed_floats_16(load_u8x16(source + 192)) * splat_f32x16(load_f16(source + 208))


@inline
def scales_q2_k(source: int) -> Any:
    """The 16 scales and the 16 mins of a Q2_K block (F32X16)."""
    both = load_u8x16(source)
    scales = _floats_16(_low_nibbles_16(both)) * splat_f32x16(load_f16(source + 80))
    return scales, _floats_16(_high_nibbles_16(both)) * splat_f32x16(load_f16(source + 82))


@inline
def scales_q3_k(source: int) -> Any:
    """The 16 scales of a Q3_K block (F32X16)."""
    nibbles, upper = load_u64(source + 96), np.uint64(load_u32(source + 104))
    four, two = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x30303030)
    first = ((upper << np.uint64(4)) & two) | (((upper << np.uint64(2)) & two) << np.uint64(32))
    second = (upper & two) | (((upper >> np.uint64(2)) & two) << np.uint64(32))
    low = _floats_8((nibbles & four) | first)
    high = _floats_8(((nibbles >> np.uint64(4)) & four) | second)
    return (_join_8(low, high) - splat_f32x16(np.float32(32.0))) * splat_f32x16(load_f16(source + 108))


@inline
def unpack_q4_k(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q4_K."""
    for block in range(num_blocks):
        here, out = source + 144 * block, values + 256 * block
        block_scales, mins = scales_q4_k(here)
        _store_8(scales + 8 * stride * block, stride, block_scales)
        _store_8(offsets + 8 * stride * block, stride, mins)
        for quarter in range(4):
            q = load_u8x32(here + 16 + 32 * quarter)
            store_u8x32(out + 64 * quarter, low_nibbles(q))
            store_u8x32(out + 64 * quarter + 32, high_nibbles(q))


@inline
def unpack_q5_k(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q5_K."""
    for block in range(num_blocks):
        here, out = source + 176 * block, values + 256 * block
        block_scales, mins = scales_q4_k(here)
        _store_8(scales + 8 * stride * block, stride, block_scales)
        _store_8(offsets + 8 * stride * block, stride, mins)
        fifth = load_u8x32(here + 16)
        q = load_u8x32(here + 48)
        store_u8x32(out, low_nibbles(q) | _bit_4(_left_4(fifth)))
        store_u8x32(out + 32, high_nibbles(q) | _bit_4(_left_3(fifth)))
        q = load_u8x32(here + 80)
        store_u8x32(out + 64, low_nibbles(q) | _bit_4(_left_2(fifth)))
        store_u8x32(out + 96, high_nibbles(q) | _bit_4(_left_1(fifth)))
        q = load_u8x32(here + 112)
        store_u8x32(out + 128, low_nibbles(q) | _bit_4(fifth))
        store_u8x32(out + 160, high_nibbles(q) | _bit_4(_right_1(fifth)))
        q = load_u8x32(here + 144)
        store_u8x32(out + 192, low_nibbles(q) | _bit_4(_right_2(fifth)))
        store_u8x32(out + 224, high_nibbles(q) | _bit_4(_right_3(fifth)))


@inline
def unpack_q6_k(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q6_K."""
    for block in range(num_blocks):
        here = source + 210 * block
        for half in range(2):
            out, nibbles = values + 256 * block + 128 * half, here + 64 * half
            upper = load_u8x32(here + 128 + 32 * half)
            first, second = load_u8x32(nibbles), load_u8x32(nibbles + 32)
            store_u8x32(out, _minus_32(low_nibbles(first) | _bits_4_5(_left_4(upper))))
            store_u8x32(out + 32, _minus_32(low_nibbles(second) | _bits_4_5(_left_2(upper))))
            store_u8x32(out + 64, _minus_32(high_nibbles(first) | _bits_4_5(upper)))
            store_u8x32(out + 96, _minus_32(high_nibbles(second) | _bits_4_5(_right_2(upper))))
        _store_16(scales + 16 * stride * block, stride, scales_q6_k(here))


@inline
def unpack_q2_k(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q2_K."""
    for block in range(num_blocks):
        here = source + 84 * block
        for half in range(2):
            out, q = values + 256 * block + 128 * half, load_u8x32(here + 16 + 32 * half)
            store_u8x32(out, _two_bits(q))
            store_u8x32(out + 32, _two_bits(_right_2(q)))
            store_u8x32(out + 64, _two_bits(_right_4(q)))
            store_u8x32(out + 96, _right_6(q))
        block_scales, mins = scales_q2_k(here)
        _store_16(scales + 16 * stride * block, stride, block_scales)
        _store_16(offsets + 16 * stride * block, stride, mins)


@inline
def unpack_q3_k(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q3_K."""
    for block in range(num_blocks):
        here, out = source + 110 * block, values + 256 * block
        third = load_u8x32(here)
        q = load_u8x32(here + 32)
        store_u8x32(out, _minus_4(_two_bits(q) | _bit_2(_left_2(third))))
        store_u8x32(out + 32, _minus_4(_two_bits(_right_2(q)) | _bit_2(_left_1(third))))
        store_u8x32(out + 64, _minus_4(_two_bits(_right_4(q)) | _bit_2(third)))
        store_u8x32(out + 96, _minus_4(_right_6(q) | _bit_2(_right_1(third))))
        q = load_u8x32(here + 64)
        store_u8x32(out + 128, _minus_4(_two_bits(q) | _bit_2(_right_2(third))))
        store_u8x32(out + 160, _minus_4(_two_bits(_right_2(q)) | _bit_2(_right_3(third))))
        store_u8x32(out + 192, _minus_4(_two_bits(_right_4(q)) | _bit_2(_right_4(third))))
        store_u8x32(out + 224, _minus_4(_right_6(q) | _bit_2(_right_5(third))))
        _store_16(scales + 16 * stride * block, stride, scales_q3_k(here))
