"""The inner loops of attention: scores, weighted sums of values, and keys and values widened for many queries.

Few rows (decode) meet keys and values as they lie in the cache, one pass over each. Many rows (prefill) meet a copy
of a chunk as float32, made once for all of their tiles. Both add the dimensions of a key, and the positions, in
order, one by one: a row's result does not depend on the rows beside it. The layouts are told in ``kv_layout``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.config import KVType
from engine.kernels.cpu.isa import ISA, InstructionSet
from engine.kernels.cpu.kv_layout import SCALE_GROUP, SCALES_BYTES
from engine.kernels.cpu.layouts import CHUNK, TILE_ROWS
from engine.kernels.cpu.simd import (
    inline,
    load_f16,
    load_f32,
    load_f32x16,
    load_i32,
    splat_f32x16,
    store_f32,
    store_f32x16,
)
from engine.kernels.cpu.tile import (
    VALUE_BYTES,
    blocks_multiply_add,
    blocks_scale_add,
    load_as_f32,
    tile_load,
    tile_multiply_add,
    tile_scale,
    tile_store,
    tile_zeros,
)

_SUMS: Final = (
    16 if ISA is InstructionSet.AVX512VNNI else 4
)  # vectors of 16 sums, with registers for what they meet
_ROW_BYTES = CHUNK * 4  # of one row's scores
_load_f16, _load_i8 = load_as_f32("f16"), load_as_f32("i8")


def _columns(rows: int, most: int) -> int:
    """Vectors a row that the registers hold, a power of two."""
    return next((count for count in (4, 2) if count <= most and count * rows <= _SUMS), 1)


def score_function(rows: int, kv_type: KVType) -> Any:
    """Makes ``f(scores, keys, table, num_blocks, block_bytes, queries, dim)`` for ``rows`` query rows."""
    columns = _columns(rows, 4)
    many, one = _score_blocks(rows, columns, kv_type), _score_blocks(rows, 1, kv_type)

    @inline
    def score(scores, keys, table, num_blocks, block_bytes, queries, dim):  # type: ignore[no-untyped-def]
        """Scores of the positions of ``num_blocks`` blocks, a row after CHUNK of the last."""
        whole = num_blocks // columns * columns
        for block in range(0, whole, columns):
            many(scores + block * 64, keys, table + block * 4, block_bytes, queries, dim)
        for block in range(whole, num_blocks):
            one(scores + block * 64, keys, table + block * 4, block_bytes, queries, dim)

    return score


def _score_blocks(rows: int, blocks: int, kv_type: KVType) -> Any:
    zeros, store = tile_zeros(rows, blocks), tile_store(rows, blocks)
    multiply_add = blocks_multiply_add(rows, blocks, "f16" if kv_type == "f16" else "i8")
    scale_first, scale_next = blocks_scale_add(rows, blocks, True), blocks_scale_add(rows, blocks, False)

    @inline
    def score_f16(scores, keys, table, block_bytes, queries, dim):  # type: ignore[no-untyped-def]
        sums = zeros()
        for i in range(dim):
            sums = multiply_add(sums, queries + i * rows * 4, keys, table, block_bytes, i * 32)
        store(scores, _ROW_BYTES, sums)

    @inline
    def score_q8_0(scores, keys, table, block_bytes, queries, dim):  # type: ignore[no-untyped-def]
        for start in range(0, dim, SCALE_GROUP):
            sums, place = zeros(), dim * 16 + start // SCALE_GROUP * SCALES_BYTES
            for i in range(start, min(start + SCALE_GROUP, dim)):
                sums = multiply_add(sums, queries + i * rows * 4, keys, table, block_bytes, i * 16)
            if start == 0:
                scale_first(scores, _ROW_BYTES, sums, keys, table, block_bytes, place)
            else:
                scale_next(scores, _ROW_BYTES, sums, keys, table, block_bytes, place)

    return score_f16 if kv_type == "f16" else score_q8_0


def weigh_function(rows: int, kv_type: KVType) -> Any:
    """Makes ``f(values, table, num_blocks, block_bytes, count, scores, scaled, gathered, factors, width)``.

    Gathered values of ``rows`` rows times their ``factors``, plus their ``scores`` times the values of ``count``
    positions; ``scaled`` is room for as many scores.
    """
    columns = _columns(rows, 4 if kv_type == "f16" else SCALE_GROUP // 16)
    many, one = _weigh_columns(rows, columns, kv_type), _weigh_columns(rows, 1, kv_type)
    scale_weights = _scale_weights(rows)

    @inline
    def weigh_f16(values, table, num_blocks, block_bytes, count, scores, scaled, gathered, factors, width):  # type: ignore[no-untyped-def]
        whole = width // (16 * columns) * (16 * columns)
        for i in range(0, whole, 16 * columns):
            many(values + i * 2, table, num_blocks, block_bytes, count, scores, gathered + i * 4, factors, width)
        for i in range(whole, width, 16):
            one(values + i * 2, table, num_blocks, block_bytes, count, scores, gathered + i * 4, factors, width)

    @inline
    def weigh_q8_0(values, table, num_blocks, block_bytes, count, scores, scaled, gathered, factors, width):  # type: ignore[no-untyped-def]
        for start in range(0, width, SCALE_GROUP):
            scales = values + width * 16 + start // SCALE_GROUP * SCALES_BYTES
            scale_weights(scales, table, num_blocks, block_bytes, scores, scaled)
            end = min(start + SCALE_GROUP, width)
            whole = start + (end - start) // (16 * columns) * (16 * columns)
            for i in range(start, whole, 16 * columns):
                many(values + i, table, num_blocks, block_bytes, count, scaled, gathered + i * 4, factors, width)
            for i in range(whole, end, 16):
                one(values + i, table, num_blocks, block_bytes, count, scaled, gathered + i * 4, factors, width)

    return weigh_f16 if kv_type == "f16" else weigh_q8_0


def _scale_weights(rows: int) -> Any:
    @inline
    def scale_weights(scales, table, num_blocks, block_bytes, scores, scaled):  # type: ignore[no-untyped-def]
        """Scores times the scales of one group of values of each position."""
        for block in range(num_blocks):
            factor = _load_f16(scales + np.int64(load_i32(table + block * 4)) * block_bytes)
            for row in range(rows):
                place = row * _ROW_BYTES + block * 64
                store_f32x16(scaled + place, load_f32x16(scores + place) * factor)

    return scale_weights


def _weigh_columns(rows: int, columns: int, kv_type: KVType) -> Any:
    load, store, scale = tile_load(rows, columns), tile_store(rows, columns), tile_scale(rows, columns)
    kind = "f16" if kv_type == "f16" else "i8"
    multiply_add, value_bytes = tile_multiply_add(rows, columns, _ROW_BYTES, kind), VALUE_BYTES[kind]

    @inline
    def weigh(values, table, num_blocks, block_bytes, count, weights, gathered, factors, width):  # type: ignore[no-untyped-def]
        sums = scale(load(gathered, width * 4), factors)
        for block in range(num_blocks):
            value = values + np.int64(load_i32(table + block * 4)) * block_bytes
            for slot in range(min(16, count - block * 16)):
                sums = multiply_add(sums, weights + block * 64 + slot * 4, value + slot * width * value_bytes)
        store(gathered, width * 4, sums)

    return weigh


@inline
def pack_row(x, scale, queries, row, dim):  # type: ignore[no-untyped-def]
    """One row of a tile of TILE_ROWS queries, [dim][rows], from ``dim`` float32 times ``scale``."""
    for i in range(dim):
        store_f32(queries + (i * TILE_ROWS + row) * 4, load_f32(x + i * 4) * scale)


def row_packer(_kv_type: KVType) -> Any:
    """The function ``pack_row``, the same for both types."""
    return pack_row


def panel_makers(kv_type: KVType) -> Any:
    """Makes the two functions that copy keys and values of a chunk as float32.

    ``f(panel, keys, table, num_blocks, block_bytes, dim)`` gives [blocks][dim][16], and
    ``f(panel, values, table, num_blocks, block_bytes, count, width)`` gives [count][width].
    """

    @inline
    def keys_f16(panel, keys, table, num_blocks, block_bytes, dim):  # type: ignore[no-untyped-def]
        for block in range(num_blocks):
            source, target = keys + np.int64(load_i32(table + block * 4)) * block_bytes, panel + block * dim * 64
            for i in range(dim):
                store_f32x16(target + i * 64, _load_f16(source + i * 32))

    @inline
    def keys_q8_0(panel, keys, table, num_blocks, block_bytes, dim):  # type: ignore[no-untyped-def]
        for block in range(num_blocks):
            source, target = keys + np.int64(load_i32(table + block * 4)) * block_bytes, panel + block * dim * 64
            for start in range(0, dim, SCALE_GROUP):
                scale = _load_f16(source + dim * 16 + start // SCALE_GROUP * SCALES_BYTES)
                for i in range(start, min(start + SCALE_GROUP, dim)):
                    store_f32x16(target + i * 64, _load_i8(source + i * 16) * scale)

    @inline
    def values_f16(panel, values, table, num_blocks, block_bytes, count, width):  # type: ignore[no-untyped-def]
        for block in range(num_blocks):
            source, target = (
                values + np.int64(load_i32(table + block * 4)) * block_bytes,
                panel + block * width * 64,
            )
            for i in range(0, min(16, count - block * 16) * width, 16):
                store_f32x16(target + i * 4, _load_f16(source + i * 2))

    @inline
    def values_q8_0(panel, values, table, num_blocks, block_bytes, count, width):  # type: ignore[no-untyped-def]
        for block in range(num_blocks):
            source, target = (
                values + np.int64(load_i32(table + block * 4)) * block_bytes,
                panel + block * width * 64,
            )
            for slot in range(min(16, count - block * 16)):
                for i in range(0, width, 16):
                    scale = load_f16(source + width * 16 + i // SCALE_GROUP * SCALES_BYTES + slot * 2)
                    value = _load_i8(source + slot * width + i) * splat_f32x16(scale)
                    store_f32x16(target + (slot * width + i) * 4, value)

    return (keys_f16, values_f16) if kv_type == "f16" else (keys_q8_0, values_q8_0)


def panel_functions(_kv_type: KVType) -> Any:
    """Makes ``score`` and ``weigh`` of TILE_ROWS rows for what ``panel_makers`` made."""
    zeros, store = tile_zeros(TILE_ROWS, 1), tile_store(TILE_ROWS, 1)
    multiply_keys = tile_multiply_add(TILE_ROWS, 1, 4, "f32")
    columns = _columns(TILE_ROWS, 2)
    many, one = _weigh_panel(columns), _weigh_panel(1)

    @inline
    def score(scores, panel, num_blocks, queries, dim):  # type: ignore[no-untyped-def]
        for block in range(num_blocks):
            sums, keys = zeros(), panel + block * dim * 64
            for i in range(dim):
                sums = multiply_keys(sums, queries + i * TILE_ROWS * 4, keys + i * 64)
            store(scores + block * 64, _ROW_BYTES, sums)

    @inline
    def weigh(panel, count, scores, scaled, gathered, factors, width):  # type: ignore[no-untyped-def]
        whole = width // (16 * columns) * (16 * columns)
        for i in range(0, whole, 16 * columns):
            many(panel + i * 4, count, scores, gathered + i * 4, factors, width)
        for i in range(whole, width, 16):
            one(panel + i * 4, count, scores, gathered + i * 4, factors, width)

    return score, weigh


def _weigh_panel(columns: int) -> Any:
    load, store = tile_load(TILE_ROWS, columns), tile_store(TILE_ROWS, columns)
    scale, multiply_add = tile_scale(TILE_ROWS, columns), tile_multiply_add(TILE_ROWS, columns, _ROW_BYTES, "f32")

    @inline
    def weigh(panel, count, weights, gathered, factors, width):  # type: ignore[no-untyped-def]
        sums = scale(load(gathered, width * 4), factors)
        for position in range(count):
            sums = multiply_add(sums, weights + position * 4, panel + position * width * 4)
        store(gathered, width * 4, sums)

    return weigh
