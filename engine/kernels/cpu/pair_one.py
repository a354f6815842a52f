"""The dot product of ``matvec_pairs`` for a single token (see ``pair_unit`` for several).

To transpose a unit only pays where several tokens share it. A single token meets the unit as it is unpacked, two
blocks in a register, a half of each; what the products leave is added up while it is transposed: six shuffles
instead of sixteen. The lanes end up the same, and all sums until then are of integers, so a token gets the same
bits alone and among others.

    vector of weights, and of activations: 16 values of an even block, then 16 of the next one
"""

from __future__ import annotations

from typing import Any

from numba import types

from engine.kernels.cpu.dot_tiles import Tile
from engine.kernels.cpu.pair_unit import add_floats, longest_run, multiply_pairs, widen
from engine.kernels.cpu.simd import F32X8, I32X8, U8X32, U8X64, Vector, define, load_value, shuffle_value
from engine.kernels.cpu.units import Unit

_LOW_DWORDS, _HIGH_DWORDS = (0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15)
_LOW_QWORDS, _HIGH_QWORDS = (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)


def add_unit_of_one(unit: Unit) -> Any:
    """Makes ``f(total, weights, scales, offsets, activation) -> total``: ``pair_unit.add_unit`` of one token.

    The weights are a tile of four U8X64, as ``pair_loads`` gives it.
    """
    parts, longest = 32 // unit.values_per_scale, longest_run(unit)

    def emit(b: Any, total: Any, weights: Any, scales: Any, offsets: Any, activation: Any) -> Any:
        halves: list[list[Any]] = [[], []]  # of blocks: products of the two of a register, four registers
        for index in range(4):
            vector = b.extract_value(weights, index)
            for k in (0, 32):
                values = load_value(b, activation, U8X32.llvm, 64 * index + k)
                own = shuffle_value(b, vector, range(k, k + 32))
                halves[index % 2].append(multiply_pairs(b, own, values, unit.is_signed))
        if parts == 1:
            dots = [_sum_blocks(b, [list(pair) for pair in zip(*halves, strict=True)], longest)]
        else:
            dots = [_sum_blocks(b, [[products] for products in half], longest) for half in halves]
        return add_floats(b, total, dots, scales, offsets, activation)

    floats = Vector("f32", 8 * parts)
    return define(F32X8, [F32X8, Tile(U8X64, 4), floats, floats, types.int64], emit)


def _sum_blocks(b: Any, registers: list[list[Any]], longest: int) -> Any:
    """<8 x i32> in UNIT_ORDER: each block's sum of what ``registers`` has of it, four of two blocks each."""
    sums, length = [parts[0] for parts in registers], 1
    if len(registers[0]) == 2:
        sums, length = _widen_if(b, sums, 2 * length > longest), 2 * length
        others = _widen_if(b, [parts[1] for parts in registers], length > longest)
        sums = [b.add(x, y) for x, y in zip(sums, others, strict=True)]
    for low, high in ((_LOW_DWORDS, _HIGH_DWORDS), (_LOW_QWORDS, _HIGH_QWORDS)):
        length *= 2
        sums = _widen_if(b, sums, length > longest)
        sums = [_merge(b, sums[k], sums[k + 1], low, high) for k in range(0, len(sums), 2)]
    return _widen_if(b, sums, is_needed=True)[0]


def _merge(b: Any, x: Any, y: Any, low: Any, high: Any) -> Any:
    kind = x.type
    x, y = (b.bitcast(value, I32X8.llvm) for value in (x, y))
    return b.add(*(b.bitcast(shuffle_value(b, x, lanes, y), kind) for lanes in (low, high)))


def _widen_if(b: Any, sums: list[Any], is_needed: bool) -> list[Any]:
    """Sums of pairs of products, in 16 bits, as those of four in 32."""
    return [widen(b, x) if is_needed and x.type.count == 16 else x for x in sums]
