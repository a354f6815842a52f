"""The softmax of attention over tiles of rows: what is taken off scores, their weights, and parts put together.

The result of a tile is what was gathered of values, (rows, width) float32, then its state: the running maxima, the
sums, the factors of what was gathered before and the sums of a chunk, of each row, 16 floats each. ``attention``
has the rows of a tile, and the order in which chunks and tiles meet.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.cpu.elementwise import cap_vector
from engine.kernels.cpu.exponential import exp
from engine.kernels.cpu.layouts import (
    ATTENTION_KV_HEADS,
    ATTENTION_RUN,
    ATTENTION_SINKS,
    ATTENTION_SLOPES,
    ATTENTION_VALUE_DIM,
    ATTENTION_WINDOW,
    CHUNK,
)
from engine.kernels.cpu.rows import store_part
from engine.kernels.cpu.simd import (
    F32X16,
    at_least,
    constant,
    define,
    fma,
    inline,
    keep_order,
    load_f32,
    load_f32x16,
    load_i64,
    reduce_add,
    reduce_max,
    splat_f32x16,
    store_f32,
    store_f32x16,
    zeros_f32x16,
)

HIDDEN = np.float32(-1e30)  # score of a position a row may not see
# lane_numbers(): 0 to 15.
lane_numbers = define(F32X16, [], lambda _b: constant(F32X16.llvm, [float(lane) for lane in range(16)]))
LOWEST = np.float32(-1e20)  # running maximum before the first visible position; exp(HIDDEN - LOWEST) is 0


@inline
def clear(result, count):  # type: ignore[no-untyped-def]
    """The result of a tile that has seen nothing yet; ``count`` values before maxima and sums."""
    for i in range(0, count, 16):
        store_f32x16(result + i * 4, zeros_f32x16())
    state = result + count * 4
    store_f32x16(state, splat_f32x16(LOWEST))
    for i in range(64, 256, 64):
        store_f32x16(state + i, zeros_f32x16())


@inline
def cap_scores(scores, rows, size, cap):  # type: ignore[no-untyped-def]
    """Soft cap of ``size`` bytes of each row's scores."""
    for row in range(rows):
        for place in range(scores + row * CHUNK * 4, scores + row * CHUNK * 4 + size, 64):
            store_f32x16(place, cap_vector(load_f32x16(place), splat_f32x16(cap)))


@inline
def lean(op, scores, first, last, head, group, rows, start, begin, end):  # type: ignore[no-untyped-def]
    """Take each head's slope times the distance off the scores of positions [begin, end), if there are slopes."""
    slopes = load_i64(op + ATTENTION_SLOPES * 8)
    if slopes != 0:
        for row in range(rows):
            index = min(first + row, last)
            slope = load_f32(slopes + (head * group + index % group) * 4)
            for j in range(begin, end, 16):
                place = scores + (row * CHUNK + j - begin) * 4
                distance = splat_f32x16(np.float32(start + index // group - j)) - lane_numbers()
                store_f32x16(place, load_f32x16(place) - distance * splat_f32x16(slope))


@inline
def first_visible(op, position):  # type: ignore[no-untyped-def]
    """The first position that a token at ``position`` may see: by the window, or by the run it lies in."""
    window, run = load_i64(op + ATTENTION_WINDOW * 8), load_i64(op + ATTENTION_RUN * 8)
    first = 0
    if window > 0:
        first = max(position + 1 - window, 0)
    if run > 0:
        first = max(first, position - position % run)
    return first


@inline
def hide(op, scores, first, last, group, rows, start, begin, end):  # type: ignore[no-untyped-def]
    """Take out of the scores of positions [begin, end) those that a row may not see."""
    for row in range(rows):
        position = start + min(first + row, last) // group
        for j in range(max(position + 1, begin), end):
            store_f32(scores + (row * CHUNK + j - begin) * 4, HIDDEN)
        for j in range(begin, min(first_visible(op, position), end)):
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
            top = at_least(load_f32x16(line + i), top)
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
        top = at_least(load_f32x16(state), load_f32x16(factors))
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
    """Sum the results of the parts of a context, ``size`` bytes apart, each scaled to the common maximum."""
    rest = rows * width * 4  # maxima and sums follow the values
    top = load_f32x16(partials + rest)
    for part in range(1, num_parts):
        top = at_least(load_f32x16(partials + part * size + rest), top)
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
