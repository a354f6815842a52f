"""The dot product of ``matvec_pairs`` for several tokens: eight blocks of a row, for AVX2.

``pair_one`` is for one token, ``pair_tile`` for many.

Products of bytes come summed in pairs of 16 bits, and to widen each pair is as much work as the product. So the
unit is transposed first: each vector holds four neighbours of each of the eight blocks, those of a block add up in
16 bits, up to eight products, and one widening, one conversion and one multiplication serve the whole unit. It
costs 16 shuffles, once for all tokens, and 20 instead of 30 instructions for each.

    unit of a row: vector k holds values 4 k to 4 k + 3 of the blocks in UNIT_ORDER
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir
from numba import types

from engine.kernels.cpu.dot_tiles import Tile, transpose_4
from engine.kernels.cpu.formats import UNIT_ORDER, UNIT_SCALES, UNIT_SUMS16, UNIT_SUMS32
from engine.kernels.cpu.simd import (
    F32X8,
    I16,
    I32,
    I32X8,
    U8X32,
    U8X64,
    Vector,
    call_llvm,
    constant,
    define,
    keep_order_value,
    load_value,
    shuffle_value,
)
from engine.kernels.cpu.units import Unit

_I16X16: Final = ir.VectorType(I16, 16)
_LARGEST_ACTIVATION: Final = 127
VECTORS: Final = Tile(U8X32, 8)  # a transposed unit


def _emit_transpose(b: Any, weights: Any) -> Any:
    vectors = [b.extract_value(weights, index) for index in range(4)]
    value = ir.Constant(VECTORS.llvm, ir.Undefined)
    for half in range(2):
        dwords = [b.bitcast(vector, ir.VectorType(I32, 16)) for vector in vectors[half::2]]
        rows = [shuffle_value(b, pair, range(k, k + 8)) for pair in dwords for k in (0, 8)]
        for index, column in enumerate(transpose_4(b, rows)):
            value = b.insert_value(value, b.bitcast(column, U8X32.llvm), 4 * half + index)
    return value


# transpose_unit(weights): eight blocks as four U8X64, see ``units``, to VECTORS.
transpose_unit = define(VECTORS, [Tile(U8X64, 4)], _emit_transpose)


def order_scales(unit: Unit) -> Any:
    """Makes ``f(scales, ...) -> scales`` of a unit of eight blocks as ``add_unit`` takes them.

    They are given in order, by two vectors for units of four blocks, and returned in UNIT_ORDER: of blocks, or of
    all first halves and then all second halves.
    """
    parts = 32 // unit.values_per_scale
    lanes = [parts * block + part for part in range(parts) for block in UNIT_ORDER]
    count = 8 // unit.num_blocks
    result = Vector("f32", 8 * parts)

    def emit(b: Any, *given: Any) -> Any:
        return keep_order_value(b, shuffle_value(b, given[0], lanes, *given[1:]))

    return define(result, [unit.scales] * count, emit)


def add_unit(unit: Unit) -> Any:
    """Makes ``f(total, vectors, scales, offsets, activation) -> total`` (F32X8): a lane has the sum of one block.

    ``activation`` is the address of a token's unit; ``scales`` and ``offsets`` are in UNIT_ORDER. Adds scales *
    (scale * dot) - offsets * sum of the activations. Nothing may be reordered: one token and several give the same.
    """
    parts = 32 // unit.values_per_scale
    run = next(count for count in (8, 4, 2, 1) if count <= min(longest_run(unit), 8 // parts))

    def emit(b: Any, total: Any, vectors: Any, scales: Any, offsets: Any, activation: Any) -> Any:
        dots = []
        for part in range(parts):
            sums = [
                _run_dots(b, vectors, activation, range(first, first + run), unit.is_signed)
                for first in range(8 // parts * part, 8 // parts * (part + 1), run)
            ]
            dots.append(functools.reduce(b.add, sums))
        return add_floats(b, total, dots, scales, offsets, activation)

    scales_type = Vector("f32", 8 * parts)
    return define(F32X8, [F32X8, VECTORS, scales_type, scales_type, types.int64], emit)


def longest_run(unit: Unit) -> int:
    """How many sums of two products fit 16 bits together."""
    return ((1 << 15) - 1) // (2 * unit.largest * _LARGEST_ACTIVATION)


def add_floats(b: Any, total: Any, dots: Sequence[Any], scales: Any, offsets: Any, activation: Any) -> Any:
    """``total`` plus the products of a unit: ``dots`` are <8 x i32> of the blocks, or of each half of them."""
    token_scales = load_value(b, activation, F32X8.llvm, UNIT_SCALES)
    sums_at = UNIT_SUMS32 if len(dots) == 1 else UNIT_SUMS16
    for part, dot in enumerate(dots):
        lanes = range(8 * part, 8 * part + 8)
        block_sums = load_value(b, activation, F32X8.llvm, sums_at + 32 * part)
        total = _fma(b, b.fneg(shuffle_value(b, offsets, lanes)), block_sums, total)
        factors = b.fmul(shuffle_value(b, scales, lanes), token_scales)
        total = _fma(b, b.sitofp(dot, F32X8.llvm), factors, total)
    return total


def _run_dots(b: Any, vectors: Any, activation: Any, run: range, is_signed: bool) -> Any:
    """<8 x i32> dot products over some vectors, whose sums of pairs fit 16 bits."""
    products = [
        multiply_pairs(b, b.extract_value(vectors, k), load_value(b, activation, U8X32.llvm, 32 * k), is_signed)
        for k in run
    ]
    return widen(b, functools.reduce(b.add, products))


def multiply_pairs(b: Any, weights: Any, values: Any, is_signed: bool) -> Any:
    """<16 x i16> sums of neighbours' products."""
    if is_signed:  # as |weight| * (activation with the weight's sign)
        values = call_llvm(b, "llvm.x86.avx2.psign.b", values.type, [values, weights])
        weights = call_llvm(b, "llvm.x86.avx2.psign.b", weights.type, [weights, weights])
    return call_llvm(b, "llvm.x86.avx2.pmadd.ub.sw", _I16X16, [weights, values])


def widen(b: Any, pairs: Any) -> Any:
    """<8 x i32> sums of neighbours."""
    return call_llvm(b, "llvm.x86.avx2.pmadd.wd", I32X8.llvm, [pairs, constant(_I16X16, 1)])


def _fma(b: Any, x: Any, y: Any, z: Any) -> Any:
    return call_llvm(b, "llvm.fma.v8f32", x.type, [x, y, z])


def _emit_sum(b: Any, vector: Any) -> Any:
    while vector.type.count > 1:
        half = vector.type.count // 2
        vector = b.fadd(*(shuffle_value(b, vector, range(start, start + half)) for start in (0, half)))
    return b.extract_element(vector, I32(0))


sum_lanes = define(types.float32, [F32X8], _emit_sum)  # in an order that is always the same
