"""How ``matvec_pairs`` reads eight blocks of a row: scales and offsets come in UNIT_ORDER at once.

The units of ``units`` give them in the order of the file; to put floats in another order takes more instructions
than the products of the unit. Here the bytes are put in order before they are widened. For types with blocks of 32
the eight blocks may be parts of several rows: ends of rows that share a unit (see ``pair_tail``).

A *pair* is 32 bytes from the beginning of an even block: they reach the header of the next one, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.dot_tiles import Tile
from engine.kernels.cpu.formats import SIGNED_BIAS, UNIT_ORDER
from engine.kernels.cpu.pair_unit import order_scales
from engine.kernels.cpu.simd import (
    F16,
    F32,
    F32X8,
    F32X16,
    I16,
    I32,
    I32X8,
    I64,
    U8X16,
    U8X32,
    U8X64,
    call_llvm,
    constant,
    define,
    inline,
    keep_order_value,
    load_value,
    shuffle_value,
    splat_f32x8,
    splat_f32x16,
    splat_value,
)
from engine.kernels.cpu.units import Unit, weights_4
from engine.kernels.cpu.units_k import weights_q4_k, weights_q5_k, weights_q6_k
from engine.kernels.cpu.units_legacy import high_nibbles, iq4_nl, low_nibbles

Load = Callable[[int, int, int], Any]

_I16X16 = ir.VectorType(I16, 16)
_WEIGHTS = Tile(U8X64, 4)


def pair_load(unit: Unit, tensor_type: TensorType) -> Load:
    """``f(source, pair, quad) -> (weights, scales, offsets)``: a tile of four U8X64, and floats in UNIT_ORDER.

    For types that ``takes_strides`` block k lies ``k // 2 % 2 * pair + k // 4 * quad`` bytes after ``source``, an
    odd one a block's bytes further; with all others the blocks follow each other.
    """
    if tensor_type in _LEGACY:
        return _legacy_load(*_LEGACY[tensor_type])
    return _K_LOADS.get(tensor_type) or _ordered_load(unit)


def takes_strides(tensor_type: TensorType) -> bool:
    """Whether the eight blocks may be two and two, or four and four, in different places."""
    return tensor_type in _LEGACY


def _ordered_load(unit: Unit) -> Load:
    load, order, half_bytes = unit.load, order_scales(unit), unit.num_bytes

    @inline
    def load_whole(source: int, pair: int, quad: int) -> Any:
        weights, scales, offsets = load(source)
        return weights, order(scales), order(offsets)

    @inline
    def load_halves(source: int, pair: int, quad: int) -> Any:
        weights, scales, offsets = load(source)
        weights_2, scales_2, offsets_2 = load(source + half_bytes)
        return _join_tiles(weights, weights_2), order(scales, scales_2), order(offsets, offsets_2)

    return load_whole if unit.num_blocks == 8 else load_halves


def _emit_join_tiles(b: Any, *tiles: Any) -> Any:
    value = ir.Constant(_WEIGHTS.llvm, ir.Undefined)
    for index in range(4):
        value = b.insert_value(value, b.extract_value(tiles[index // 2], index % 2), index)
    return value


_join_tiles = define(_WEIGHTS, [Tile(U8X64, 2)] * 2, _emit_join_tiles)

# Types with blocks of 32 (layouts: ``unpack_legacy``).

_LEGACY: dict[TensorType, tuple[int, int, int | None, str]] = {
    # bytes of a block, and before its quants; what is subtracted from unsigned ones, None for a minimum; their kind
    TensorType.Q4_0: (18, 2, 8, "q4"),
    TensorType.Q4_1: (20, 4, None, "q4"),
    TensorType.Q5_0: (22, 6, 16, "q5"),
    TensorType.Q5_1: (24, 8, None, "q5"),
    TensorType.Q8_0: (34, 2, SIGNED_BIAS, "q8"),
    TensorType.IQ4_NL: (18, 2, SIGNED_BIAS, "iq4"),
}


def _load_2x2(block_bytes: int, offset: int) -> Any:
    """Makes ``f(source, pair) -> U8X64``: 16 bytes of four blocks, ``offset`` bytes after their beginnings."""

    def emit(b: Any, source: Any, pair: Any) -> Any:
        halves = []
        for start in (source, b.add(source, pair)):
            first, second = (load_value(b, start, U8X16.llvm, offset + odd * block_bytes) for odd in range(2))
            halves.append(shuffle_value(b, first, range(32), second))
        return shuffle_value(b, halves[0], range(64), halves[1])

    return define(U8X64, [types.int64, types.int64], emit)


def _fifth_bits(block_bytes: int, offset: int, half: int) -> Any:
    """Makes ``f(source, pair) -> U8X64``: 16 for each bit that is set in that half of four blocks' bits, else 0."""
    one_each = constant(U8X32.llvm, [1 << bit % 8 if bit % 8 < 7 else -128 for bit in range(32)])
    lanes = [offset + 2 * half + lane // 16 * block_bytes + lane % 16 // 8 for lane in range(32)]

    def emit(b: Any, source: Any, pair: Any) -> Any:
        parts = []
        for start in (source, b.add(source, pair)):
            spread = shuffle_value(b, load_value(b, start, U8X32.llvm), lanes)
            is_set = b.icmp_unsigned("==", b.and_(spread, one_each), one_each)
            parts.append(b.select(is_set, constant(U8X32.llvm, 16), constant(U8X32.llvm, 0)))
        return shuffle_value(b, parts[0], range(64), parts[1])

    return define(U8X64, [types.int64, types.int64], emit)


def _headers(b: Any, block_bytes: int, source: Any, pair: Any, quad: Any) -> Any:
    """<16 x i16>: the first 32 bits of each block, blocks in UNIT_ORDER, from four loads of two headers each."""
    second = block_bytes - 16  # byte of the odd block's header in the upper half
    loads = [load_value(b, start, I32X8.llvm) for start in _pairs(b, source, pair, quad)]
    low, high = (0, 8, 1, 9), tuple(k + second // 8 * 2 for k in (4, 12, 5, 13))
    both = [shuffle_value(b, loads[k], low + high, loads[k + 1]) for k in (0, 2)]
    qwords = [b.bitcast(value, ir.VectorType(I64, 4)) for value in both]
    upper = 2 + second // 4 % 2
    return b.bitcast(shuffle_value(b, qwords[0], (0, 4, upper, upper + 4), qwords[1]), _I16X16)


def _pairs(b: Any, source: Any, pair: Any, quad: Any) -> list[Any]:
    starts = [source, b.add(source, quad)]
    return [place for start in starts for place in (start, b.add(start, pair))]


def _widen_halves(b: Any, halves: Any) -> Any:
    return keep_order_value(b, b.fpext(b.bitcast(halves, ir.VectorType(F16, 8)), F32X8.llvm))


def _scales_of(block_bytes: int) -> Any:
    """Makes ``f(source, pair, quad) -> F32X8``: the first float16 of each block."""
    odd = (block_bytes - 16) // 2 % 2  # in which half of its dword that of an odd block is
    lanes = [*range(0, 8, 2), *range(8 + odd, 16, 2)]

    def emit(b: Any, source: Any, pair: Any, quad: Any) -> Any:
        return _widen_halves(b, shuffle_value(b, _headers(b, block_bytes, source, pair, quad), lanes))

    def emit_one_by_one(b: Any, source: Any, pair: Any, quad: Any) -> Any:
        starts, halves = _pairs(b, source, pair, quad), ir.Constant(ir.VectorType(I16, 8), ir.Undefined)
        for lane, block in enumerate(UNIT_ORDER):
            value = load_value(b, starts[block // 2], I16, block % 2 * block_bytes)
            halves = b.insert_element(halves, value, I32(lane))
        return _widen_halves(b, halves)

    return define(F32X8, [types.int64] * 3, emit if block_bytes <= 28 else emit_one_by_one)


def _scales_and_minimums(block_bytes: int) -> list[Any]:
    """Makes two ``f(source, pair, quad) -> F32X8``: of each block the first float16, and the second negated."""

    def both(b: Any, *places: Any) -> list[Any]:
        ordered = shuffle_value(
            b, _headers(b, block_bytes, *places), [k + part for part in range(2) for k in range(0, 16, 2)]
        )
        return [_widen_halves(b, shuffle_value(b, ordered, range(k, k + 8))) for k in (0, 8)]

    emitters = (lambda b, *places: both(b, *places)[0], lambda b, *places: b.fneg(both(b, *places)[1]))
    return [define(F32X8, [types.int64] * 3, emit) for emit in emitters]


def _legacy_load(block_bytes: int, header: int, zero_point: int | None, kind: str) -> Load:
    nibbles, bits = _load_2x2(block_bytes, header), header - 4
    fifth_low, fifth_high = (_fifth_bits(block_bytes, bits, half) for half in range(2))
    upper_half, zero = _load_2x2(block_bytes, header + 16), np.float32(zero_point or 0)
    if zero_point is None:
        load_scales, load_offsets = _scales_and_minimums(block_bytes)
    else:
        load_scales = _scales_of(block_bytes)

    @inline
    def load_four(source: int, pair: int) -> Any:
        packed = nibbles(source, pair)
        if kind == "q8":
            return packed, upper_half(source, pair)
        low, high = low_nibbles(packed), high_nibbles(packed)
        if kind == "q5":
            return low | fifth_low(source, pair), high | fifth_high(source, pair)
        if kind == "iq4":
            return iq4_nl(low), iq4_nl(high)
        return low, high

    @inline
    def load(source: int, pair: int, quad: int) -> Any:
        low, high = load_four(source, pair)
        low_2, high_2 = load_four(source + quad, pair)
        scales = load_scales(source, pair, quad)
        offsets = load_offsets(source, pair, quad) if zero_point is None else scales * splat_f32x8(zero)
        return weights_4(low, high, low_2, high_2), scales, offsets

    return load


# Types with blocks of 256 (layouts: ``unpack_k``).


def _emit_scales_q4_k(b: Any, source: Any) -> Any:
    """<32 x i8>: the 6-bit scales, then the minimums, of the eight blocks, in either half."""
    header = load_value(b, source, ir.VectorType(I32, 4))
    first = b.lshr(shuffle_value(b, header, (1, 3, 2, 3) * 2), constant(I32X8.llvm, [0, 0, 0, 4] * 2))
    first = b.and_(first, constant(I32X8.llvm, [0x3F3F3F3F, 0x0F0F0F0F] * 4))
    upper = b.lshr(shuffle_value(b, header, (0, 1, 0, 2) * 2), constant(I32X8.llvm, 2))
    upper = b.and_(upper, constant(I32X8.llvm, [0, 0x30303030] * 4))
    return b.bitcast(b.or_(first, upper), U8X32.llvm)


def _bytes_in_order(b: Any, both: Any, first: int, step: int, is_signed: bool) -> Any:
    """Bytes ``first + step * block`` of either half of ``both``, blocks in UNIT_ORDER, as floats."""
    place = 3 if is_signed else 0  # of a dword, from where a shift brings it down with its sign
    lanes = [-128] * 32
    for lane, block in enumerate(UNIT_ORDER):
        lanes[4 * lane + place] = first + step * block
    picked = call_llvm(b, "llvm.x86.avx2.pshuf.b", U8X32.llvm, [both, constant(U8X32.llvm, lanes)])
    dwords = b.bitcast(picked, I32X8.llvm)
    return b.sitofp(b.ashr(dwords, constant(I32X8.llvm, 24)) if is_signed else dwords, F32X8.llvm)


def _factor_q4_k(index: int) -> Any:
    """Makes ``f(source) -> F32X8``: scales (0) or minimums (1) times their float16."""

    def emit(b: Any, source: Any) -> Any:
        halves = b.bitcast(load_value(b, source, ir.VectorType(I16, 4)), ir.VectorType(F16, 4))
        factor = splat_value(b, b.extract_element(b.fpext(halves, ir.VectorType(F32, 4)), I32(index)), 8)
        floats = _bytes_in_order(b, _emit_scales_q4_k(b, source), 8 * index, 1, is_signed=False)
        return keep_order_value(b, b.fmul(floats, factor))

    return define(F32X8, [types.int64], emit)


def _emit_scales_q6_k(b: Any, source: Any) -> Any:
    scales = load_value(b, source, U8X16.llvm, 192)
    both = shuffle_value(b, scales, [*range(16)] * 2)
    half = b.bitcast(load_value(b, source, I16, 208), F16)
    factor = b.fpext(splat_value(b, half, 8), F32X8.llvm)
    parts = [b.fmul(_bytes_in_order(b, both, part, 2, is_signed=True), factor) for part in range(2)]
    return keep_order_value(b, shuffle_value(b, parts[0], range(16), parts[1]))


_q4_k_scales, _q4_k_minimums = _factor_q4_k(0), _factor_q4_k(1)
_q6_k_scales = define(F32X16, [types.int64], _emit_scales_q6_k)


@inline
def _load_q4_k(source: int, pair: int, quad: int) -> Any:
    return weights_q4_k(source), _q4_k_scales(source), _q4_k_minimums(source)


@inline
def _load_q5_k(source: int, pair: int, quad: int) -> Any:
    return weights_q5_k(source), _q4_k_scales(source), _q4_k_minimums(source)


@inline
def _load_q6_k(source: int, pair: int, quad: int) -> Any:
    scales = _q6_k_scales(source)
    return weights_q6_k(source), scales, scales * splat_f32x16(np.float32(32.0))


_K_LOADS: dict[TensorType, Load] = {
    TensorType.Q4_K: _load_q4_k,
    TensorType.Q5_K: _load_q5_k,
    TensorType.Q6_K: _load_q6_k,
}
