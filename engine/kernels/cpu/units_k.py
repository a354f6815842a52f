"""Units of ``matvec`` for the K types and IQ4_XS (see ``units``; layouts: ``unpack_k``, ``unpack_iq``).

A unit is a block of 256 values, two groups of four blocks of 32. In the order of the activations (see ``formats``)
each vector of 64 holds 16 values of each of the four, so 16-byte *lanes* of the file are picked into place and the
field that belongs to a lane is shifted down there: a nibble type needs a pick, a shift and a mask for 64 values.
Quants stay unsigned; what the format subtracts goes into the sum that is taken off at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.dot import join_values, lookup
from engine.kernels.cpu.formats import SIGNED_BIAS
from engine.kernels.cpu.isa import ISA, InstructionSet
from engine.kernels.cpu.simd import (
    F32X8,
    I64,
    U8X16,
    U8X64,
    call_llvm,
    constant,
    define,
    inline,
    load_f16,
    load_u8x64,
    load_u16,
    load_u32,
    load_value,
    shuffle_value,
    splat_f32x8,
    splat_f32x16,
)
from engine.kernels.cpu.units import Unit, weights_4
from engine.kernels.cpu.units_legacy import high_nibbles, low_nibbles
from engine.kernels.cpu.unpack_k import scales_q2_k, scales_q3_k, scales_q4_k, scales_q6_k
from engine.kernels.cpu.unpack_legacy import IQ4_NL_VALUES

_QWORDS = ir.VectorType(I64, 8)


def pick_lanes(lanes: Sequence[int]) -> Any:
    """Makes ``f(address) -> U8X64`` of the chosen 16-byte pieces there.

    Each is loaded by itself where a load can fill both halves of a register without a shuffle.
    """

    def emit(b: Any, address: Any) -> Any:
        if ISA is InstructionSet.AVX512VNNI:
            bytes_of = [16 * lane + index for lane in lanes for index in range(16)]
            return shuffle_value(b, load_value(b, address, U8X64.llvm), bytes_of)
        return join_values(b, [load_value(b, address, U8X16.llvm, 16 * lane) for lane in lanes])

    return define(U8X64, [types.int64], emit)


def rotate_lanes(bits: Sequence[int], mask: int) -> Any:
    """Makes ``f(U8X64)``: each 16-byte lane rotated left by its bits (right if negative), then masked bytewise.

    The rotation is of 64-bit words; a field that stays within its byte comes out right. Without an instruction
    for it, words are shifted: what comes in from beyond is masked.
    """

    amounts = [bit for bit in bits for _ in range(2)]

    def shift(b: Any, words: Any, by: Sequence[int]) -> Any:
        assert min(by) >= 0 or max(by) <= 0
        return getattr(b, "shl" if max(by) > 0 else "lshr")(words, constant(words.type, [abs(bit) for bit in by]))

    def emit(b: Any, value: Any) -> Any:
        words = b.bitcast(value, _QWORDS)
        if ISA is InstructionSet.AVX512VNNI:
            counts = constant(_QWORDS, [bit % 64 for bit in amounts])
            moved = call_llvm(b, "llvm.fshl.v8i64", _QWORDS, [words, words, counts])
        else:
            halves = [shift(b, shuffle_value(b, words, range(k, k + 4)), amounts[k : k + 4]) for k in (0, 4)]
            moved = join_values(b, halves)
        return b.and_(b.bitcast(moved, U8X64.llvm), constant(U8X64.llvm, mask))

    return define(U8X64, [U8X64], emit)


def _emit_spread_16(b: Any, address: Any) -> Any:
    return shuffle_value(b, load_value(b, address, U8X16.llvm), list(range(16)) * 4)


spread_16 = define(U8X64, [types.int64], _emit_spread_16)  # the 16 bytes at an address, in all four lanes

_pick_0022, _pick_1133 = pick_lanes((0, 0, 2, 2)), pick_lanes((1, 1, 3, 3))
_pick_0202, _pick_1313 = pick_lanes((0, 2, 0, 2)), pick_lanes((1, 3, 1, 3))
_nibbles_0404 = rotate_lanes((0, -4, 0, -4), 15)
_nibbles_0044 = rotate_lanes((0, 0, -4, -4), 15)
_fifth_bits_0, _fifth_bits_1 = rotate_lanes((4, 3, 2, 1), 16), rotate_lanes((0, -1, -2, -3), 16)
_third_bits_0, _third_bits_1 = rotate_lanes((2, 1, 0, -1), 4), rotate_lanes((-2, -3, -4, -5), 4)
_upper_two_bits = rotate_lanes((4, 2, 0, -2), 48)
_two_bits = rotate_lanes((0, -2, -4, -6), 3)
_iq4_nl = lookup(IQ4_NL_VALUES, 64)


@inline
def _picked_nibbles(source: int) -> Any:
    return _nibbles_0404(_pick_0022(source)), _nibbles_0404(_pick_1133(source))


def _make_weights_q4_k(has_fifth_bits: bool) -> Any:
    nibbles_at = 48 if has_fifth_bits else 16

    @inline
    def load_weights(source: int) -> Any:
        low, high = _picked_nibbles(source + nibbles_at)
        low_2, high_2 = _picked_nibbles(source + nibbles_at + 64)
        if has_fifth_bits:
            fifth_low, fifth_high = spread_16(source + 16), spread_16(source + 32)
            low, high = low | _fifth_bits_0(fifth_low), high | _fifth_bits_0(fifth_high)
            low_2, high_2 = low_2 | _fifth_bits_1(fifth_low), high_2 | _fifth_bits_1(fifth_high)
        return weights_4(low, high, low_2, high_2)

    return load_weights


# Weights of a block of 256 alone: a tile of four U8X64.
weights_q4_k, weights_q5_k = _make_weights_q4_k(has_fifth_bits=False), _make_weights_q4_k(has_fifth_bits=True)


@inline
def _load_q4_k(source: int) -> Any:
    scales, offsets = scales_q4_k(source)
    return weights_q4_k(source), scales, offsets


@inline
def _load_q5_k(source: int) -> Any:
    scales, offsets = scales_q4_k(source)
    return weights_q5_k(source), scales, offsets


@inline
def _halves_q6_k(nibbles: int, upper: int) -> Any:
    low = _nibbles_0044(_pick_0202(nibbles)) | _upper_two_bits(spread_16(upper))
    return low, _nibbles_0044(_pick_1313(nibbles)) | _upper_two_bits(spread_16(upper + 16))


@inline
def weights_q6_k(source: int) -> Any:
    """Weights of a block of 256 alone: a tile of four U8X64."""
    low, high = _halves_q6_k(source, source + 128)
    low_2, high_2 = _halves_q6_k(source + 64, source + 160)
    return weights_4(low, high, low_2, high_2)


@inline
def _load_q6_k(source: int) -> Any:
    scales = scales_q6_k(source)
    return weights_q6_k(source), scales, scales * splat_f32x16(np.float32(32.0))


@inline
def _load_q2_k(source: int) -> Any:
    scales, offsets = scales_q2_k(source)
    low, high = _two_bits(spread_16(source + 16)), _two_bits(spread_16(source + 32))
    low_2, high_2 = _two_bits(spread_16(source + 48)), _two_bits(spread_16(source + 64))
    return weights_4(low, high, low_2, high_2), scales, offsets


@inline
def _load_q3_k(source: int) -> Any:
    scales = scales_q3_k(source)
    third_low, third_high = spread_16(source), spread_16(source + 16)
    low = _two_bits(spread_16(source + 32)) | _third_bits_0(third_low)
    high = _two_bits(spread_16(source + 48)) | _third_bits_0(third_high)
    low_2 = _two_bits(spread_16(source + 64)) | _third_bits_1(third_low)
    high_2 = _two_bits(spread_16(source + 80)) | _third_bits_1(third_high)
    return weights_4(low, high, low_2, high_2), scales, scales * splat_f32x16(np.float32(4.0))


def _emit_iq4_xs_scales(b: Any, nibbles: Any, upper: Any) -> Any:
    """8 6-bit scales, minus 32, as floats: low 4 bits from 8 nibbles (uint32), upper 2 from an uint16."""
    words = ir.VectorType(ir.IntType(32), 8)
    spread = [b.shuffle_vector(v, v, constant(words, 0)) for v in (_one(b, nibbles, words), _one(b, upper, words))]
    low = b.and_(b.lshr(spread[0], constant(words, [4 * index for index in range(8)])), constant(words, 15))
    high = b.and_(b.lshr(spread[1], constant(words, [2 * index for index in range(8)])), constant(words, 3))
    scales = b.sub(b.or_(low, b.shl(high, constant(words, 4))), constant(words, 32))
    return b.sitofp(scales, F32X8.llvm)


def _one(b: Any, scalar: Any, vector: Any) -> Any:
    return b.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.IntType(32)(0))


_iq4_xs_scales = define(F32X8, [types.uint32, types.uint32], _emit_iq4_xs_scales)
_BIAS = np.float32(SIGNED_BIAS)


@inline
def _load_iq4_xs(source: int) -> Any:
    upper = np.uint32(load_u16(source + 2))
    scales = _iq4_xs_scales(load_u32(source + 4), upper) * splat_f32x8(load_f16(source))
    packed, packed_2 = load_u8x64(source + 8), load_u8x64(source + 72)
    low, high = _iq4_nl(low_nibbles(packed)), _iq4_nl(high_nibbles(packed))
    low_2, high_2 = _iq4_nl(low_nibbles(packed_2)), _iq4_nl(high_nibbles(packed_2))
    return weights_4(low, high, low_2, high_2), scales, scales * splat_f32x8(_BIAS)


K_UNITS: dict[TensorType, Unit] = {
    TensorType.Q2_K: Unit(_load_q2_k, 8, 84, 3, values_per_scale=16),
    TensorType.Q3_K: Unit(_load_q3_k, 8, 110, 7, values_per_scale=16),
    TensorType.Q4_K: Unit(_load_q4_k, 8, 144, 15),
    TensorType.Q5_K: Unit(_load_q5_k, 8, 176, 31),
    TensorType.Q6_K: Unit(_load_q6_k, 8, 210, 63, values_per_scale=16),
    TensorType.IQ4_XS: Unit(_load_iq4_xs, 8, 136, 127, is_signed=True),
}
