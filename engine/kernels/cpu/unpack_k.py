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

from engine.kernels.cpu.simd import (
    U8X32,
    inline,
    load_f16,
    load_i8,
    load_u8,
    load_u8x32,
    load_u32,
    store_f32,
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


@inline
def k_scales_and_mins(source: int) -> Any:
    """The 8 6-bit scales and 8 6-bit mins in the 12 bytes at ``source``, each as the bytes of an uint64."""
    first, second, third = (
        np.uint64(load_u32(source)),
        np.uint64(load_u32(source + 4)),
        np.uint64(load_u32(source + 8)),
    )
    six, four, two = np.uint64(0x3F3F3F3F), np.uint64(0x0F0F0F0F), np.uint64(0x30303030)
    high_scales = (third & four) | ((first >> np.uint64(2)) & two)
    high_mins = ((third >> np.uint64(4)) & four) | ((second >> np.uint64(2)) & two)
    shift = np.uint64(32)
    return (first & six) | (high_scales << shift), (second & six) | (high_mins << shift)


@inline
def _store_affine(source: int, packed: int, scales: int, offsets: int, stride: int) -> None:
    scale_bytes, min_bytes = k_scales_and_mins(packed)
    scale, minimum = load_f16(source), load_f16(source + 2)
    for index in range(8):
        shift = np.uint64(8 * index)
        store_f32(scales + stride * index, scale * np.float32((scale_bytes >> shift) & np.uint64(255)))
        store_f32(offsets + stride * index, minimum * np.float32((min_bytes >> shift) & np.uint64(255)))


@inline
def unpack_q4_k(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q4_K."""
    for block in range(num_blocks):
        here, out = source + 144 * block, values + 256 * block
        _store_affine(here, here + 4, scales + 8 * stride * block, offsets + 8 * stride * block, stride)
        for quarter in range(4):
            q = load_u8x32(here + 16 + 32 * quarter)
            store_u8x32(out + 64 * quarter, low_nibbles(q))
            store_u8x32(out + 64 * quarter + 32, high_nibbles(q))


@inline
def unpack_q5_k(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q5_K."""
    for block in range(num_blocks):
        here, out = source + 176 * block, values + 256 * block
        _store_affine(here, here + 4, scales + 8 * stride * block, offsets + 8 * stride * block, stride)
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
        scale = load_f16(here + 208)
        for index in range(16):
            store_f32(scales + stride * (16 * block + index), scale * np.float32(load_i8(here + 192 + index)))


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
        scale, minimum = load_f16(here + 80), load_f16(here + 82)
        for index in range(16):
            both = load_u8(here + index)
            store_f32(scales + stride * (16 * block + index), scale * np.float32(both & 15))
            store_f32(offsets + stride * (16 * block + index), minimum * np.float32(both >> 4))


@inline
def q3_k_scale(packed: int, index: int) -> Any:
    """6-bit scale ``index`` (0..15) of a Q3_K block, minus 32, as float32."""
    low = (load_u8(packed + index % 8) >> (4 * (index // 8))) & 15
    high = (load_u8(packed + 8 + index % 4) >> (2 * (index // 4))) & 3
    return np.float32(np.int64(low | (high << 4)) - 32)


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
        scale = load_f16(here + 108)
        for index in range(16):
            store_f32(scales + stride * (16 * block + index), scale * q3_k_scale(here + 96, index))
