"""Rows of ``matvec`` for AVX2: a unit of a row is unpacked once and meets all tokens."""

from __future__ import annotations

from typing import Any, Final

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.formats import UNIT_BYTES
from engine.kernels.cpu.matvec_row import PADDING_ROW_BYTES, prefetch_bytes, row_source, write_result
from engine.kernels.cpu.operands import MATMUL_ACTIVATION, MATMUL_ROW_BYTES, MATMUL_WEIGHT, MATMUL_WIDTH
from engine.kernels.cpu.pair_loads import pair_load, takes_strides
from engine.kernels.cpu.pair_one import add_unit_of_one
from engine.kernels.cpu.pair_tail import (
    TAIL_ACTIVATIONS,
    TAIL_WEIGHTS,
    add_row,
    copy_tails,
    packed_blocks,
    spread_tail,
)
from engine.kernels.cpu.pair_unit import add_unit, sum_lanes, transpose_unit
from engine.kernels.cpu.simd import inline, load_f32x8, load_i64, store_f32x8, zeros_f32x8
from engine.kernels.cpu.units import Unit

PAIR_VALUES: Final = 256  # of a unit
# A page: the processor fetches ahead within one, but does not look up the next one's address.
_AHEAD_BYTES: Final = 4096
# Rows from here on are read in turns from two runs, with half a page ahead in each: the processor fetches ahead in
# both, which decodes 1B parameters 2 to 15 % faster. Shorter rows are read some percent slower so.
_LONG_ROW_BYTES: Final = 1024
# Units of a slice times tokens, 20 KiB that are read: they stay in the L1 cache (a sixth faster on 8192 values).
_SLICE: Final = 64
_ROUND_ROWS: Final = 16  # that meet a slice before the next one, and how far ahead weights are fetched


