"""The choice of experts, and the movement of rows between tokens and pairs (``layouts`` draws the routing table).

A pair is a token and one of its experts. Between Dispatch and Combine rows lie sorted by expert, so that each
expert's matrices meet one run of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.kernels.cpu.exponential import exp
from engine.kernels.cpu.formats import TOKEN_TILE
from engine.kernels.cpu.layouts import (
    PAIRS_IS_WEIGHTED,
    PAIRS_OUT,
    PAIRS_TABLE,
    PAIRS_USED,
    PAIRS_WIDTH,
    PAIRS_X,
    ROUTE_BIAS,
    ROUTE_DIVISOR,
    ROUTE_EXPERTS,
    ROUTE_GROUPS,
    ROUTE_LOGITS,
    ROUTE_NORMALIZED,
    ROUTE_SCALE,
    ROUTE_TABLE,
    ROUTE_USED,
    ROUTE_USED_GROUPS,
    TABLE_ACTIVE,
    TABLE_COUNTS,
    TABLE_IDS,
    TABLE_NUM_ACTIVE,
    TABLE_ORDER,
    TABLE_PLACES,
    TABLE_STARTS,
    TABLE_TILE_STARTS,
    TABLE_WEIGHTS,
)
from engine.kernels.cpu.rows import first_row, load_part, store_part
from engine.kernels.cpu.simd import (
    at_least,
    fma,
    inline,
    keep_lanes,
    load_f32,
    load_i32,
    load_i64,
    reduce_add,
    reduce_max,
    splat_f32x16,
    store_f32,
    store_i32,
    store_i64,
    zeros_f32x16,
)
from engine.kernels.cpu.step_state import NUM_PAIRS, NUM_TOKENS, SCRATCH, SCRATCH_BYTES
from engine.model.plan import Gating

LEAST = np.float32(-1e30)  # below every score
LEAST_SUM = np.float32(2.0**-14)


@inline
def softmax_row(x, out, count):  # type: ignore[no-untyped-def]
    """Softmax of ``count`` values."""
    top = splat_f32x16(LEAST)
    for i in range(0, count, 16):
        top = at_least(keep_lanes(load_part(x + i * 4, count - i), count - i, LEAST), top)
    top = splat_f32x16(reduce_max(top))
    total = zeros_f32x16()
    for i in range(0, count, 16):
        share = keep_lanes(exp(load_part(x + i * 4, count - i) - top), count - i, np.float32(0))
        total = total + share
        store_part(out + i * 4, share, count - i)
    factor = splat_f32x16(np.float32(1) / reduce_add(total))
    for i in range(0, count, 16):
        store_part(out + i * 4, load_part(out + i * 4, count - i) * factor, count - i)


@inline
def sigmoid_row(x, out, count):  # type: ignore[no-untyped-def]
    """Sigmoid of ``count`` values."""
    one = splat_f32x16(np.float32(1))
    for i in range(0, count, 16):
        value = one / (one + exp(load_part(x + i * 4, count - i) * splat_f32x16(np.float32(-1))))
        store_part(out + i * 4, value, count - i)


@inline
def best_of(scores, count):  # type: ignore[no-untyped-def]
    """Index of the largest of ``count`` values, the first of equal ones; of a NaN where there is one."""
    best, top = 0, load_f32(scores)
    for i in range(1, count):
        value = load_f32(scores + i * 4)
        if value > top or np.isnan(value):
            best, top = i, value
    return best


@inline
def keep_groups(scores, sums, experts, groups, used_groups):  # type: ignore[no-untyped-def]
    """Take all but the best groups, by the sum of their two best scores, out of the choice; a NaN is the best."""
    size = experts // groups
    for group in range(groups):
        first, second, damage = LEAST, LEAST, np.float32(0)
        for i in range(group * size, (group + 1) * size):
            value = load_f32(scores + i * 4)
            if np.isnan(value):
                damage = value
            elif value > first:
                first, second = value, first
            elif value > second:
                second = value
        store_f32(sums + group * 4, first + second + damage)
    for _ in range(used_groups):
        store_f32(sums + best_of(sums, groups) * 4, np.float32(2) * LEAST)
    for group in range(groups):
        if load_f32(sums + group * 4) > np.float32(1.5) * LEAST:
            for i in range(group * size, (group + 1) * size):
                store_f32(scores + i * 4, LEAST)


@inline
def choose(op, logits, work, ids, weights, is_sigmoid, is_of_chosen):  # type: ignore[no-untyped-def]
    """The experts of one token and their weights; ``work`` has room for gated logits, scores and sums of groups."""
    experts, used = load_i64(op + ROUTE_EXPERTS * 8), load_i64(op + ROUTE_USED * 8)
    bias, groups = load_i64(op + ROUTE_BIAS * 8), load_i64(op + ROUTE_GROUPS * 8)
    divisor = load_i64(op + ROUTE_DIVISOR * 8)
    gated, scores, sums = work, work + experts * 4, work + experts * 8
    if is_sigmoid:
        sigmoid_row(logits, gated, experts)
    else:
        softmax_row(logits, gated, experts)
    for i in range(experts):
        value = load_f32(gated + i * 4)
        if bias != 0:
            value += load_f32(bias + i * 4)
        elif groups == 1:
            value = load_f32(logits + i * 4)  # the same order, and no ties where a gate saturates
        store_f32(scores + i * 4, value)
    if groups > 1:
        keep_groups(scores, sums, experts, groups, load_i64(op + ROUTE_USED_GROUPS * 8))
    total = np.float32(0)
    for rank in range(used):
        best = best_of(scores, experts)
        score = load_f32(scores + best * 4)
        store_f32(scores + best * 4, np.float32(2) * LEAST)
        expert = best // divisor
        store_i32(ids + rank * 4, np.int32(expert))
        weight = load_f32(logits + best * 4) if is_of_chosen else load_f32(gated + expert * 4)
        if np.isnan(score):  # of a damaged bias, which only the choice sees
            weight = score
        store_f32(weights + rank * 4, weight)
        total += weight
    if is_of_chosen:
        softmax_row(weights, weights, used)
        total = np.float32(1)
    factor = load_f32(op + ROUTE_SCALE * 8)
    if load_i64(op + ROUTE_NORMALIZED * 8) != 0:
        factor /= max(total, LEAST_SUM)
    for rank in range(used):
        store_f32(weights + rank * 4, load_f32(weights + rank * 4) * factor)


def route_kernel(gating: Gating) -> Any:
    """Makes the kernel that chooses each token's experts."""
    is_sigmoid, is_of_chosen = gating is Gating.SIGMOID, gating is Gating.SOFTMAX_OF_CHOSEN

    def route(op: int, step: int, thread: int, num_threads: int) -> None:
        work = load_i64(step + SCRATCH * 8) + thread * load_i64(step + SCRATCH_BYTES * 8)
        num_tokens, used = load_i64(step + NUM_TOKENS * 8), load_i64(op + ROUTE_USED * 8)
        table, experts = load_i64(op + ROUTE_TABLE * 8), load_i64(op + ROUTE_EXPERTS * 8)
        begin = first_row(num_tokens, thread, num_threads)
        for token in range(begin, first_row(num_tokens, thread + 1, num_threads)):
            ids = load_i64(table + TABLE_IDS * 8) + token * used * 4
            weights = load_i64(table + TABLE_WEIGHTS * 8) + token * used * 4
            logits = load_i64(op + ROUTE_LOGITS * 8) + token * experts * 4
            choose(op, logits, work, ids, weights, is_sigmoid, is_of_chosen)

    route.__name__ = f"route_{gating.name.lower()}"
    return route


