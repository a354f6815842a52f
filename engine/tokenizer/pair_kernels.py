"""The compiled core of byte-pair encoding: the table of merges, and the merging of one run of symbols.

A pair table is an open-addressing table: ``keys`` int64, a pair of ids as ``left << 32 | right`` or ``EMPTY``, and
``ranks`` int32, the merge of the pair. See ``merge_kernels`` for how kernels read their operands.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.cpu.simd import inline, load_i32, load_i64, store_i32, store_i64

EMPTY: Final = -1
_BASE: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_LOW: Final = 0xFFFFFFFF


@inline
def _slot_of(keys, mask, key):  # type: ignore[no-untyped-def]
    """Address in ``keys`` of a pair's slot: the one that holds it, or the empty one where it would go."""
    mixed = key * _BASE
    slot = (mixed ^ ((mixed >> 32) & _LOW)) & mask
    while load_i64(keys + slot * 8) != EMPTY and load_i64(keys + slot * 8) != key:
        slot = (slot + 1) & mask
    return slot


@inline
def _rank_of(keys, ranks, mask, left, right):  # type: ignore[no-untyped-def]
    """Rank of the merge of two ids, or -1."""
    slot = _slot_of(keys, mask, (np.int64(left) << 32) | np.int64(right))
    rank = np.int64(load_i32(ranks + slot * 4))
    return rank if load_i64(keys + slot * 8) != EMPTY else np.int64(-1)


def fill_pairs(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: enter every merge in the pair table; of a pair that is listed twice the last counts.

    0 left (merges,) int32, 1 right, 2 number of merges, 3 keys filled with EMPTY, 4 ranks, 5 slots - 1.
    """
    left, right, keys, ranks = load_i64(op), load_i64(op + 8), load_i64(op + 24), load_i64(op + 32)
    for rank in range(load_i64(op + 16)):
        key = (np.int64(load_i32(left + rank * 4)) << 32) | np.int64(load_i32(right + rank * 4))
        slot = _slot_of(keys, load_i64(op + 40), key)
        store_i64(keys + slot * 8, key)
        store_i32(ranks + slot * 4, rank)


@inline
def _push(heap, size, item):  # type: ignore[no-untyped-def]
    """Add to a binary heap of ``size`` items, the smallest first; returns the new size."""
    place = size
    while place > 0 and load_i64(heap + ((place - 1) >> 1) * 8) > item:
        store_i64(heap + place * 8, load_i64(heap + ((place - 1) >> 1) * 8))
        place = (place - 1) >> 1
    store_i64(heap + place * 8, item)
    return size + 1


@inline
def _pop(heap, size):  # type: ignore[no-untyped-def]
    """Remove and return the smallest of ``size`` items."""
    first, item = load_i64(heap), load_i64(heap + (size - 1) * 8)
    place, child = np.int64(0), np.int64(1)
    while child < size - 1:
        if child + 1 < size - 1 and load_i64(heap + child * 8 + 8) < load_i64(heap + child * 8):
            child += 1
        if load_i64(heap + child * 8) >= item:
            break
        store_i64(heap + place * 8, load_i64(heap + child * 8))
        place, child = child, 2 * child + 1
    store_i64(heap + place * 8, item)
    return first


@inline
def merge_run(ids, count, keys, ranks, mask, made, scratch):  # type: ignore[no-untyped-def]
    """Merge neighbours among ids in place, the lowest rank first, leftmost first; returns how many remain.

    The heap holds rank and position of pairs, also of pairs that are gone: a pair that would make another token
    than when it was entered is skipped. ``scratch`` has room for 6 * count int64.
    """
    following = scratch  # position of the next symbol, ``count`` after the last
    preceding, pairs, heap = following + count * 8, following + count * 16, following + count * 24
    size = np.int64(0)
    for position in range(count):
        store_i64(following + position * 8, position + 1)
        store_i64(preceding + position * 8, position - 1)
        rank = np.int64(-1)
        if position + 1 < count:
            rank = _rank_of(keys, ranks, mask, load_i32(ids + position * 4), load_i32(ids + position * 4 + 4))
        store_i64(pairs + position * 8, rank)
        if rank >= 0:
            size = _push(heap, size, (rank << 32) | position)
    if size == 0:
        return count
    while size > 0:
        item = _pop(heap, size)
        size -= 1
        position, current = item & _LOW, load_i64(pairs + (item & _LOW) * 8)
        token_id = load_i32(made + (item >> 32) * 4)
        if current < 0 or load_i32(made + current * 4) != token_id:
            continue
        gone = load_i64(following + position * 8)
        after, before = load_i64(following + gone * 8), load_i64(preceding + position * 8)
        store_i32(ids + position * 4, token_id)
        store_i64(following + position * 8, after)
        store_i64(pairs + gone * 8, -1)
        store_i64(pairs + position * 8, -1)
        if after < count:
            store_i64(preceding + after * 8, position)
            rank = _rank_of(keys, ranks, mask, token_id, load_i32(ids + after * 4))
            store_i64(pairs + position * 8, rank)
            if rank >= 0:
                size = _push(heap, size, (rank << 32) | position)
        if before >= 0:
            rank = _rank_of(keys, ranks, mask, load_i32(ids + before * 4), token_id)
            store_i64(pairs + before * 8, rank)
            if rank >= 0:
                size = _push(heap, size, (rank << 32) | before)
    num_ids, kept = np.int64(0), np.int64(0)
    while kept < count:
        store_i32(ids + num_ids * 4, load_i32(ids + kept * 4))
        num_ids += 1
        kept = load_i64(following + kept * 8)
    return num_ids
