"""Causal attention over the paged KV cache, the same code for one token at depth and for a long prompt.

The queries of one KV head are rows: row i is query head ``i % group`` of token ``i // group`` of a sequence. A
work item is a tile of rows, one KV head, and a stretch of the context: the whole of it, or, when a batch has too
few tiles to occupy the threads (decode), one of several parts whose results the last finisher merges. Threads
claim items from a counter. Within an item the context is read 128 positions at a time (softmax as it goes:
Milakov and Gimelshein 2018, Dao et al. 2022):

    scores   tile of rows x 16 positions, one key value of 16 tokens a load, queries in [dim][rows]
    softmax  running maximum and sum a row; what was gathered is scaled when the maximum grows
    values   tile of rows x 16 or more values, one token a load

Scratch of a thread: queries, scores (rows, 128), gathered values (rows, padded value_dim), then maxima, sums,
factors and sums of a chunk of the rows, 16 floats each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.kernels.cpu.elementwise import cap_vector
from engine.kernels.cpu.layouts import (
    ATTENTION_ARRIVALS,
    ATTENTION_COUNTER,
    ATTENTION_GROUP,
    ATTENTION_KEY_DIM,
    ATTENTION_KEY_HEAD_BYTES,
    ATTENTION_KEYS,
    ATTENTION_KV_HEADS,
    ATTENTION_OUT,
    ATTENTION_PARTIALS,
    ATTENTION_QUERY,
    ATTENTION_SCALE,
    ATTENTION_SINKS,
    ATTENTION_SOFT_CAP,
    ATTENTION_VALUE_DIM,
    ATTENTION_VALUE_HEAD_BYTES,
    ATTENTION_VALUES,
    ATTENTION_WINDOW,
    MAX_SPLIT_ITEMS,
    MAX_SPLIT_SLICES,
    PREFILL_ROWS,
)
from engine.kernels.cpu.rows import store_part
from engine.kernels.cpu.simd import (
    F32X16,
    atomic_add,
    atomic_store,
    call_llvm,
    define,
    exp,
    fma,
    inline,
    load_f32,
    load_f32x16,
    load_i32,
    load_i64,
    maximum,
    reduce_add,
    reduce_max,
    splat_f32x16,
    store_f32,
    store_f32x16,
    zeros_f32x16,
)
from engine.kernels.cpu.step_state import (
    NUM_SLICES,
    SCRATCH,
    SCRATCH_BYTES,
    SLICE_BLOCK_TABLE,
    SLICE_FIRST_TOKEN,
    SLICE_NUM_TOKENS,
    SLICE_SLOTS,
    SLICE_START,
    SLICES,
)
from engine.kernels.cpu.tile import tile_add, tile_load, tile_multiply_add, tile_scale, tile_store, tile_zeros

CHUNK = 128  # positions between two updates of the softmax: their scores and values stay in the first-level cache
MIN_PART = 256  # positions of a part of a context, at least: less is not worth the merge
HIDDEN = np.float32(-1e30)  # score of a position a row may not see
# keep_order(sum): the same, but nothing added to it is added to something else first, as fast arithmetic may.
keep_order = define(F32X16, [F32X16], lambda b, x: call_llvm(b, "llvm.arithmetic.fence.v16f32", x.type, [x]))
LOWEST = np.float32(-1e20)  # running maximum before the first visible position; exp(HIDDEN - LOWEST) is 0


@inline
def pack(op, work, first, last, head, group, rows, query):  # type: ignore[no-untyped-def]
    """Scaled queries of rows ``first`` to ``last`` to [dim][rows]; rows beyond repeat the last."""
    dim, scale = load_i64(op + ATTENTION_KEY_DIM * 8), load_f32(op + ATTENTION_SCALE * 8)
    heads = load_i64(op + ATTENTION_KV_HEADS * 8) * group
    for row in range(rows):
        index = min(first + row, last)
        source = query + ((index // group) * heads + head * group + index % group) * dim * 4
        for i in range(dim):
            store_f32(work + (i * rows + row) * 4, load_f32(source + i * 4) * scale)


@inline
def hide(scores, first, last, group, rows, start, window, begin, end):  # type: ignore[no-untyped-def]
    """Take out of the scores of positions [begin, end) those that a row may not see."""
    for row in range(rows):
        position = start + min(first + row, last) // group
        for j in range(max(position + 1, begin), end):
            store_f32(scores + (row * CHUNK + j - begin) * 4, HIDDEN)
        if window > 0:
            for j in range(begin, min(position + 1 - window, end)):
                store_f32(scores + (row * CHUNK + j - begin) * 4, HIDDEN)


@inline
def soften(scores, state, rows, size):  # type: ignore[no-untyped-def]
    """Scores (``size`` bytes a row) to weights; maxima, sums and the factors of what was gathered to ``state``.

    All rows take the same operations in the same order, so that a token's result does not depend on what else is
    computed with it: a last bit more or less, and the rounding to int8 after it moves log-probabilities by tenths.
    """
    old = load_f32x16(state)
    for row in range(rows):
        line = scores + row * CHUNK * 4
        top = splat_f32x16(load_f32(state + row * 4))
        for i in range(0, size, 64):
            top = maximum(top, load_f32x16(line + i))
        store_f32(state + row * 4, reduce_max(top))
    factors = exp(old - load_f32x16(state))
    store_f32x16(state + 128, factors)
    for row in range(rows):
        line = scores + row * CHUNK * 4
        top, total = splat_f32x16(load_f32(state + row * 4)), zeros_f32x16()
        for i in range(0, size, 64):
            weight = exp(load_f32x16(line + i) - top)
            total = keep_order(total) + weight
            store_f32x16(line + i, weight)
        store_f32(state + 192 + row * 4, reduce_add(total))
    store_f32x16(state + 64, fma(load_f32x16(state + 64), factors, load_f32x16(state + 192)))


@inline
def finish(op, gathered, state, first, last, head, group, rows, out):  # type: ignore[no-untyped-def]
    """Divide by the sums, the sinks among them, and store the rows."""
    value_dim = load_i64(op + ATTENTION_VALUE_DIM * 8)
    width, heads = (value_dim + 15) // 16 * 16, load_i64(op + ATTENTION_KV_HEADS * 8) * group
    sinks = load_i64(op + ATTENTION_SINKS * 8)
    factors = state + 128
    if sinks != 0:
        for row in range(rows):
            index = min(first + row, last)
            store_f32(factors + row * 4, load_f32(sinks + (head * group + index % group) * 4))
        top = maximum(load_f32x16(state), load_f32x16(factors))
        shrink = exp(load_f32x16(state) - top)
        total = fma(load_f32x16(state + 64), shrink, exp(load_f32x16(factors) - top))
        store_f32x16(factors, shrink / total)
    else:
        store_f32x16(factors, splat_f32x16(np.float32(1)) / load_f32x16(state + 64))
    for row in range(min(rows, last + 1 - first)):
        index = first + row
        target = out + ((index // group) * heads + head * group + index % group) * value_dim * 4
        factor = splat_f32x16(load_f32(factors + row * 4))
        for i in range(0, value_dim, 16):
            store_part(target + i * 4, load_f32x16(gathered + (row * width + i) * 4) * factor, value_dim - i)


@inline
def merge(partials, size, num_parts, gathered, state, rows, width):  # type: ignore[no-untyped-def]
    """Sum the results of the parts of a context, each scaled to the common maximum."""
    rest = rows * width * 4  # maxima and sums follow the values
    top = load_f32x16(partials + rest)
    for part in range(1, num_parts):
        top = maximum(top, load_f32x16(partials + part * size + rest))
    total = zeros_f32x16()
    for i in range(0, rows * width, 16):
        store_f32x16(gathered + i * 4, zeros_f32x16())
    for part in range(num_parts):
        partial = partials + part * size
        factors = exp(load_f32x16(partial + rest) - top)
        total = fma(load_f32x16(partial + rest + 64), factors, total)
        store_f32x16(state + 128, factors)
        for row in range(rows):
            factor = splat_f32x16(load_f32(state + 128 + row * 4))
            for i in range(row * width * 4, (row + 1) * width * 4, 64):
                store_f32x16(gathered + i, fma(load_f32x16(partial + i), factor, load_f32x16(gathered + i)))
    store_f32x16(state, top)
    store_f32x16(state + 64, total)


def score_function(rows: int) -> Any:
    """Makes the scores of ``rows`` query rows and 16 positions."""
    zeros, multiply_add = tile_zeros(rows, 1), tile_multiply_add(rows, 1, 4)
    add, store = tile_add(rows, 1), tile_store(rows, 1)

    @inline
    def score_few(scores, keys, queries, dim):  # type: ignore[no-untyped-def]
        """Two sums a row: one would wait for itself."""
        even, odd = zeros(), zeros()
        for i in range(0, dim & ~1, 2):
            even = multiply_add(even, queries + i * rows * 4, keys + i * 32)
            odd = multiply_add(odd, queries + (i + 1) * rows * 4, keys + i * 32 + 32)
        if dim & 1:
            even = multiply_add(even, queries + (dim - 1) * rows * 4, keys + (dim - 1) * 32)
        store(scores, CHUNK * 4, add(even, odd))

    @inline
    def score_many(scores, keys, queries, dim):  # type: ignore[no-untyped-def]
        sums = zeros()
        for i in range(dim):
            sums = multiply_add(sums, queries + i * rows * 4, keys + i * 32)
        store(scores, CHUNK * 4, sums)

    return score_few if rows <= 4 else score_many


def weigh_function(rows: int, columns: int) -> Any:
    """Makes the sums of the values of a chunk, ``columns`` vectors at a time."""
    load, store, scale = tile_load(rows, columns), tile_store(rows, columns), tile_scale(rows, columns)
    multiply_add = tile_multiply_add(rows, columns, CHUNK * 4)

    @inline
    def weigh(values, table, scores, gathered, state, blocks, end, width, begin_column, end_column):  # type: ignore[no-untyped-def]
        """Gathered values times the factors, plus weights times the values of ``blocks`` below position ``end``."""
        for i in range(begin_column, end_column, 16 * columns):
            sums = scale(load(gathered + i * 4, width * 4), state + 128)
            for block in range(blocks[0], blocks[1]):
                value = values + np.int64(load_i32(table + block * 4)) * width * 32 + i * 2
                weights = scores + (block - blocks[0]) * 64
                for slot in range(min(16, end - block * 16)):
                    sums = multiply_add(sums, weights + slot * 4, value + slot * width * 2)
            store(gathered + i * 4, width * 4, sums)

    return weigh


def gather_function(decode_rows: int) -> Any:
    """Makes the walk over a stretch of the context; only its inner loops are made for each height of a tile."""
    score_token, score_tokens = score_function(decode_rows), score_function(PREFILL_ROWS)
    token_columns = 4 if decode_rows <= 4 else 2  # enough sums in flight, few enough for the registers
    weigh_token, weigh_token_rest = weigh_function(decode_rows, token_columns), weigh_function(decode_rows, 1)
    weigh_tokens, weigh_tokens_rest = weigh_function(PREFILL_ROWS, 2), weigh_function(PREFILL_ROWS, 1)

    @inline
    def gather(op, work, gathered, state, rows, first, last, head, group, start, table, blocks):  # type: ignore[no-untyped-def]
        """Attend to the positions of ``blocks``; leaves values, maxima and sums in scratch."""
        dim, width = load_i64(op + ATTENTION_KEY_DIM * 8), (load_i64(op + ATTENTION_VALUE_DIM * 8) + 15) // 16 * 16
        keys = load_i64(op + ATTENTION_KEYS * 8) + head * load_i64(op + ATTENTION_KEY_HEAD_BYTES * 8)
        values = load_i64(op + ATTENTION_VALUES * 8) + head * load_i64(op + ATTENTION_VALUE_HEAD_BYTES * 8)
        window, cap = load_i64(op + ATTENTION_WINDOW * 8), load_f32(op + ATTENTION_SOFT_CAP * 8)
        scores, end = work + dim * rows * 4, start + last // group + 1
        for i in range(0, rows * width, 16):
            store_f32x16(gathered + i * 4, zeros_f32x16())
        store_f32x16(state, splat_f32x16(LOWEST))
        store_f32x16(state + 64, zeros_f32x16())
        store_f32x16(state + 192, zeros_f32x16())
        for chunk in range(blocks[0], blocks[1], CHUNK // 16):
            stop = min(chunk + CHUNK // 16, blocks[1])
            for block in range(chunk, stop):
                key = keys + np.int64(load_i32(table + block * 4)) * dim * 32
                if rows == PREFILL_ROWS:
                    score_tokens(scores + (block - chunk) * 64, key, work, dim)
                else:
                    score_token(scores + (block - chunk) * 64, key, work, dim)
            if cap != np.float32(0):
                for row in range(rows):
                    for place in range(
                        scores + row * CHUNK * 4, scores + row * CHUNK * 4 + (stop - chunk) * 64, 64
                    ):
                        store_f32x16(place, cap_vector(load_f32x16(place), splat_f32x16(cap)))
            hide(scores, first, last, group, rows, start, window, chunk * 16, stop * 16)
            soften(scores, state, rows, (stop - chunk) * 64)
            if rows == PREFILL_ROWS:
                wide = width // 32 * 32
                weigh_tokens(values, table, scores, gathered, state, (chunk, stop), end, width, 0, wide)
                weigh_tokens_rest(values, table, scores, gathered, state, (chunk, stop), end, width, wide, width)
            else:
                wide = width // (16 * token_columns) * (16 * token_columns)
                weigh_token(values, table, scores, gathered, state, (chunk, stop), end, width, 0, wide)
                weigh_token_rest(values, table, scores, gathered, state, (chunk, stop), end, width, wide, width)

    return gather


def attend_function(decode_rows: int) -> Any:
    """Makes the function that does one work item."""
    gather = gather_function(decode_rows)

    @inline
    def attend(op, work, piece, slot, item, rows, num_tiles, num_parts):  # type: ignore[no-untyped-def]
        """Item ``item`` of (kv heads, tiles, parts) of a slice; ``slot`` numbers the slice's partial results."""
        part, tile, head = item % num_parts, item // num_parts % num_tiles, item // (num_parts * num_tiles)
        group = load_i64(op + ATTENTION_GROUP * 8)
        dim, value_dim = load_i64(op + ATTENTION_KEY_DIM * 8), load_i64(op + ATTENTION_VALUE_DIM * 8)
        width, heads = (value_dim + 15) // 16 * 16, load_i64(op + ATTENTION_KV_HEADS * 8) * group
        first_token, start = load_i64(piece + SLICE_FIRST_TOKEN * 8), load_i64(piece + SLICE_START * 8)
        table, window = load_i64(piece + SLICE_BLOCK_TABLE * 8), load_i64(op + ATTENTION_WINDOW * 8)
        first = tile * rows
        last = min(first + rows, load_i64(piece + SLICE_NUM_TOKENS * 8) * group) - 1
        query = load_i64(op + ATTENTION_QUERY * 8) + first_token * heads * dim * 4
        out = load_i64(op + ATTENTION_OUT * 8) + first_token * heads * value_dim * 4
        begin = 0
        if window > 0:
            begin = max(start + first // group + 1 - window, 0) >> 4
        num_blocks = ((start + last // group) >> 4) + 1 - begin
        blocks = begin + num_blocks * part // num_parts, begin + num_blocks * (part + 1) // num_parts
        gathered = work + (dim + CHUNK) * rows * 4
        state = gathered + rows * width * 4
        pack(op, work, first, last, head, group, rows, query)
        gather(op, work, gathered, state, rows, first, last, head, group, start, table, blocks)
        is_complete = num_parts == 1
        if not is_complete:
            size = (rows * width + 32) * 4
            partials = load_i64(op + ATTENTION_PARTIALS * 8) + (slot + item - part) * size
            for i in range(0, size, 64):
                store_f32x16(partials + part * size + i, load_f32x16(gathered + i))
            arrivals = load_i64(op + ATTENTION_ARRIVALS * 8) + (slot + item - part) * 8
            is_complete = atomic_add(arrivals, 1) == num_parts - 1
            if is_complete:
                atomic_store(arrivals, 0)
                merge(partials, size, num_parts, gathered, state, rows, width)
        if is_complete:
            finish(op, gathered, state, first, last, head, group, rows, out)

    return attend


def attention_kernel(decode_rows: int) -> Any:
    """Makes the kernel for layers whose KV heads serve ``decode_rows`` query heads, at most 8."""
    attend = attend_function(decode_rows)

    def attention(op: int, step: int, thread: int, num_threads: int) -> None:
        """Kernel: out = softmax(scale * query . keys) values, causal."""
        work = load_i64(step + SCRATCH * 8) + thread * load_i64(step + SCRATCH_BYTES * 8)
        counter, kv_heads = load_i64(op + ATTENTION_COUNTER * 8), load_i64(op + ATTENTION_KV_HEADS * 8)
        group, window = load_i64(op + ATTENTION_GROUP * 8), load_i64(op + ATTENTION_WINDOW * 8)
        claimed, before = atomic_add(counter, 1), 0
        for index in range(load_i64(step + NUM_SLICES * 8)):
            piece = load_i64(step + SLICES * 8) + index * SLICE_SLOTS * 8
            num_tokens = load_i64(piece + SLICE_NUM_TOKENS * 8)
            rows = decode_rows if num_tokens == 1 else PREFILL_ROWS
            num_tiles = (num_tokens * group + rows - 1) // rows
            span = load_i64(piece + SLICE_START * 8) + num_tokens
            if window > 0:
                span = min(span, window + num_tokens)
            num_parts = 1
            if num_threads > 1 and index < MAX_SPLIT_SLICES:
                num_parts = max(min(span // MIN_PART, MAX_SPLIT_ITEMS // (kv_heads * num_tiles)), 1)
            num_items = kv_heads * num_tiles * num_parts
            while claimed < before + num_items:
                attend(op, work, piece, index * MAX_SPLIT_ITEMS, claimed - before, rows, num_tiles, num_parts)
                claimed = atomic_add(counter, 1)
            before += num_items

    return attention