def sort_pairs(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: sort the pairs by expert, by counting; a few thousand of them are the work of one thread."""
    if thread != 0:
        return
    table, num_pairs = load_i64(op + ROUTE_TABLE * 8), load_i64(step + NUM_PAIRS * 8)
    experts = load_i64(op + ROUTE_EXPERTS * 8)
    ids, order = load_i64(table + TABLE_IDS * 8), load_i64(table + TABLE_ORDER * 8)
    places, counts = load_i64(table + TABLE_PLACES * 8), load_i64(table + TABLE_COUNTS * 8)
    starts, tile_starts = load_i64(table + TABLE_STARTS * 8), load_i64(table + TABLE_TILE_STARTS * 8)
    active = load_i64(table + TABLE_ACTIVE * 8)
    for expert in range(experts):
        store_i32(counts + expert * 4, np.int32(0))
    for pair in range(num_pairs):
        count = counts + np.int64(load_i32(ids + pair * 4)) * 4
        store_i32(count, load_i32(count) + np.int32(1))
    start, tile_start, num_active = 0, 0, 0
    for expert in range(experts):
        count = np.int64(load_i32(counts + expert * 4))
        store_i32(starts + expert * 4, np.int32(start))
        store_i32(tile_starts + expert * 4, np.int32(tile_start))
        start += int(count)
        tile_start += (int(count) + TOKEN_TILE - 1) // TOKEN_TILE * TOKEN_TILE
        if count > 0:
            store_i32(active + num_active * 4, np.int32(expert))
            num_active += 1
    store_i64(table + TABLE_NUM_ACTIVE * 8, num_active)
    for pair in range(num_pairs):
        next_place = starts + np.int64(load_i32(ids + pair * 4)) * 4
        place = load_i32(next_place)
        store_i32(next_place, place + np.int32(1))
        store_i32(order + np.int64(place) * 4, np.int32(pair))
        store_i32(places + pair * 4, place)
    for expert in range(experts):
        here = starts + expert * 4
        store_i32(here, load_i32(here) - load_i32(counts + expert * 4))


def dispatch(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out[sorted place] = x[its token], times its weight if so wished."""
    num_pairs, used = load_i64(step + NUM_PAIRS * 8), load_i64(op + PAIRS_USED * 8)
    width, table = load_i64(op + PAIRS_WIDTH * 8), load_i64(op + PAIRS_TABLE * 8)
    is_weighted = load_i64(op + PAIRS_IS_WEIGHTED * 8) != 0
    order, weights = load_i64(table + TABLE_ORDER * 8), load_i64(table + TABLE_WEIGHTS * 8)
    for place in range(first_row(num_pairs, thread, num_threads), first_row(num_pairs, thread + 1, num_threads)):
        pair = np.int64(load_i32(order + place * 4))
        x = load_i64(op + PAIRS_X * 8) + pair // used * width * 4
        out = load_i64(op + PAIRS_OUT * 8) + place * width * 4
        factor = np.float32(1)
        if is_weighted:
            factor = load_f32(weights + pair * 4)
        for i in range(0, width, 16):
            store_part(out + i * 4, load_part(x + i * 4, width - i) * splat_f32x16(factor), width - i)


def combine(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out[token] = sum over its pairs, in the order of their choice, each times its weight if so wished."""
    num_tokens, used = load_i64(step + NUM_TOKENS * 8), load_i64(op + PAIRS_USED * 8)
    width, table = load_i64(op + PAIRS_WIDTH * 8), load_i64(op + PAIRS_TABLE * 8)
    is_weighted = load_i64(op + PAIRS_IS_WEIGHTED * 8) != 0
    places, weights = load_i64(table + TABLE_PLACES * 8), load_i64(table + TABLE_WEIGHTS * 8)
    for token in range(first_row(num_tokens, thread, num_threads), first_row(num_tokens, thread + 1, num_threads)):
        out = load_i64(op + PAIRS_OUT * 8) + token * width * 4
        for i in range(0, width, 16):
            total = zeros_f32x16()
            for rank in range(used):
                pair = token * used + rank
                row = load_i64(op + PAIRS_X * 8) + np.int64(load_i32(places + pair * 4)) * width * 4
                factor = np.float32(1)
                if is_weighted:
                    factor = load_f32(weights + pair * 4)
                total = fma(load_part(row + i * 4, width - i), splat_f32x16(factor), total)
            store_part(out + i * 4, total, width - i)
