"""The register tile of ``gemm`` for AVX2, whose 8-bit products come summed in pairs of 16 bits.

Weights are stored unsigned, lowest value 0, so that the sums of several products still fit 16 bits: up to 15 a
whole block of 32, up to 31 half of one, up to 63 a quarter. So most of the widening to 32 bits, half of all work
where every product is widened, falls away. Values up to 255 are stored as two planes of nibbles.

    panel of one group: [slice / 4][planes][16 rows][4] bytes

The float32 sums of a tile stay in memory: the sums of pairs fill the 16 registers. On one core of a Zen 3 a block
of Q4_1 takes 244 instructions for 2,048 products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir
from numba import types

from engine.kernels.cpu.formats import TOKEN_TILE
from engine.kernels.cpu.simd import (
    F32,
    F32X8,
    FAST,
    I16,
    I32,
    I32X8,
    U8X32,
    call_llvm,
    constant,
    define,
    fma_value,
    load_value,
    pointer,
    splat_value,
)

_I16X16: Final = ir.VectorType(I16, 16)
_LARGEST_ACTIVATION: Final = 127


@dataclass(frozen=True)
class PairFormat:
    """How a type's weights are stored in a panel.

    Attributes:
        zero: stored = weight + zero.
        planes: 2 where stored values need all 8 bits.
        run: products of a pair that are summed in 16 bits.
        is_centred: sums start at -zero times the sum of the activations.
    """

    zero: int
    planes: int
    run: int
    is_centred: bool = False


def pair_format(lowest: int, highest: int, num_scales: int) -> PairFormat:
    """The format for weights of ``lowest`` to ``highest`` with one scale a block of 32, or two."""
    largest, steps = highest - lowest, 8 // num_scales
    planes = 1 if largest <= 127 else 2
    longest = _longest_run(largest if planes == 1 else 15)
    run = next(count for count in (8, 4, 2, 1) if count <= min(longest, steps))
    if planes == 1 and lowest < 0 and run < steps <= _longest_run(max(-lowest, highest)):
        return PairFormat(-lowest, planes, steps, is_centred=True)
    return PairFormat(128 if planes == 2 else -lowest, planes, run)


def _longest_run(largest: int) -> int:
    """Sums of two products with weights of at most that magnitude, that fit 16 bits."""
    return ((1 << 15) - 1) // (2 * largest * _LARGEST_ACTIVATION)


def pair_block(form: PairFormat, is_affine: bool, num_scales: int) -> Any:
    """Makes ``f(result, panel, scales, offsets, q, scale, sums_of_q, bias)``: adds a block of 32 to a tile.

    ``result`` is [TOKEN_TILE][16 rows] float32; the rest is as in ``dot_tiles.tile_block``. It becomes the sum of
    scales * (scale * dot - zero * sums_of_q), or for affine types scales * scale * dot - offsets * sums_of_q.
    """

    def emit(
        b: Any, result: Any, panel: Any, scales: Any, offsets: Any, q: Any, scale: Any, sums_of_q: Any, bias: Any
    ) -> None:
        for part in range(num_scales):
            for rows in _row_sets(form, num_scales):
                dots = _dots(b, form, panel, q, bias, rows, part, num_scales)
                for token in range(TOKEN_TILE):
                    factor = _spread(b, scale, token)
                    total_of_q = _spread(b, sums_of_q, part * TOKEN_TILE + token)
                    for half, sums in zip(rows, dots[token]):
                        place = pointer(b, b.add(result, result.type(64 * token + 32 * half)), F32X8.llvm)
                        row_scale = load_value(b, scales, F32X8.llvm, 64 * part + 32 * half)
                        value = b.sitofp(sums, F32X8.llvm)
                        total = b.load(place, align=1)
                        if is_affine:
                            offset = b.fneg(load_value(b, offsets, F32X8.llvm, 64 * part + 32 * half), flags=FAST)
                            total = fma_value(b, offset, total_of_q, total)
                            value = b.fmul(value, factor, flags=FAST)
                        elif form.is_centred:
                            value = b.fmul(value, factor, flags=FAST)
                        else:
                            zero = b.fmul(total_of_q, constant(F32X8.llvm, -float(form.zero)), flags=FAST)
                            value = fma_value(b, value, factor, zero)
                        b.store(fma_value(b, value, row_scale, total), place, align=1)

    return define(types.void, [types.int64] * 8, emit)


def _row_sets(form: PairFormat, num_scales: int) -> list[tuple[int, ...]]:
    """Halves of the 16 rows that are computed together: two where 8 sums of pairs are all that is kept."""
    return [(0, 1)] if form.planes == 1 and form.run * num_scales == 8 else [(0,), (1,)]


def _dots(
    b: Any, form: PairFormat, panel: Any, q: Any, bias: Any, rows: tuple[int, ...], part: int, num_scales: int
) -> Any:
    """Dot products over a block, or half of it: for each token a vector of int32 for each half of the rows."""
    columns = [(half, plane) for half in rows for plane in range(form.planes)]
    dots: list[list[Any]] = [[None] * len(rows) for _ in range(TOKEN_TILE)]
    steps = 8 // num_scales
    for first in range(part * steps, (part + 1) * steps, form.run):
        sums = [
            [_first_sum(b, form, bias, part * TOKEN_TILE + token)] * len(columns) for token in range(TOKEN_TILE)
        ]
        for k in range(first, first + form.run):
            weights = [
                load_value(b, panel, U8X32.llvm, 64 * (form.planes * k + plane) + 32 * half)
                for half, plane in columns
            ]
            for token in range(TOKEN_TILE):
                four = splat_value(b, load_value(b, q, I32, 4 * (k * TOKEN_TILE + token)), 8)
                four = b.bitcast(four, U8X32.llvm)
                for column, weight in enumerate(weights):
                    pairs = call_llvm(b, "llvm.x86.avx2.pmadd.ub.sw", _I16X16, [weight, four])
                    before = sums[token][column]
                    sums[token][column] = pairs if before is None else _add_pairs(b, before, pairs)
        for token in range(TOKEN_TILE):
            for index in range(len(rows)):
                for plane in range(form.planes):
                    ones = constant(_I16X16, 1 if plane == 0 else 16)
                    pairs = sums[token][index * form.planes + plane]
                    wide = call_llvm(b, "llvm.x86.avx2.pmadd.wd", I32X8.llvm, [pairs, ones])
                    before = dots[token][index]
                    dots[token][index] = wide if before is None else b.add(before, wide)
    return dots


def _first_sum(b: Any, form: PairFormat, bias: Any, index: int) -> Any:
    """What the sums of pairs start at, or None for zero: the bias is the negated sum of each of two pairs."""
    if not form.is_centred:
        return None
    pairs = b.bitcast(splat_value(b, load_value(b, bias, I32, 4 * index), 8), _I16X16)
    return b.mul(pairs, constant(_I16X16, form.zero))


def _spread(b: Any, address: Any, index: int) -> Any:
    return splat_value(b, load_value(b, address, F32, 4 * index), 8)


def _add_pairs(b: Any, before: Any, pairs: Any) -> Any:
    """The sum, behind an empty piece of assembler: LLVM would add in an order for which it lacks registers."""
    keep = ir.FunctionType(_I16X16, [_I16X16])
    return b.asm(keep, "", "=x,0", [b.add(before, pairs)], False)
