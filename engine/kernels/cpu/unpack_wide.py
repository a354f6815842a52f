"""Unpacking of the types with blocks of 64 and 128, NVFP4 and Q1_0 (shape: see ``unpack_legacy``).

NVFP4   4 x e4m3 (no sign), 4 x 8 bytes nibbles: low ones are values 0..7 of 16, high ones 8..15
        e4m3 / 2 * MXFP4_VALUES[q], a scale for 16 values; the codes 0 and 0x7F are 0
Q1_0    d, 128 bits                                                  d * (2 * bit - 1)
"""

from __future__ import annotations

from typing import Any

from numba import types

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
    load_u32,
    shuffle,
    spread_bits,
    store_f32,
    store_u8x32,
    with_constant,
)
from engine.kernels.cpu.unpack_legacy import _high_nibbles, _low_nibbles, _mxfp4

# Low and high nibbles of 16 bytes, which are two runs of 16 values.
_join_runs = shuffle(U8X16, [*range(8), *range(16, 24), *range(8, 16), *range(24, 32)], both=True)
_set_bits = spread_bits(U8X32, 2)
_minus_1 = with_constant(U8X32, "sub", 1)


def _emit_half_e4m3(b: Any, code: Any) -> Any:
    """Half of an unsigned e4m3 with a bias of 7, from its bits; an exponent of 0 gives subnormal numbers."""
    wide = b.zext(code, I32)
    exponent, mantissa = b.and_(b.lshr(wide, I32(3)), I32(15)), b.and_(wide, I32(7))
    bits = b.or_(b.shl(b.add(exponent, I32(127 - 7 - 1)), I32(23)), b.shl(mantissa, I32(20)))
    subnormal = b.fmul(b.uitofp(mantissa, F32), F32(2.0**-10))
    value = b.select(b.icmp_unsigned("==", exponent, I32(0)), subnormal, b.bitcast(bits, F32))
    return b.select(b.icmp_unsigned("==", wide, I32(0x7F)), F32(0.0), value)


half_e4m3 = define(types.float32, [types.uint8], _emit_half_e4m3)


@inline
def unpack_nvfp4(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack NVFP4."""
    for block in range(num_blocks):
        here, out = source + 36 * block, values + 64 * block
        for half in range(2):
            q = load_u8x16(here + 4 + 16 * half)
            store_u8x32(out + 32 * half, _join_runs(_mxfp4(_low_nibbles(q)), _mxfp4(_high_nibbles(q))))
        for run in range(4):
            store_f32(scales + stride * (4 * block + run), half_e4m3(load_u8(here + run)))


@inline
def unpack_q1_0(source: int, num_blocks: int, values: int, scales: int, offsets: int, stride: int) -> None:
    """Unpack Q1_0."""
    for block in range(num_blocks):
        here, out = source + 18 * block, values + 128 * block
        scale = load_f16(here)
        for index in range(4):
            store_u8x32(out + 32 * index, _minus_1(_set_bits(load_u32(here + 2 + 4 * index))))
            store_f32(scales + stride * (4 * block + index), scale)