def rows_of_one(unit: Unit, tensor_type: TensorType) -> Any:
    """``f(op, scratch, first, end)`` for one token."""
    load_unit, unit_bytes = pair_load(unit, tensor_type), unit.num_bytes * 8 // unit.num_blocks
    add = add_unit_of_one(unit)
    has_tails, has_strides = tensor_type.block_size < PAIR_VALUES, takes_strides(tensor_type)

    @inline
    def rows(op: int, scratch: int, first: int, end: int) -> None:
        width, activation = load_i64(op + 8 * MATMUL_WIDTH), load_i64(op + 8 * MATMUL_ACTIVATION)
        row_bytes = load_i64(op + 8 * MATMUL_ROW_BYTES)
        tail = packed_blocks(width) if has_tails else 0
        units, group = (width + PAIR_VALUES - 1) // PAIR_VALUES, 1
        totals = scratch + PADDING_ROW_BYTES
        if tail != 0:
            units, group = units - 1, 8 // tail
            spread_tail(activation + UNIT_BYTES * units, totals + TAIL_ACTIVATIONS, tail, True)
        apart, ahead = 0, _AHEAD_BYTES
        if tail == 0 and row_bytes >= _LONG_ROW_BYTES:
            apart, ahead = (end - first + 1) // 2, _AHEAD_BYTES // 2
        for base in range(first, end, group):
            last = min(base + group, end)
            for index in range(base, last):
                row = index if apart == 0 else first + (index - first) // 2 + (index - first) % 2 * apart
                source, here = row_source(op, row, units * unit_bytes, scratch), activation
                total = zeros_f32x8()
                for _ in range(units):
                    prefetch_bytes(source + ahead, unit_bytes)
                    weights, scales, offsets = load_unit(source, unit_bytes // 4, unit_bytes // 2)
                    total = add(total, weights, scales, offsets, here)
                    source += unit_bytes
                    here += UNIT_BYTES
                if tail == 0:
                    write_result(op, row, 0, sum_lanes(total))
                else:
                    store_f32x8(totals + 32 * (index - base), total)
            if has_tails and tail != 0:
                source, pair, quad = totals + TAIL_WEIGHTS, unit_bytes // 4, unit_bytes // 2
                if has_strides and tail % 2 == 0 and base + group <= end:
                    source = load_i64(op + 8 * MATMUL_WEIGHT) + row_bytes * base + unit_bytes * units
                    pair, quad = (row_bytes, 2 * row_bytes) if tail == 2 else (pair, row_bytes)
                else:
                    copy_tails(op, base, last, unit_bytes * units, unit_bytes * tail // 8, scratch, source)
                weights, scales, offsets = load_unit(source, pair, quad)
                tails = add(zeros_f32x8(), weights, scales, offsets, totals + TAIL_ACTIVATIONS)
                for row in range(base, last):
                    total = add_row(load_f32x8(totals + 32 * (row - base)), tails, tail * (row - base), tail)
                    write_result(op, row, 0, sum_lanes(total))

    return rows


def rows_of_several(unit: Unit, tensor_type: TensorType) -> Any:
    """``f(op, scratch, first, end, num_tokens)`` for several tokens."""
    load_unit, unit_bytes = pair_load(unit, tensor_type), unit.num_bytes * 8 // unit.num_blocks
    add, has_tails = add_unit(unit), tensor_type.block_size < PAIR_VALUES

    @inline
    def rows(op: int, scratch: int, first: int, end: int, num_tokens: int) -> None:
        width, row_bytes = load_i64(op + 8 * MATMUL_WIDTH), load_i64(op + 8 * MATMUL_ROW_BYTES)
        tail = packed_blocks(width) if has_tails else 0
        units, group = (width + PAIR_VALUES - 1) // PAIR_VALUES, 1
        slice_units = _SLICE // num_tokens
        totals = scratch + PADDING_ROW_BYTES  # [row of a round][token] F32X8
        if tail != 0:
            units, group = units - 1, 8 // tail
            for token in range(num_tokens):
                source = load_i64(op + 8 * MATMUL_ACTIVATION) + UNIT_BYTES * (num_tokens * units + token)
                spread_tail(source, totals + TAIL_ACTIVATIONS + UNIT_BYTES * token, tail, False)
        for base in range(first, end, _ROUND_ROWS):
            count = min(_ROUND_ROWS, end - base)
            for index in range(count * num_tokens):
                store_f32x8(totals + 32 * index, zeros_f32x8())
            for start in range(0, units, slice_units):
                for row in range(count):
                    source = row_source(op, base + row, units * unit_bytes, scratch) + unit_bytes * start
                    activation = load_i64(op + 8 * MATMUL_ACTIVATION) + UNIT_BYTES * num_tokens * start
                    for _ in range(min(slice_units, units - start)):
                        prefetch_bytes(source + _ROUND_ROWS * row_bytes, unit_bytes)
                        weights, scales, offsets = load_unit(source, unit_bytes // 4, unit_bytes // 2)
                        vectors = transpose_unit(weights)
                        total = totals + 32 * num_tokens * row
                        for _ in range(num_tokens):
                            store_f32x8(total, add(load_f32x8(total), vectors, scales, offsets, activation))
                            total += 32
                            activation += UNIT_BYTES
                        source += unit_bytes
            if has_tails and tail != 0:
                for start in range(0, count, group):
                    last = min(start + group, count)
                    source = totals + TAIL_WEIGHTS
                    copy_tails(
                        op, base + start, base + last, unit_bytes * units, unit_bytes * tail // 8, scratch, source
                    )
                    weights, scales, offsets = load_unit(source, unit_bytes // 4, unit_bytes // 2)
                    vectors = transpose_unit(weights)
                    for token in range(num_tokens):
                        activation = totals + TAIL_ACTIVATIONS + UNIT_BYTES * token
                        tails = add(zeros_f32x8(), vectors, scales, offsets, activation)
                        for row in range(start, last):
                            total = totals + 32 * (num_tokens * row + token)
                            store_f32x8(total, add_row(load_f32x8(total), tails, tail * (row - start), tail))
            for row in range(count):
                for token in range(num_tokens):
                    total = totals + 32 * (num_tokens * row + token)
                    write_result(op, base + row, token, sum_lanes(load_f32x8(total)))

    return rows
