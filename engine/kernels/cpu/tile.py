"""Register tiles of float32 accumulators: rows x columns of 16-lane vectors as one numba value.

A tile is a tuple of vectors, which LLVM keeps in registers as long as rows * columns and what they meet fit (32
registers with AVX-512, 16 elsewhere; a vector takes two registers where they hold 8 lanes).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from engine.kernels.cpu.simd import F16X16, F32, F32X16, define, fma_value, load_value, pointer, splat_value


def _tuple(rows: int, columns: int) -> Any:
    return types.UniTuple(F32X16, rows * columns)


def _build(builder: Any, vectors: list[Any]) -> Any:
    value = ir.Constant(ir.ArrayType(F32X16.llvm, len(vectors)), ir.Undefined)
    for index, vector in enumerate(vectors):
        value = builder.insert_value(value, vector, index)
    return value


def _address(builder: Any, address: Any, row_bytes: Any, row: int, column: int) -> Any:
    row_address = builder.add(address, builder.mul(row_bytes, row_bytes.type(row)))
    return builder.add(row_address, row_bytes.type(column * 64))


def tile_zeros(rows: int, columns: int) -> Any:
    """Makes ``f() -> tile``."""
    zero = ir.Constant(F32X16.llvm, None)
    return define(_tuple(rows, columns), [], lambda b: _build(b, [zero] * (rows * columns)))


def tile_load(rows: int, columns: int) -> Any:
    """Makes ``f(address, row_bytes) -> tile``; the columns are neighbours in memory."""

    def emit(b: Any, address: Any, row_bytes: Any) -> Any:
        places = [(row, column) for row in range(rows) for column in range(columns)]
        return _build(b, [load_value(b, _address(b, address, row_bytes, *place), F32X16.llvm) for place in places])

    return define(_tuple(rows, columns), [types.int64, types.int64], emit)


def tile_store(rows: int, columns: int) -> Any:
    """Makes ``f(address, row_bytes, tile)``."""

    def emit(b: Any, address: Any, row_bytes: Any, tile: Any) -> None:
        for index in range(rows * columns):
            place = _address(b, address, row_bytes, *divmod(index, columns))
            b.store(b.extract_value(tile, index), pointer(b, place, F32X16.llvm), align=1)

    return define(types.void, [types.int64, types.int64, _tuple(rows, columns)], emit)


def tile_scale(rows: int, columns: int) -> Any:
    """Makes ``f(tile, factors) -> tile``: row r times the float32 at ``factors + 4 * r``."""

    def emit(b: Any, tile: Any, factors: Any) -> Any:
        scales = [splat_value(b, load_value(b, factors, F32, row * 4), 16) for row in range(rows)]
        return _build(
            b,
            [
                b.fmul(b.extract_value(tile, i), scales[i // columns], flags=("fast",))
                for i in range(rows * columns)
            ],
        )

    return define(_tuple(rows, columns), [_tuple(rows, columns), types.int64], emit)


def tile_multiply_add(rows: int, columns: int, weight_bytes: int) -> Any:
    """Makes ``f(tile, weights, halves) -> tile``, an outer product added to a tile.

    Row r, column c gets the float32 at ``weights + weight_bytes * r`` times the 16 float16 at ``halves + 32 * c``.
    """

    def emit(b: Any, tile: Any, weights: Any, halves: Any) -> Any:
        vectors = [b.fpext(load_value(b, halves, F16X16.llvm, c * 32), F32X16.llvm) for c in range(columns)]
        sums = []
        for row in range(rows):
            weight = splat_value(b, load_value(b, weights, F32, row * weight_bytes), 16)
            sums += [
                fma_value(b, weight, v, b.extract_value(tile, row * columns + c)) for c, v in enumerate(vectors)
            ]
        return _build(b, sums)

    return define(_tuple(rows, columns), [_tuple(rows, columns), types.int64, types.int64], emit)


def tile_add(rows: int, columns: int) -> Any:
    """Makes ``f(tile, tile) -> tile``."""

    def emit(b: Any, first: Any, second: Any) -> Any:
        indices = range(rows * columns)
        return _build(
            b, [b.fadd(b.extract_value(first, i), b.extract_value(second, i), flags=("fast",)) for i in indices]
        )

    return define(_tuple(rows, columns), [_tuple(rows, columns)] * 2, emit)
