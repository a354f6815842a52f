"""Rows of ``matvec`` for AVX2: a unit of a row is unpacked and transposed once and meets all tokens."""

from __future__ import annotations

from typing import Any, Final

from engine.kernels.cpu.formats import UNIT_BYTES
from engine.kernels.cpu.matvec_row import PADDING_ROW_BYTES, prefetch_bytes, row_source, write_result
from engine.kernels.cpu.operands import MATMUL_ACTIVATION, MATMUL_ROW_BYTES, MATMUL_WIDTH
from engine.kernels.cpu.pair_tail import (
    TAIL_ACTIVATIONS,
    TAIL_WEIGHTS,
    add_row,
    copy_tail,
    packed_blocks,
    spread_tail,
)
from engine.kernels.cpu.pair_unit import add_unit, order_scales, sum_lanes, transpose_unit
from engine.kernels.cpu.simd import inline, load_f32x8, load_i64, store_f32x8, zeros_f32x8
from engine.kernels.cpu.units import Unit

PAIR_VALUES: Final = 256  # of a unit
# A page: the processor fetches ahead within one, but does not look up the next one's address.
_AHEAD_BYTES: Final = 4096
# Units of a slice times tokens, 20 KiB that are read: they stay in the L1 cache (a sixth faster on 8192 values).
_SLICE: Final = 64
_ROUND_ROWS: Final = 16  # that meet a slice before the next one, and how far ahead weights are fetched


def pair_rows(unit: Unit, has_tails: bool) -> tuple[Any, Any]:
    """``f(op, scratch, first, end)`` for one token and ``f(op, scratch, first, end, num_tokens)`` for several.

    ``has_tails`` where rows may end within a unit.
    """
    load_unit, unit_bytes = _unit_loader(unit), unit.num_bytes * 8 // unit.num_blocks
    add = add_unit(unit)

    @inline
    def one(op: int, scratch: int, first: int, end: int) -> None:
        width, activation = load_i64(op + 8 * MATMUL_WIDTH), load_i64(op + 8 * MATMUL_ACTIVATION)
        tail = packed_blocks(width) if has_tails else 0
        all_units = (width + PAIR_VALUES - 1) // PAIR_VALUES
        units, group = all_units, 1
        totals = scratch + PADDING_ROW_BYTES
        if tail != 0:
            units, group = all_units - 1, 8 // tail
            spread_tail(activation + UNIT_BYTES * units, totals + TAIL_ACTIVATIONS, tail)
        for base in range(first, end, group):
            last = min(base + group, end)
            for row in range(
                base, last
            ):  # one at a time: two streams of weights are fetched a third slower than one
                source, here = row_source(op, row, all_units * unit_bytes, scratch), activation
                total = zeros_f32x8()
                for _ in range(units):
                    prefetch_bytes(source + _AHEAD_BYTES, unit_bytes)
                    vectors, scales, offsets = load_unit(source)
                    total = add(total, vectors, scales, offsets, here)
                    source += unit_bytes
                    here += UNIT_BYTES
                if tail == 0:
                    write_result(op, row, 0, sum_lanes(total))
                else:
                    store_f32x8(totals + 32 * (row - base), total)
                    copy_tail(source, totals + TAIL_WEIGHTS, row - base, unit_bytes * tail // 8)
            if has_tails and tail != 0:
                vectors, scales, offsets = load_unit(totals + TAIL_WEIGHTS)
                tails = add(zeros_f32x8(), vectors, scales, offsets, totals + TAIL_ACTIVATIONS)
                for row in range(base, last):
                    total = add_row(load_f32x8(totals + 32 * (row - base)), tails, tail * (row - base), tail)
                    write_result(op, row, 0, sum_lanes(total))

    @inline
    def several(op: int, scratch: int, first: int, end: int, num_tokens: int) -> None:
        width, row_bytes = load_i64(op + 8 * MATMUL_WIDTH), load_i64(op + 8 * MATMUL_ROW_BYTES)
        tail = packed_blocks(width) if has_tails else 0
        all_units = (width + PAIR_VALUES - 1) // PAIR_VALUES
        units, group = all_units, 1
        slice_units = _SLICE // num_tokens
        totals = scratch + PADDING_ROW_BYTES  # [row of a round][token] F32X8
        if tail != 0:
            units, group = all_units - 1, 8 // tail
            for token in range(num_tokens):
                source = load_i64(op + 8 * MATMUL_ACTIVATION) + UNIT_BYTES * (num_tokens * units + token)
                spread_tail(source, totals + TAIL_ACTIVATIONS + UNIT_BYTES * token, tail)
        for base in range(first, end, _ROUND_ROWS):
            count = min(_ROUND_ROWS, end - base)
            for index in range(count * num_tokens):
                store_f32x8(totals + 32 * index, zeros_f32x8())
            for start in range(0, units, slice_units):
                for row in range(count):
                    source = row_source(op, base + row, all_units * unit_bytes, scratch) + unit_bytes * start
                    activation = load_i64(op + 8 * MATMUL_ACTIVATION) + UNIT_BYTES * num_tokens * start
                    for _ in range(min(slice_units, units - start)):
                        prefetch_bytes(source + _ROUND_ROWS * row_bytes, unit_bytes)
                        vectors, scales, offsets = load_unit(source)
                        total = totals + 32 * num_tokens * row
                        for _ in range(num_tokens):
                            store_f32x8(total, add(load_f32x8(total), vectors, scales, offsets, activation))
                            total += 32
                            activation += UNIT_BYTES
                        source += unit_bytes
            if has_tails and tail != 0:
                for start in range(0, count, group):
                    last = min(start + group, count)
                    for row in range(start, last):
                        source = row_source(op, base + row, all_units * unit_bytes, scratch) + unit_bytes * units
                        copy_tail(source, totals + TAIL_WEIGHTS, row - start, unit_bytes * tail // 8)
                    vectors, scales, offsets = load_unit(totals + TAIL_WEIGHTS)
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

    return one, several


def _unit_loader(unit: Unit) -> Any:
    """``f(source) -> (vectors, scales, offsets)`` of eight blocks, as ``add_unit`` takes them."""
    load, half_bytes = unit.load, unit.num_bytes
    is_whole = unit.num_blocks == 8
    transpose, order = transpose_unit(1 if is_whole else 2), order_scales(unit)

    @inline
    def load_whole(source: int) -> Any:
        weights, scales, offsets = load(source)
        return transpose(weights), order(scales), order(offsets)

    @inline
    def load_halves(source: int) -> Any:
        weights, scales, offsets = load(source)
        weights_2, scales_2, offsets_2 = load(source + half_bytes)
        return transpose(weights, weights_2), order(scales, scales_2), order(offsets, offsets_2)

    return load_whole if is_whole else load_halves
