"""Rows of ``matvec`` where the processor sums products of bytes in 32 bits: a block of a row in four lanes."""

from __future__ import annotations

from typing import Any

from engine.kernels.cpu.dot_tiles import add_products, dot_unit, store_sums, tile_zeros
from engine.kernels.cpu.formats import GROUP
from engine.kernels.cpu.matvec_row import PADDING_ROW_BYTES, prefetch_bytes, row_source, write_result
from engine.kernels.cpu.operands import MATMUL_ACTIVATION, MATMUL_ROW_BYTES, MATMUL_WIDTH
from engine.kernels.cpu.simd import F32X16, inline, load_f32, load_i64
from engine.kernels.cpu.units import Unit

_TOKENS = 4  # of the variant for several; five to eight take two rounds over rows in cache
_ROUND_BYTES = 64 << 10  # weights of the rows of a round at most, so that the second finds them in cache
_AHEAD_BYTES = 4096  # a page: the processor fetches ahead within one, but does not look up the next one's address


def lane_rows(unit: Unit) -> tuple[Any, Any]:
    """``f(op, scratch, first, end)`` for one token and ``f(op, scratch, first, end, num_tokens)`` for several."""
    one_token, four_tokens = _rows_loop(unit, 1), _rows_loop(unit, _TOKENS)

    @inline
    def one(op: int, scratch: int, first: int, end: int) -> None:
        one_token(op, scratch, first, end, 0, 1)

    @inline
    def several(op: int, scratch: int, first: int, end: int, num_tokens: int) -> None:
        round_rows = max(1, _ROUND_BYTES // load_i64(op + 8 * MATMUL_ROW_BYTES))
        for row in range(first, end, round_rows):
            for token in range(0, num_tokens, _TOKENS):
                count = min(_TOKENS, num_tokens - token)
                four_tokens(op, scratch, row, min(row + round_rows, end), token, count)

    return one, several


def _rows_loop(unit: Unit, count: int) -> Any:
    load_unit, unit_values, unit_bytes = unit.load, unit.num_values, unit.num_bytes
    values_per_sum = unit.values_per_scale
    dot = dot_unit(count, unit.is_signed, unit.num_vectors, unit.values_per_scale)
    subtract = add_products(unit.scales, count)
    sums_zeros, minus_zeros = tile_zeros(F32X16, count), tile_zeros(unit.scales, count)
    store = store_sums(unit.scales, count)

    @inline
    def rows_loop(op: int, scratch: int, first: int, end: int, first_token: int, num_tokens: int) -> None:
        """Rows ``first`` to ``end`` of tokens ``first_token`` to ``first_token + num_tokens``."""
        width = load_i64(op + 8 * MATMUL_WIDTH)
        padded = (width + GROUP - 1) // GROUP * GROUP
        stride, last = padded + padded // 2, num_tokens - 1
        activation = load_i64(op + 8 * MATMUL_ACTIVATION) + stride * first_token
        units = (width + unit_values - 1) // unit_values
        for row in range(first, end):  # one at a time: two streams of weights are fetched a third slower than one
            source = row_source(op, row, units * unit_bytes, scratch)
            q, scale = activation, activation + padded
            block_sums = scale + padded // 8 * (32 // values_per_sum)
            sums, minus = sums_zeros(), minus_zeros()
            for _ in range(units):
                prefetch_bytes(source + _AHEAD_BYTES, unit_bytes)
                weights, scales, offsets = load_unit(source)
                sums = dot(sums, weights, scales, q, scale, stride, last)
                minus = subtract(minus, offsets, block_sums, stride, last)
                source += unit_bytes
                q += unit_values
                scale += unit_values // 8
                block_sums += unit_values // values_per_sum * 4
            results = scratch + PADDING_ROW_BYTES
            store(sums, minus, results)
            for token in range(num_tokens):
                write_result(op, row, first_token + token, load_f32(results + 4 * token))

    return rows_loop
