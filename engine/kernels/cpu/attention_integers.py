"""The words of ``attention_pairs``: magnitudes, and numbers rounded to integers of 16 bits and stored in pairs."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types

from engine.kernels.cpu.layouts import TILE_ROWS
from engine.kernels.cpu.simd import (
    F16,
    F16X16,
    F32,
    F32X16,
    I8,
    I16,
    I16X16,
    I32,
    I32X8,
    I32X16,
    call_llvm,
    constant,
    define,
    load_value,
    pointer,
    shuffle_value,
)

_PAIRS: Final = ir.VectorType(I32, 16)


def _emit_larger(b: Any, largest: Any, address: Any) -> Any:
    bits = b.and_(load_value(b, address, I16X16.llvm), constant(I16X16.llvm, 0x7FFF))
    return call_llvm(b, "llvm.umax.v16i16", I16X16.llvm, [largest, bits])


def _emit_magnitudes(b: Any, bits: Any) -> Any:
    return b.fpext(b.bitcast(bits, F16X16.llvm), F32X16.llvm)


def _emit_largest_half(b: Any, bits: Any) -> Any:
    largest = call_llvm(b, "llvm.vector.reduce.umax.v16i16", I16, [bits])
    return b.fpext(b.bitcast(largest, F16), F32)


# Magnitudes are compared by their bits, NaN above infinity: a maximum of floats would lose a NaN.
# larger_halves(largest, address): of each lane and the 16 float16 at the address; I16X16.
larger_halves = define(I16X16, [I16X16, types.int64], _emit_larger)
# magnitudes(largest): as float32.
magnitudes = define(F32X16, [I16X16], _emit_magnitudes)
# largest_half(largest): the largest of the lanes.
largest_half = define(types.float32, [I16X16], _emit_largest_half)
no_halves = define(I16X16, [], lambda _b: ir.Constant(I16X16.llvm, None))


def _emit_inverse(b: Any, largest: Any, most: Any) -> Any:
    """most / largest, and 0 for a largest of 0 or NaN."""
    zero = ir.Constant(largest.type, None)
    return b.select(b.fcmp_ordered(">", largest, zero), b.fdiv(most, largest), zero)


# inverses(largest, most): of each lane.
inverses = define(F32X16, [F32X16, F32X16], _emit_inverse)
inverse_of = define(types.float32, [types.float32, types.float32], _emit_inverse)


def _round(b: Any, x: Any) -> Any:
    """<16 x i32> of <16 x float>, to nearest."""
    halves = [
        call_llvm(b, "llvm.x86.avx.cvt.ps2dq.256", I32X8.llvm, [shuffle_value(b, x, range(first, first + 8))])
        for first in (0, 8)
    ]
    return shuffle_value(b, halves[0], range(16), halves[1])


def _join_pairs(b: Any, first: Any, second: Any) -> Any:
    """<16 x i32> of pairs of int16."""
    return b.or_(b.and_(first, constant(first.type, 0xFFFF)), b.shl(second, constant(first.type, 16)))


def _load_as(kind: str) -> Any:
    element, convert = {"f16": (F16, "fpext"), "f32": (F32, None), "i8": (I8, "sitofp")}[kind]

    def load(b: Any, address: Any) -> Any:
        value = load_value(b, address, ir.VectorType(element, 16))
        return value if convert is None else getattr(b, convert)(value, F32X16.llvm)

    return load


def _store_pairs(kind: str) -> Any:
    """Makes ``f(target, first, second, factor, factor2)``: 16 pairs of the values at two addresses.

    Each is multiplied by its factors and rounded; the second is 0 where its address is 0.
    """
    load = _load_as(kind)

    def emit(b: Any, target: Any, first: Any, second: Any, factor: Any, other: Any) -> None:
        values = [b.fmul(load(b, place), scale) for place, scale in ((first, factor), (second, other))]
        pairs = _join_pairs(b, *(_round(b, value) for value in values))
        b.store(pairs, pointer(b, target, _PAIRS), align=1)

    return define(types.void, [types.int64] * 3 + [F32X16] * 2, emit)


def _emit_store_small_pairs(b: Any, target: Any, first: Any, second: Any) -> None:
    """Of int8 as they are."""
    values = [b.sext(load_value(b, place, ir.VectorType(I8, 16)), _PAIRS) for place in (first, second)]
    b.store(_join_pairs(b, *values), pointer(b, target, _PAIRS), align=1)


def _emit_store_rounded(b: Any, target: Any, x: Any, sums: Any) -> Any:
    rounded = _round(b, x)
    b.store(b.trunc(rounded, I16X16.llvm), pointer(b, target, I16X16.llvm), align=1)
    return b.add(sums, rounded)


def _emit_scatter_rounded(b: Any, target: Any, x: Any, count: Any) -> None:
    """8 pairs of neighbours to ``target``, a row of TILE_ROWS pairs after the other, ``count`` of them."""
    pairs = b.bitcast(b.trunc(_round(b, x), I16X16.llvm), I32X8.llvm)
    for lane in range(8):
        with b.if_then(b.icmp_signed("<", count.type(lane), count)):
            place = b.add(target, target.type(4 * TILE_ROWS * lane))
            b.store(b.extract_element(pairs, I32(lane)), pointer(b, place, I32), align=4)


store_halves = _store_pairs("f16")
store_bytes = _store_pairs("i8")
# store_small_pairs(target, first, second): 16 pairs of int8.
store_small_pairs = define(types.void, [types.int64] * 3, _emit_store_small_pairs)
# store_rounded(target, x, sums): 16 int16, which are added to the sums.
store_rounded = define(I32X16, [types.int64, F32X16, I32X16], _emit_store_rounded)
# scatter_rounded(target, x, count): 8 pairs, each TILE_ROWS pairs after the last.
scatter_rounded = define(types.void, [types.int64, F32X16, types.int64], _emit_scatter_rounded)
load_scales = define(F32X16, [types.int64], lambda b, a: b.fpext(load_value(b, a, F16X16.llvm), F32X16.llvm))
# lane_of(vector, lane): one of its values.
lane_of = define(types.float32, [F32X16, types.int64], lambda b, x, lane: b.extract_element(x, b.trunc(lane, I32)))
