"""Tiles of accumulators and the dot products that fill them, for few tokens (``matvec``) and for many (``gemm``).

A *tile* is ``count`` vectors, one a token, that live in registers together; the functions here unroll over it while
code is emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import register_model

from engine.kernels.cpu.dot import dot_piece, dot_value, dot_width, join_values
from engine.kernels.cpu.formats import SIGNED_BIAS
from engine.kernels.cpu.isa import ISA, InstructionSet
from engine.kernels.cpu.simd import (
    F32,
    F32X4,
    F32X8,
    F32X16,
    FAST,
    I32,
    I32X16,
    I64,
    U8X64,
    Vector,
    call_llvm,
    constant,
    define,
    fma_value,
    keep_order_value,
    load_value,
    pointer,
    shuffle_value,
    splat_value,
)

_QUADS = [lane // 4 for lane in range(16)]  # 4 values, each in 4 lanes: the lanes of a dot product's 4 blocks


class Tile(types.Type):
    """The numba type of ``count`` vectors of one type."""

    def __init__(self, vector: Vector, count: int) -> None:
        self.vector = vector
        self.count = count
        super().__init__(name=f"Tile({vector.name} x {count})")

    @property
    def llvm(self) -> Any:
        """The LLVM type."""
        return ir.ArrayType(self.vector.llvm, self.count)


class TileModel(PrimitiveModel):
    """A tile is passed and stored as the LLVM array itself; LLVM splits it into registers."""

    def __init__(self, manager: Any, tile: Tile) -> None:
        super().__init__(manager, tile, tile.llvm)


register_model(Tile)(TileModel)


def _each(b: Any, tile: Any, change: Any) -> Any:
    """The tile with vector t replaced by change(vector, t)."""
    for index in range(tile.type.count):
        tile = b.insert_value(tile, change(b.extract_value(tile, index), index), index)
    return tile


def _token_offsets(b: Any, count: int, stride: Any, last: Any) -> list[Any]:
    """Byte offsets of ``count`` tokens; those after ``last`` are computed as copies of it and never stored."""
    offsets = [I64(0)]
    for index in range(1, count):
        exists = b.icmp_signed("<=", I64(index), last)
        offsets.append(b.mul(stride, b.select(exists, I64(index), last)))
    return offsets


def tile_zeros(vector: Vector, count: int) -> Any:
    """Makes ``f() -> tile``."""
    tile = Tile(vector, count)
    return define(tile, [], lambda _b: ir.Constant(tile.llvm, None))


class _Group(NamedTuple):
    """Weights with the same scales.

    Attributes:
        weights: one or two <64 x i8>.
        places: of their activations, bytes after ``q``.
        factors: of each token, weight scale times activation scale.
        lanes: which of the factors each of 16 dot products has.
    """

    weights: Sequence[Any]
    places: Sequence[int]
    factors: Sequence[Any]
    lanes: Sequence[int]


def _add_dots(b: Any, sums: Any, groups: Sequence[_Group], offsets: Sequence[Any], q: Any, is_signed: bool) -> Any:
    """The tile plus scaled dot products, in pieces of the processor's width.

    A piece of weights meets all tokens before the next one, so that few of them are in registers at once.
    """
    width = dot_width()
    totals = [
        [
            shuffle_value(b, b.extract_value(sums, token), range(start // 4, (start + width) // 4))
            for token in range(len(offsets))
        ]
        for start in range(0, 64, width)
    ]
    for group in groups:
        for piece, start in enumerate(range(0, 64, width)):
            weights = [shuffle_value(b, vector, range(start, start + width)) for vector in group.weights]
            for token, offset in enumerate(offsets):
                here = b.add(q, offset)
                pairs = [
                    (vector, load_value(b, here, vector.type, at + start))
                    for vector, at in zip(weights, group.places, strict=True)
                ]
                zero = ir.Constant(ir.VectorType(I32, width // 4), None)
                dots = dot_piece(b, zero, pairs, is_signed)
                factor = shuffle_value(b, group.factors[token], group.lanes[start // 4 : (start + width) // 4])
                floats = b.sitofp(dots, factor.type)
                totals[piece][token] = fma_value(b, floats, factor, totals[piece][token])
    for token in range(len(offsets)):
        sums = b.insert_value(sums, join_values(b, [piece[token] for piece in totals]), token)
    return sums


def dot_unit(count: int, is_signed: bool, num_vectors: int, values_per_scale: int) -> Any:
    """Makes ``f(sums, weights, scales, q, scale, stride, last) -> sums`` for a unit of one row (see ``units``).

    ``sums`` is a tile of F32X16; ``weights`` one of ``num_vectors`` U8X64, with ``scales`` for each block or half
    block, in order: they are multiplied by the token's before they are spread, which saves half of the shuffles.
    ``q`` and ``scale`` are addresses of the first token's activations.
    """
    tile, blocks = Tile(F32X16, count), 2 * num_vectors
    num_scales = blocks * 32 // values_per_scale
    scales_type = {4: F32X4, 8: F32X8, 16: F32X16}[num_scales]

    def emit(b: Any, sums: Any, weights: Any, scales: Any, q: Any, scale: Any, stride: Any, last: Any) -> Any:
        vectors = [b.extract_value(weights, index) for index in range(num_vectors)]
        scales = keep_order_value(b, scales)
        offsets = _token_offsets(b, count, stride, last)
        factors = []
        for offset in offsets:
            values = load_value(b, b.add(scale, offset), ir.VectorType(F32, blocks))
            if values_per_scale == 16:
                values = shuffle_value(b, values, [lane // 2 for lane in range(num_scales)])
            factors.append(b.fmul(scales, values, flags=FAST))
        if values_per_scale == 32:
            groups = [
                _Group(
                    vectors[part : part + 2], [64 * part, 64 * part + 64], factors, [2 * part + k for k in _QUADS]
                )
                for part in range(0, num_vectors, 2)
            ]
        else:
            groups = [
                _Group([vector], [64 * part], factors, [8 * (part // 2) + 2 * k + part % 2 for k in _QUADS])
                for part, vector in enumerate(vectors)
            ]
        return _add_dots(b, sums, groups, offsets, q, is_signed)

    return define(tile, [tile, Tile(U8X64, num_vectors), scales_type, *[types.int64] * 4], emit)


def add_products(vector: Vector, count: int) -> Any:
    """Makes ``f(sums, factors, values, stride, last) -> sums``: adds factors * float32 of token t."""
    tile = Tile(vector, count)

    def emit(b: Any, sums: Any, factors: Any, values: Any, stride: Any, last: Any) -> Any:
        factors = keep_order_value(b, factors)
        offsets = _token_offsets(b, count, stride, last)

        def change(total: Any, index: int) -> Any:
            return fma_value(b, factors, load_value(b, b.add(values, offsets[index]), vector.llvm), total)

        return _each(b, sums, change)

    return define(tile, [tile, vector, *[types.int64] * 3], emit)


def store_sums(vector: Vector, count: int) -> Any:
    """Makes ``f(tile, tile2, address)``: stores sum(tile[t]) - sum(tile2[t]) for each t as float32."""
    main, minus = Tile(F32X16, count), Tile(vector, count)

    def emit(b: Any, sums: Any, subtracted: Any, address: Any) -> None:
        for index in range(count):
            four = b.fsub(*(_narrow(b, b.extract_value(tile, index)) for tile in (sums, subtracted)), flags=FAST)
            name = "llvm.vector.reduce.fadd.v4f32"
            total = call_llvm(b, name, F32, [F32(0.0), four], FAST)
            b.store(total, pointer(b, b.add(address, I64(4 * index)), F32), align=4)

    return define(types.void, [main, minus, types.int64], emit)


def _narrow(b: Any, vector: Any) -> Any:
    """A vector of 4 floats with the same sum."""
    while vector.type.count > 4:
        half = vector.type.count // 2
        parts = (shuffle_value(b, vector, range(start, start + half)) for start in (0, half))
        vector = b.fadd(*parts, flags=FAST)
    return vector


def tile_block(count: int, is_signed: bool, is_affine: bool, num_scales: int) -> Any:
    """Makes ``f(sums, panel, scales, offsets, q, scale, sums_of_q, bias) -> sums``: one block of 32, a tile.

    Lanes are rows. ``panel`` holds [8][16 rows][4] weight bytes, ``scales`` and ``offsets`` [num_scales][16 rows]
    float32 (a scale for the block, or one for each half), ``q`` [8][count][4], the rest [.][count]:
    sums += scales * scale * dot - offsets * sums_of_q.
    """
    tile = Tile(F32X16, count)
    dots_in_part = 8 // num_scales

    def emit(b: Any, sums: Any, panel: Any, scales: Any, offsets: Any, q: Any, *tokens: Any) -> Any:
        scale, sums_of_q, bias = tokens
        vectors = []
        for part in range(num_scales):
            dots = [_first_dot(b, bias, 4 * (part * count + t), is_signed) for t in range(count)]
            for k in range(part * dots_in_part, (part + 1) * dots_in_part):
                weights = load_value(b, panel, U8X64.llvm, 64 * k)
                for t in range(count):
                    four = splat_value(b, load_value(b, q, I32, 4 * (k * count + t)), 16)
                    pairs = [(weights, b.bitcast(four, U8X64.llvm))]
                    dots[t] = dot_value(b, dots[t], pairs, is_signed and not SIGNED_BIAS)
            factor = load_value(b, scales, F32X16.llvm, 64 * part)
            for t in range(count):
                floats = b.sitofp(dots[t], F32X16.llvm)
                if part == 0:
                    vectors.append(b.fmul(floats, factor, flags=FAST))
                else:
                    vectors[t] = fma_value(b, floats, factor, vectors[t])
        scaled = _each(b, sums, lambda total, t: fma_value(b, vectors[t], _spread(b, scale, 4 * t), total))
        if not is_affine:
            return scaled
        for part in range(num_scales):
            minus = b.fneg(load_value(b, offsets, F32X16.llvm, 64 * part), flags=FAST)
            start = 4 * part * count
            scaled = _each(b, scaled, lambda x, t: fma_value(b, minus, _spread(b, sums_of_q, start + 4 * t), x))  # noqa: B023
        return scaled

    return define(tile, [tile, *[types.int64] * 7], emit)


def _first_dot(b: Any, bias: Any, offset: int, is_signed: bool) -> Any:
    if is_signed and SIGNED_BIAS:
        return splat_value(b, load_value(b, bias, I32, offset), 16)
    return ir.Constant(I32X16.llvm, None)


def _spread(b: Any, address: Any, offset: int) -> Any:
    return splat_value(b, load_value(b, address, F32, offset), 16)


def tile_floats(count: int) -> Any:
    """Makes ``f(sums, panel, x) -> sums`` for float weights: 16 rows at one k, ``x`` [count] float32."""
    tile = Tile(F32X16, count)

    def emit(b: Any, sums: Any, panel: Any, x: Any) -> Any:
        weights = load_value(b, panel, F32X16.llvm)
        return _each(b, sums, lambda total, t: fma_value(b, weights, _spread(b, x, 4 * t), total))

    return define(tile, [tile, types.int64, types.int64], emit)


def store_tile(count: int) -> Any:
    """Makes ``f(tile, address, stride)``: vector t of a tile of F32X16 goes to ``address + stride * t``."""
    tile = Tile(F32X16, count)

    def emit(b: Any, sums: Any, address: Any, stride: Any) -> None:
        for index in range(count):
            target = pointer(b, b.add(address, b.mul(stride, I64(index))), F32X16.llvm)
            b.store(b.extract_value(sums, index), target, align=4)

    return define(types.void, [tile, types.int64, types.int64], emit)


def transpose_4(b: Any, rows: Sequence[Any]) -> list[Any]:
    """4 x 4 dwords in each half of four <8 x i32>."""
    low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
    even, odd = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
    pairs = [[shuffle_value(b, rows[k], order, rows[k + 1]) for k in (0, 2)] for order in (low, high)]
    return [shuffle_value(b, x, order, y) for x, y in pairs for order in (even, odd)]


def _columns_of_halves(b: Any, source: Any, stride: Any) -> list[Any]:
    """16 vectors of 4 bytes of each of 16 rows, by shuffles within 16 bytes: two for 32 bytes, on AVX2."""
    dwords = ir.VectorType(I32, 4)
    rows = [b.add(source, b.mul(stride, I64(row))) for row in range(16)]
    columns = []
    for start in range(0, 64, 16):
        halves = []
        for first in (0, 8):
            pieces = [[load_value(b, rows[first + k + row], dwords, start) for k in (0, 4)] for row in range(4)]
            halves.append(transpose_4(b, [join_values(b, piece) for piece in pieces]))
        columns += [join_values(b, half) for half in zip(*halves, strict=True)]
    return columns


def _columns_of_vectors(b: Any, source: Any, stride: Any) -> list[Any]:
    """The same by four perfect shuffles of 16 vectors, which are a transposition."""
    rows = [load_value(b, b.add(source, b.mul(stride, I64(row))), I32X16.llvm) for row in range(16)]
    low = [lane // 2 + 16 * (lane % 2) for lane in range(16)]
    high = [lane + 8 for lane in low]
    for _ in range(4):
        rows = [shuffle_value(b, rows[i // 2], (low, high)[i % 2], rows[i // 2 + 8]) for i in range(16)]
    return rows


def transpose_16(zero: int, planes: int = 1) -> Any:
    """Makes ``f(source, stride, target)``: 16 rows of 64 bytes to 16 vectors that hold 4 bytes of each row.

    Each byte gets ``zero`` added. With two ``planes`` a vector of low nibbles and one of high nibbles are stored
    instead of each.
    """
    columns_of = _columns_of_halves if ISA is InstructionSet.AVX2 else _columns_of_vectors

    def emit(b: Any, source: Any, stride: Any, target: Any) -> None:
        columns = [b.bitcast(column, U8X64.llvm) for column in columns_of(b, source, stride)]
        if zero:
            added = constant(U8X64.llvm, zero - 256 if zero > 127 else zero)
            columns = [b.add(column, added) for column in columns]
        if planes == 2:
            low, four = constant(U8X64.llvm, 15), constant(U8X64.llvm, 4)
            columns = [plane for column in columns for plane in (b.and_(column, low), b.lshr(column, four))]
        for index, column in enumerate(columns):
            b.store(column, pointer(b, b.add(target, I64(64 * index)), column.type), align=1)

    return define(types.void, [types.int64] * 3, emit)
