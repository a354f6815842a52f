"""Units of ``matvec`` for the types with blocks of 32 (see ``units``).

A unit is four blocks. The 16 bytes of nibbles of each make a vector of 64, whose low nibbles are the four first
halves and whose high nibbles are the four second halves: the order of the activations (see ``formats``). So a dot
product has four lanes a block, and one conversion and one fused multiply serve 128 values. Layouts of blocks are
in ``unpack_legacy``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.dot import lookup
from engine.kernels.cpu.formats import SIGNED_BIAS
from engine.kernels.cpu.isa import ISA, InstructionSet
from engine.kernels.cpu.simd import (
    F16,
    F32X4,
    F32X8,
    I1,
    I16,
    I16X8,
    I32,
    I32X4,
    I64,
    U8X16,
    U8X64,
    constant,
    define,
    inline,
    load_u8,
    load_value,
    shuffle,
    shuffle_value,
    splat_f32x4,
    with_constant,
    zeros_f32x4,
)
from engine.kernels.cpu.units import Unit, load_4x16, weights_2
from engine.kernels.cpu.unpack_legacy import IQ4_NL_VALUES, MXFP4_VALUES, half_power
from engine.kernels.cpu.weight_types import weight_type

low_nibbles = with_constant(U8X64, "and_", 15)
high_nibbles = with_constant(U8X64, "lshr", 4)


def _gather_16_bits(b: Any, address: Any, stride: Any) -> Any:
    """4 x 16 bits as an i64, put together in general registers: vector inserts would fill the shuffle units."""
    gathered = I64(0)
    for index in range(4):
        value = b.zext(load_value(b, b.add(address, b.mul(stride, I64(index))), I16), I64)
        gathered = b.or_(gathered, b.shl(value, I64(16 * index)))
    return gathered


def _emit_load_4_f16(b: Any, address: Any, stride: Any) -> Any:
    halves = b.bitcast(_gather_16_bits(b, address, stride), ir.VectorType(F16, 4))
    return b.fpext(halves, F32X4.llvm)


def _emit_load_4_dwords(b: Any, address: Any, stride: Any) -> Any:
    dwords = ir.Constant(I32X4.llvm, ir.Undefined)
    for index in range(4):
        value = load_value(b, b.add(address, b.mul(stride, I64(index))), I32)
        dwords = b.insert_element(dwords, value, I32(index))
    return dwords


def _emit_load_8_f16(b: Any, address: Any, stride: Any) -> Any:
    dwords = _emit_load_4_dwords(b, address, stride)
    halves = shuffle_value(b, b.bitcast(dwords, I16X8.llvm), (0, 2, 4, 6, 1, 3, 5, 7))
    return b.fpext(b.bitcast(halves, ir.VectorType(F16, 8)), F32X8.llvm)


def _fifth_bits(half: int) -> Any:
    """Makes ``f(dwords) -> U8X64``: 16 for each bit that is set in that half of each of four dwords, else 0."""
    sixteen, zero = constant(U8X64.llvm, 16), constant(U8X64.llvm, 0)
    one_each = constant(U8X64.llvm, [1 << bit % 8 if bit % 8 < 7 else -128 for bit in range(64)])

    def emit(b: Any, dwords: Any) -> Any:
        if ISA is InstructionSet.AVX512VNNI:  # which has registers of one bit a lane
            words = shuffle_value(b, b.bitcast(dwords, I16X8.llvm), [half, 2 + half, 4 + half, 6 + half])
            return b.select(b.bitcast(words, ir.VectorType(I1, 64)), sixteen, zero)
        lanes = [4 * (lane // 16) + 2 * half + lane % 16 // 8 for lane in range(64)]
        spread = b.and_(shuffle_value(b, b.bitcast(dwords, U8X16.llvm), lanes), one_each)
        return b.select(b.icmp_unsigned("==", spread, one_each), sixteen, zero)

    return define(U8X64, [I32X4], emit)


def _emit_four_floats(b: Any, *values: Any) -> Any:
    vector = ir.Constant(F32X4.llvm, ir.Undefined)
    for index, value in enumerate(values):
        vector = b.insert_element(vector, value, I32(index))
    return vector


# load_8_f16(address, stride): 4 x 2 neighbours, widened: the first ones, then the second ones.
load_8_f16 = define(F32X8, [types.int64, types.int64], _emit_load_8_f16)
lower_4, upper_4 = shuffle(F32X8, [0, 1, 2, 3]), shuffle(F32X8, [4, 5, 6, 7])
load_4_f16 = define(F32X4, [types.int64, types.int64], _emit_load_4_f16)  # (address, stride), widened
load_4_dwords = define(I32X4, [types.int64, types.int64], _emit_load_4_dwords)  # (address, stride)
fifth_bits_low, fifth_bits_high = _fifth_bits(0), _fifth_bits(1)
four_floats = define(F32X4, [types.float32] * 4, _emit_four_floats)
iq4_nl = lookup(IQ4_NL_VALUES, 64)
_mxfp4 = lookup(MXFP4_VALUES, 64)


@inline
def _halves_q4(source: int, block_bytes: int, header: int) -> Any:
    nibbles = load_4x16(source + header, block_bytes)
    return low_nibbles(nibbles), high_nibbles(nibbles)


@inline
def _halves_q5(source: int, block_bytes: int, header: int) -> Any:
    nibbles = load_4x16(source + header + 4, block_bytes)
    bits = load_4_dwords(source + header, block_bytes)
    return low_nibbles(nibbles) | fifth_bits_low(bits), high_nibbles(nibbles) | fifth_bits_high(bits)


@inline
def _halves_q8(source: int, block_bytes: int, header: int) -> Any:
    return load_4x16(source + header, block_bytes), load_4x16(source + header + 16, block_bytes)


@inline
def _halves_iq4_nl(source: int, block_bytes: int, header: int) -> Any:
    nibbles = load_4x16(source + header, block_bytes)
    return iq4_nl(low_nibbles(nibbles)), iq4_nl(high_nibbles(nibbles))


@inline
def _halves_mxfp4(source: int, block_bytes: int, header: int) -> Any:
    nibbles = load_4x16(source + header, block_bytes)
    return _mxfp4(low_nibbles(nibbles)), _mxfp4(high_nibbles(nibbles))


@inline
def _scales_mxfp4(source: int, block_bytes: int) -> Any:
    return four_floats(
        half_power(load_u8(source)),
        half_power(load_u8(source + block_bytes)),
        half_power(load_u8(source + 2 * block_bytes)),
        half_power(load_u8(source + 3 * block_bytes)),
    )


# (halves, scales, bytes before the quants, are the quants signed, what is subtracted from unsigned quants or None
# where the block has a minimum of its own)
_TYPES: dict[TensorType, tuple[Any, Any, int, bool, int | None]] = {
    TensorType.Q4_0: (_halves_q4, load_4_f16, 2, False, 8),
    TensorType.Q4_1: (_halves_q4, load_4_f16, 4, False, None),
    TensorType.Q5_0: (_halves_q5, load_4_f16, 2, False, 16),
    TensorType.Q5_1: (_halves_q5, load_4_f16, 4, False, None),
    TensorType.Q8_0: (_halves_q8, load_4_f16, 2, True, SIGNED_BIAS),
    TensorType.IQ4_NL: (_halves_iq4_nl, load_4_f16, 2, True, SIGNED_BIAS),
    TensorType.MXFP4: (_halves_mxfp4, _scales_mxfp4, 1, True, SIGNED_BIAS),
}
LEGACY_TYPES = frozenset(_TYPES)


def legacy_unit(tensor_type: TensorType) -> Unit:
    """The unit of a type of ``LEGACY_TYPES``."""
    halves, load_scales, header, is_signed, zero_point = _TYPES[tensor_type]
    block_bytes, has_minimum = tensor_type.block_bytes, zero_point is None
    zero, weight = np.float32(zero_point or 0), weight_type(tensor_type)

    @inline
    def load_unit(source: int) -> Any:
        low, high = halves(source, block_bytes, header)
        if has_minimum:
            both = load_8_f16(source, block_bytes)
            scales, offsets = lower_4(both), zeros_f32x4() - upper_4(both)
        else:
            scales = load_scales(source, block_bytes)
            offsets = scales * splat_f32x4(zero)
        return weights_2(low, high), scales, offsets

    largest = max(-weight.lowest, weight.highest) if is_signed else weight.highest - weight.lowest
    return Unit(load_unit, 4, 4 * block_bytes, largest, is_signed)
