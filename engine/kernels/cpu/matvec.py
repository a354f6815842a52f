"""Matmuls of up to MATVEC_TOKENS tokens: one pass over the weights where they lie.

Owns the loop over rows that all types share. What a type adds is a *step*: the dot product of one unit of weights
with each token's activations,

    step(sums, minus, source, q, scale, block_sums, stride, last) -> (sums, minus)

where ``sums`` and ``minus`` are tiles whose difference of totals is the result, and the addresses are those of the
first token (see ``dot``). ``generic_step`` makes one for any type by way of its unpacker; ``matvec_legacy`` and
``matvec_k`` have those that unpack in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import types

from engine.kernels.cpu.dot_tiles import add_products, dot_blocks, dot_half_blocks, store_sums, tile_zeros
from engine.kernels.cpu.formats import GROUP, SIGNED_BIAS
from engine.kernels.cpu.operands import (
    MATMUL_ACCUMULATE,
    MATMUL_ACTIVATION,
    MATMUL_BIAS,
    MATMUL_COUNTER,
    MATMUL_OUT,
    MATMUL_OUT_STRIDE,
    MATMUL_ROW_BYTES,
    MATMUL_ROWS,
    MATMUL_WEIGHT,
    MATMUL_WIDTH,
)
from engine.kernels.cpu.simd import (
    F32X4,
    F32X8,
    F32X16,
    I64,
    U8X16,
    U8X64,
    Vector,
    atomic_add,
    define,
    inline,
    load_f32,
    load_f32x4,
    load_f32x8,
    load_i64,
    load_u8,
    load_value,
    prefetch,
    shuffle,
    shuffle_value,
    splat_f32x4,
    splat_f32x8,
    store_f32,
    store_i8,
)
from engine.kernels.cpu.weight_types import WeightType

Matvec = Callable[[int, int, int, int, int], None]  # (op, scratch, num_tokens, thread, num_threads)

TOKEN_COUNTS = (1, 4)  # tokens of the compiled variants; five to eight take two rounds over rows in cache
_ROUND_BYTES = 64 << 10  # weights of the rows of a round at most, so that the second finds them in cache
_AHEAD_BYTES = 4096  # a page: the processor fetches ahead within one, but does not look up the next one's address
_LINE_BYTES = 64
_PADDING_ROW_BYTES = 128 << 10  # scratch for the copy of a row at the end of the tensor


@dataclass(frozen=True)
class Step:
    """A type's step for one number of tokens.

    Attributes:
        function: the inlined step.
        minus: vector type of the ``minus`` tile.
        unit_values: weights that one step reads.
        unit_bytes: bytes of them, all of which are read; a row may end within its last unit.
        values_per_sum: 32 or 16: whether ``block_sums`` are sum32 or sum16.
    """

    function: Any
    minus: Vector
    unit_values: int
    unit_bytes: int
    values_per_sum: int = 32


def _emit_load_4x16(b: Any, address: Any, stride: Any) -> Any:
    parts = [load_value(b, b.add(address, b.mul(stride, stride.type(index))), U8X16.llvm) for index in range(4)]
    pairs = [shuffle_value(b, parts[index], range(32), parts[index + 1]) for index in (0, 2)]
    return shuffle_value(b, pairs[0], range(64), pairs[1])


# load_4x16(address, stride): 4 x 16 bytes, ``stride`` apart, as one vector.
load_4x16 = define(U8X64, [types.int64, types.int64], _emit_load_4x16)
even_lanes = shuffle(F32X8, [0, 2, 4, 6])
odd_lanes = shuffle(F32X8, [1, 3, 5, 7])


def _emit_stack_bytes(b: Any) -> Any:
    with b.goto_entry_block():
        space = b.alloca(U8X64.llvm, 6)
    return b.ptrtoint(space, I64)


stack_bytes = define(types.int64, [], _emit_stack_bytes)  # 384 bytes that live as long as the function


@inline
def large_chunk(rows: int, num_threads: int) -> Any:
    """Rows of each thread's first chunk, three quarters of its share.

    A long run of rows lets the processor fetch ahead, where alternating small ones cost a quarter of the bandwidth.
    """
    return rows * 3 // (4 * num_threads)


@inline
def small_chunk(rows: int, num_threads: int) -> Any:
    """Rows of the later chunks, which even out threads of unequal speed."""
    rest = rows - large_chunk(rows, num_threads) * num_threads
    return (rest + 2 * num_threads - 1) // (2 * num_threads)


def make_matvec(make_step: Callable[[int], Step], name: str) -> Matvec:
    """The function that computes a thread's share of a MATMUL with few tokens."""
    one, four = (_make_rows(make_step(count), count) for count in TOKEN_COUNTS)

    def matvec(op: int, scratch: int, num_tokens: int, thread: int, num_threads: int) -> None:
        rows, row_bytes = load_i64(op + 8 * MATMUL_ROWS), load_i64(op + 8 * MATMUL_ROW_BYTES)
        counter = load_i64(op + 8 * MATMUL_COUNTER)
        large, small = large_chunk(rows, num_threads), small_chunk(rows, num_threads)
        round_rows = max(1, _ROUND_BYTES // row_bytes)
        while True:
            chunk = atomic_add(counter, 1)
            first, end = chunk * large, (chunk + 1) * large
            if chunk >= num_threads:
                first = num_threads * large + (chunk - num_threads) * small
                end = min(first + small, rows)
                if first >= rows:
                    break
            if num_tokens == 1:
                one(op, scratch, first, end, 0, 1)
            else:
                for row in range(first, end, round_rows):
                    for token in range(0, num_tokens, 4):
                        four(op, scratch, row, min(row + round_rows, end), token, min(4, num_tokens - token))

    matvec.__name__ = f"matvec_{name.lower()}"
    return inline(matvec)


@inline
def row_source(weights: int, row_bytes: int, row: int, rows: int, needed: int, scratch: int) -> Any:
    """Address of a row of which ``needed`` bytes may be read: a padded copy where that would leave the tensor."""
    source = weights + row_bytes * row
    if source + needed > weights + row_bytes * rows:
        for index in range(row_bytes):
            store_i8(scratch + index, np.int8(load_u8(source + index)))
        for index in range(row_bytes, needed):
            store_i8(scratch + index, np.int8(0))
        source = scratch
    return source


def _make_rows(step: Step, count: int) -> Any:
    function, unit_values, unit_bytes = step.function, step.unit_values, step.unit_bytes
    values_per_sum = step.values_per_sum
    sums_zeros, minus_zeros = tile_zeros(F32X16, count), tile_zeros(step.minus, count)
    store = store_sums(step.minus, count)

    @inline
    def rows_loop(op: int, scratch: int, first: int, end: int, first_token: int, num_tokens: int) -> None:
        """Rows ``first`` to ``end`` of tokens ``first_token`` to ``first_token + num_tokens``."""
        weights, row_bytes = load_i64(op + 8 * MATMUL_WEIGHT), load_i64(op + 8 * MATMUL_ROW_BYTES)
        rows, width = load_i64(op + 8 * MATMUL_ROWS), load_i64(op + 8 * MATMUL_WIDTH)
        out, out_stride = load_i64(op + 8 * MATMUL_OUT), load_i64(op + 8 * MATMUL_OUT_STRIDE)
        bias, accumulate = load_i64(op + 8 * MATMUL_BIAS), load_i64(op + 8 * MATMUL_ACCUMULATE)
        padded = (width + GROUP - 1) // GROUP * GROUP
        stride = padded + padded // 2
        activation = load_i64(op + 8 * MATMUL_ACTIVATION) + stride * first_token
        units = (width + unit_values - 1) // unit_values
        for row in range(first, end):  # one at a time: two streams of weights are fetched a third slower than one
            source = row_source(weights, row_bytes, row, rows, units * unit_bytes, scratch)
            q, scale = activation, activation + padded
            block_sums = scale + padded // 8 * (32 // values_per_sum)
            sums, minus = sums_zeros(), minus_zeros()
            for _ in range(units):
                for offset in range(0, unit_bytes, _LINE_BYTES):
                    prefetch(source + offset + _AHEAD_BYTES)
                sums, minus = function(sums, minus, source, q, scale, block_sums, stride, num_tokens - 1)
                source += unit_bytes
                q += unit_values
                scale += unit_values // 8
                block_sums += unit_values // values_per_sum * 4
            results = scratch + _PADDING_ROW_BYTES
            store(sums, minus, results)
            for token in range(num_tokens):
                value = load_f32(results + 4 * token)
                target = out + 4 * (out_stride * (first_token + token) + row)
                if bias != 0:
                    value += load_f32(bias + 4 * row)
                if accumulate != 0:
                    value += load_f32(target)
                store_f32(target, value)

    return rows_loop


def generic_step(weight: WeightType) -> Callable[[int], Step]:
    """Steps that unpack one block (or four of 32) to scratch memory first: right for all types, fast for none."""
    blocks = max(1, GROUP // weight.block_values)
    values = blocks * weight.block_values
    unpack, is_affine = weight.unpack, weight.is_affine
    bias = np.float32(SIGNED_BIAS)

    def make(count: int) -> Step:
        dot, dot_halves = dot_blocks(count, not is_affine), dot_half_blocks(count, not is_affine)
        subtract_4, subtract_8 = add_products(F32X4, count), add_products(F32X8, count)

        @inline
        def step_32(
            sums: Any, minus: Any, source: int, q: int, scale: int, block_sums: int, stride: int, last: int
        ) -> Any:
            space = stack_bytes()
            unpack(source, blocks, space, space + 256, space + 320, 4)
            for k in range(0, values, GROUP):
                scales, low, high = (
                    load_f32x4(space + 256 + k // 8),
                    load_4x16(space + k, 32),
                    load_4x16(space + k + 16, 32),
                )
                sums = dot(sums, low, high, scales, q + k, scale + k // 8, stride, last)
                offsets = load_f32x4(space + 320 + k // 8) if is_affine else scales * splat_f32x4(bias)
                minus = subtract_4(minus, offsets, block_sums + k // 8, stride, last)
            return sums, minus

        @inline
        def step_16(
            sums: Any, minus: Any, source: int, q: int, scale: int, block_sums: int, stride: int, last: int
        ) -> Any:
            space = stack_bytes()
            unpack(source, blocks, space, space + 256, space + 320, 4)
            for k in range(0, values, GROUP):
                scales, low, high = (
                    load_f32x8(space + 256 + k // 4),
                    load_4x16(space + k, 32),
                    load_4x16(space + k + 16, 32),
                )
                sums = dot_halves(
                    sums, low, high, even_lanes(scales), odd_lanes(scales), q + k, scale + k // 8, stride, last
                )
                offsets = load_f32x8(space + 320 + k // 4) if is_affine else scales * splat_f32x8(bias)
                minus = subtract_8(minus, offsets, block_sums + k // 4, stride, last)
            return sums, minus

        unit_bytes = blocks * weight.block_bytes
        if weight.values_per_scale == 32:
            return Step(step_32, F32X4, values, unit_bytes)
        return Step(step_16, F32X8, values, unit_bytes, values_per_sum=16)

    return make
