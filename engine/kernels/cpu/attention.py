"""Causal attention over the paged KV cache, the same code for one token at depth and for a long prompt.

The queries of one KV head are rows: row i is query head ``i % group`` of token ``i // group`` of a sequence. A
work item is a piece, one or several tiles of rows, one KV head, and a stretch of the context: the whole of it, or,
when a batch has too few pieces to occupy the threads (decode), one of several parts whose results the last finisher
merges. Threads claim items from a counter. Within an item the context is read CHUNK positions at a time (softmax as
it goes: Milakov and Gimelshein 2018, Dao et al. 2022), each chunk by tile after tile:

    scores   tile of rows x 16 positions, one key value of 16 tokens a load, queries in [dim][rows]
    softmax  running maximum and sum a row; what was gathered is scaled when the maximum grows
    values   tile of rows x 16 or more values, one token a load

Scratch of a thread: queries of the tiles, scores (rows, CHUNK) twice, the results of the tiles (values gathered,
then maxima, sums, factors and sums of a chunk of the rows, 16 floats each), a chunk's keys and values as float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.config import KVType
from engine.kernels.cpu import attention_pairs, attention_tiles
from engine.kernels.cpu.attention_softmax import cap_scores, clear, finish, first_visible, hide, lean, merge, soften
from engine.kernels.cpu.attention_tiles import score_function, weigh_function
from engine.kernels.cpu.isa import ISA, InstructionSet
from engine.kernels.cpu.layouts import (
    ATTENTION_ARRIVALS,
    ATTENTION_COUNTER,
    ATTENTION_GROUP,
    ATTENTION_KEY_BLOCK_BYTES,
    ATTENTION_KEY_DIM,
    ATTENTION_KEY_HEAD_BYTES,
    ATTENTION_KEYS,
    ATTENTION_KV_HEADS,
    ATTENTION_OUT,
    ATTENTION_PARTIALS,
    ATTENTION_QUERY,
    ATTENTION_SCALE,
    ATTENTION_SOFT_CAP,
    ATTENTION_VALUE_BLOCK_BYTES,
    ATTENTION_VALUE_DIM,
    ATTENTION_VALUE_HEAD_BYTES,
    ATTENTION_VALUES,
    ATTENTION_WINDOW,
    CHUNK,
    MAX_SPLIT_ITEMS,
    MAX_SPLIT_SLICES,
    PREFILL_TILES,
    TILE_ROWS,
)
from engine.kernels.cpu.simd import (
    atomic_add,
    atomic_store,
    inline,
    load_f32,
    load_f32x16,
    load_i64,
    store_f32,
    store_f32x16,
)
from engine.kernels.cpu.step_state import (
    NUM_SLICES,
    READS_PROMPT,
    SCRATCH,
    SCRATCH_BYTES,
    SLICE_BLOCK_TABLE,
    SLICE_FIRST_TOKEN,
    SLICE_NUM_TOKENS,
    SLICE_SLOTS,
    SLICE_START,
    SLICES,
)

# What many queries meet: 16-bit integers where the processor has more products of them.
panels = attention_pairs if ISA is InstructionSet.AVX2 else attention_tiles
MIN_PART = 256  # positions of a part of a context, at least: less is not worth the merge


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


def pack_function(kv_type: KVType) -> Any:
    """Makes ``f(op, queries, first, last, head, group, query)``: as ``pack``, TILE_ROWS rows that meet a panel."""
    pack_row = panels.row_packer(kv_type)

    @inline
    def pack_panel(op, queries, first, last, head, group, query):  # type: ignore[no-untyped-def]
        dim, scale = load_i64(op + ATTENTION_KEY_DIM * 8), load_f32(op + ATTENTION_SCALE * 8)
        heads = load_i64(op + ATTENTION_KV_HEADS * 8) * group
        for row in range(TILE_ROWS):
            index = min(first + row, last)
            source = query + ((index // group) * heads + head * group + index % group) * dim * 4
            pack_row(source, scale, queries, row, dim)

    return pack_panel


@inline
def query_bytes(rows, dim):  # type: ignore[no-untyped-def]
    """Bytes of the queries of a tile, at most."""
    return rows * (dim + 1) * 4


@inline
def result_bytes(rows, width):  # type: ignore[no-untyped-def]
    """Bytes of the result of a tile, see ``layouts.tile_bytes``."""
    return rows * width * 4 + 256


def gather_function(rows_decode: int, kv_type: KVType) -> Any:
    """Makes the walk over a stretch of the context; only its inner loops are made for each height of a tile."""
    score, weigh = score_function(rows_decode, kv_type), weigh_function(rows_decode, kv_type)
    fill_keys, fill_values = panels.panel_makers(kv_type)
    score_panel, weigh_panel = panels.panel_functions(kv_type)

    @inline
    def gather(op, work, results, rows, tiles, first, last, head, group, start, table, blocks):  # type: ignore[no-untyped-def]
        """Attend to the positions of ``blocks``; leaves values, maxima and sums of each tile in ``results``."""
        dim, width = load_i64(op + ATTENTION_KEY_DIM * 8), (load_i64(op + ATTENTION_VALUE_DIM * 8) + 15) // 16 * 16
        keys = load_i64(op + ATTENTION_KEYS * 8) + head * load_i64(op + ATTENTION_KEY_HEAD_BYTES * 8)
        values = load_i64(op + ATTENTION_VALUES * 8) + head * load_i64(op + ATTENTION_VALUE_HEAD_BYTES * 8)
        key_bytes, value_bytes = (
            load_i64(op + ATTENTION_KEY_BLOCK_BYTES * 8),
            load_i64(op + ATTENTION_VALUE_BLOCK_BYTES * 8),
        )
        cap = load_f32(op + ATTENTION_SOFT_CAP * 8)
        size = result_bytes(rows, width)
        scores = work + tiles * query_bytes(rows, dim)
        scaled = scores + rows * CHUNK * 4
        key_panel = results + tiles * size
        value_panel = key_panel + CHUNK * (dim + 1) * 4
        for tile in range(tiles):
            clear(results + tile * size, rows * width)
        for chunk in range(blocks[0], blocks[1], CHUNK // 16):
            place, stop = table + chunk * 4, min(chunk + CHUNK // 16, blocks[1])
            if tiles > 1:
                count = start + last // group + 1 - chunk * 16
                fill_keys(key_panel, keys, place, stop - chunk, key_bytes, dim)
                fill_values(value_panel, values, place, stop - chunk, value_bytes, count, width)
            for tile in range(tiles):
                tile_first = first + tile * rows
                tile_last = min(tile_first + rows - 1, last)
                end = start + tile_last // group + 1  # what follows, no row of the tile may see
                num_blocks = min(stop, ((end - 1) >> 4) + 1) - chunk
                if tile_first > last or num_blocks <= 0:
                    continue
                gathered, queries = results + tile * size, work + tile * query_bytes(rows, dim)
                state = gathered + rows * width * 4
                if tiles > 1:
                    score_panel(scores, key_panel, num_blocks, queries, dim)
                else:
                    score(scores, keys, place, num_blocks, key_bytes, queries, dim)
                if cap != np.float32(0):
                    cap_scores(scores, rows, num_blocks * 64, cap)
                begin, past = chunk * 16, (chunk + num_blocks) * 16
                lean(op, scores, tile_first, tile_last, head, group, rows, start, begin, past)
                hide(op, scores, tile_first, tile_last, group, rows, start, begin, past)
                soften(scores, state, rows, num_blocks * 64)
                count = min(end - chunk * 16, num_blocks * 16)
                if tiles > 1:
                    weigh_panel(value_panel, count, scores, scaled, gathered, state + 128, width)
                else:
                    weigh(
                        values, place, num_blocks, value_bytes, count, scores, scaled, gathered, state + 128, width
                    )

    return gather


def attend_function(rows_decode: int, kv_type: KVType) -> Any:
    """Makes the function that does one work item."""
    gather, pack_panel = gather_function(rows_decode, kv_type), pack_function(kv_type)

    @inline
    def attend(op, work, piece, slot, item, rows, tiles, num_pieces, num_parts):  # type: ignore[no-untyped-def]
        """Item ``item`` of (kv heads, pieces, parts) of a slice; ``slot`` numbers the slice's partial results."""
        part, place, head = item % num_parts, item // num_parts % num_pieces, item // (num_parts * num_pieces)
        group = load_i64(op + ATTENTION_GROUP * 8)
        dim, value_dim = load_i64(op + ATTENTION_KEY_DIM * 8), load_i64(op + ATTENTION_VALUE_DIM * 8)
        width, heads = (value_dim + 15) // 16 * 16, load_i64(op + ATTENTION_KV_HEADS * 8) * group
        first_token, start = load_i64(piece + SLICE_FIRST_TOKEN * 8), load_i64(piece + SLICE_START * 8)
        table = load_i64(piece + SLICE_BLOCK_TABLE * 8)
        first = place * rows * tiles
        last = min(first + rows * tiles, load_i64(piece + SLICE_NUM_TOKENS * 8) * group) - 1
        query = load_i64(op + ATTENTION_QUERY * 8) + first_token * heads * dim * 4
        out = load_i64(op + ATTENTION_OUT * 8) + first_token * heads * value_dim * 4
        begin = first_visible(op, start + first // group) // CHUNK * (CHUNK // 16)  # of the same chunks for all
        num_blocks = ((start + last // group) >> 4) + 1 - begin
        blocks = begin + num_blocks * part // num_parts, begin + num_blocks * (part + 1) // num_parts
        results = work + tiles * query_bytes(rows, dim) + 2 * rows * CHUNK * 4
        size = result_bytes(rows, width)
        for tile in range(tiles):
            queries = work + tile * query_bytes(rows, dim)
            if tiles > 1:
                pack_panel(op, queries, first + tile * rows, last, head, group, query)
            else:
                pack(op, queries, first + tile * rows, last, head, group, rows, query)
        gather(op, work, results, rows, tiles, first, last, head, group, start, table, blocks)
        is_complete = num_parts == 1
        partials = load_i64(op + ATTENTION_PARTIALS * 8) + (slot + item - part) * tiles * size
        if not is_complete:
            for i in range(0, tiles * size, 64):
                store_f32x16(partials + part * tiles * size + i, load_f32x16(results + i))
            arrivals = load_i64(op + ATTENTION_ARRIVALS * 8) + (slot + item - part) * 8
            is_complete = atomic_add(arrivals, 1) == num_parts - 1
            if is_complete:
                atomic_store(arrivals, 0)
        if is_complete:
            for tile in range(tiles):
                gathered = results + tile * size
                state = gathered + rows * width * 4
                if num_parts > 1:
                    merge(partials + tile * size, tiles * size, num_parts, gathered, state, rows, width)
                finish(op, gathered, state, first + tile * rows, last, head, group, rows, out)

    return attend


def attention_kernel(rows_decode: int, kv_type: KVType) -> Any:
    """Makes the kernel for layers whose tokens have tiles of ``rows_decode`` query heads, at most TILE_ROWS."""
    attend = attend_function(rows_decode, kv_type)

    def attention(op: int, step: int, thread: int, num_threads: int) -> None:
        """Kernel: out = softmax(scale * query . keys) values, causal."""
        work = load_i64(step + SCRATCH * 8) + thread * load_i64(step + SCRATCH_BYTES * 8)
        counter, kv_heads = load_i64(op + ATTENTION_COUNTER * 8), load_i64(op + ATTENTION_KV_HEADS * 8)
        group, window = load_i64(op + ATTENTION_GROUP * 8), load_i64(op + ATTENTION_WINDOW * 8)
        claimed, before = atomic_add(counter, 1), 0
        for index in range(load_i64(step + NUM_SLICES * 8)):
            piece = load_i64(step + SLICES * 8) + index * SLICE_SLOTS * 8
            num_tokens = load_i64(piece + SLICE_NUM_TOKENS * 8)
            is_read = num_tokens > 1 or load_i64(step + READS_PROMPT * 8) != 0
            rows, tiles = (TILE_ROWS, PREFILL_TILES) if is_read else (rows_decode, 1)
            num_pieces = (num_tokens * group + rows * tiles - 1) // (rows * tiles)
            span = load_i64(piece + SLICE_START * 8) + num_tokens
            if window > 0:
                span = min(span, window + num_tokens)
            num_parts = 1  # of what is read, wherever it is cut, for parts are added up in another order
            if index < MAX_SPLIT_SLICES and not is_read:  # on any number of threads, for the same reason
                num_parts = max(min(span // MIN_PART, MAX_SPLIT_ITEMS // (kv_heads * num_pieces)), 1)
            num_items = kv_heads * num_pieces * num_parts
            while claimed < before + num_items:
                place = claimed - before
                if is_read:  # the last pieces see most: they come first, so that threads end together
                    place = num_items - 1 - place
                attend(op, work, piece, index * MAX_SPLIT_ITEMS, place, rows, tiles, num_pieces, num_parts)
                claimed = atomic_add(counter, 1)
            before += num_items

    return attention
