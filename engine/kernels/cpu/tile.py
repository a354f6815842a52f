"""Register tiles of float32 accumulators: rows x columns of 16-lane vectors as one numba value.

A tile is a tuple of vectors, which LLVM keeps in registers as long as rows * columns and what they meet fit (32
registers with AVX-512, 16 elsewhere; a vector takes two registers where they hold 8 lanes).

``kind`` says how the 16 values that a tile meets are stored: "f32", "f16" or "i8".
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types

from engine.kernels.cpu.simd import (
    F16X16,
    F32,
    F32X16,
    FAST,
    I32,
    I64,
    U8X16,
    define,
    fma_value,
    load_value,
    pointer,
    splat_value,
)

VALUE_BYTES: Final = {"f32": 4, "f16": 2, "i8": 1}


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


def _load_16(b: Any, address: Any, kind: str) -> Any:
    """16 stored values as float32."""
    if kind == "f16":
        return b.fpext(load_value(b, address, F16X16.llvm), F32X16.llvm)
    if kind == "i8":
        return b.sitofp(load_value(b, address, U8X16.llvm), F32X16.llvm)
    return load_value(b, address, F32X16.llvm)


def _in_block(b: Any, index: int, keys: Any, table: Any, block_bytes: Any, offset: Any) -> Any:
    """Address at ``offset`` of the block whose id is the int32 number ``index`` of ``table``."""
    block = b.sext(load_value(b, table, I32, 4 * index), I64)
    return b.add(b.add(keys, b.mul(block, block_bytes)), offset)


def load_as_f32(kind: str) -> Any:
    """Makes ``f(address) -> F32X16``."""
    return define(F32X16, [types.int64], lambda b, address: _load_16(b, address, kind))


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
            [b.fmul(b.extract_value(tile, i), scales[i // columns], flags=FAST) for i in range(rows * columns)],
        )

    return define(_tuple(rows, columns), [_tuple(rows, columns), types.int64], emit)


def tile_multiply_add(rows: int, columns: int, weight_bytes: int, kind: str) -> Any:
    """Makes ``f(tile, weights, values) -> tile``, an outer product added to a tile.

    Row r, column c gets the float32 at ``weights + weight_bytes * r`` times the 16 values number c at ``values``.
    """

    def emit(b: Any, tile: Any, weights: Any, values: Any) -> Any:
        places = (b.add(values, I64(16 * VALUE_BYTES[kind] * column)) for column in range(columns))
        return _multiply_add(b, tile, weights, weight_bytes, [_load_16(b, place, kind) for place in places])

    return define(_tuple(rows, columns), [_tuple(rows, columns), types.int64, types.int64], emit)


def blocks_multiply_add(rows: int, blocks: int, kind: str) -> Any:
    """Makes ``f(tile, weights, keys, table, block_bytes, offset) -> tile``: a column is a block of the KV cache.

    Row r, column c gets the float32 number r at ``weights`` times the 16 values at ``offset`` of the block whose id
    is number c of ``table``.
    """

    def emit(b: Any, tile: Any, weights: Any, *where: Any) -> Any:
        vectors = [_load_16(b, _in_block(b, column, *where), kind) for column in range(blocks)]
        return _multiply_add(b, tile, weights, 4, vectors)

    tile = _tuple(rows, blocks)
    return define(tile, [tile, *[types.int64] * 5], emit)


def blocks_scale_add(rows: int, blocks: int, is_first: bool) -> Any:
    """Makes ``f(address, row_bytes, tile, keys, table, block_bytes, offset)``, for blocks as above.

    Adds the tile, each column times the 16 float16 at ``offset`` of its block, to what is at ``address``; when it
    ``is_first``, stores it there.
    """

    def emit(b: Any, address: Any, row_bytes: Any, tile: Any, *where: Any) -> None:
        scales = [_load_16(b, _in_block(b, column, *where), "f16") for column in range(blocks)]
        for index in range(rows * blocks):
            place = pointer(b, _address(b, address, row_bytes, *divmod(index, blocks)), F32X16.llvm)
            vector, scale = b.extract_value(tile, index), scales[index % blocks]
            if is_first:
                total = b.fmul(vector, scale, flags=FAST)
            else:
                total = fma_value(b, vector, scale, b.load(place, align=1))
            b.store(total, place, align=1)

    return define(types.void, [types.int64, types.int64, _tuple(rows, blocks), *[types.int64] * 4], emit)


def _multiply_add(b: Any, tile: Any, weights: Any, weight_bytes: int, vectors: list[Any]) -> Any:
    columns = len(vectors)
    sums = []
    for row in range(tile.type.count // columns):
        weight = splat_value(b, load_value(b, weights, F32, row * weight_bytes), 16)
        sums += [fma_value(b, weight, v, b.extract_value(tile, row * columns + c)) for c, v in enumerate(vectors)]
    return _build(b, sums)
