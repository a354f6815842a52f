"""Norms of rows or of parts of rows: root mean square (Zhang and Sennrich 2019) and layer norm (Ba et al. 2016)."""

from __future__ import annotations

import numpy as np

from engine.kernels.cpu.layouts import (
    NORM_ACCUMULATE,
    NORM_BIAS,
    NORM_EPS,
    NORM_GROUPS,
    NORM_OUT,
    NORM_ROWS,
    NORM_WEIGHT,
    NORM_WEIGHT_GROUPS,
    NORM_WIDTH,
    NORM_X,
)
from engine.kernels.cpu.rows import count_rows, first_row, load_part, store_part
from engine.kernels.cpu.simd import (
    fma,
    inline,
    keep_lanes,
    load_f32,
    load_f32x16,
    load_i64,
    reduce_add,
    splat_f32x16,
    store_f32x16,
    zeros_f32x16,
)


@inline
def mean_square(x, width):  # type: ignore[no-untyped-def]
    """Mean of the squares of ``width`` values, in two sums to keep the adders busy."""
    first, second = zeros_f32x16(), zeros_f32x16()
    whole = width & ~31
    for i in range(0, whole, 32):
        a, b = load_f32x16(x + i * 4), load_f32x16(x + i * 4 + 64)
        first, second = fma(a, a, first), fma(b, b, second)
    for i in range(whole, width, 16):
        a = load_part(x + i * 4, width - i)
        first = fma(a, a, first)
    return reduce_add(first + second) / np.float32(width)


@inline
def mean(x, width):  # type: ignore[no-untyped-def]
    """Mean of ``width`` values."""
    total = zeros_f32x16()
    for i in range(0, width, 16):
        total = total + load_part(x + i * 4, width - i)
    return reduce_add(total) / np.float32(width)


@inline
def variance(x, width, center):  # type: ignore[no-untyped-def]
    """Mean of the squares of ``width`` values less their mean."""
    total, middle = zeros_f32x16(), splat_f32x16(center)
    for i in range(0, width, 16):
        a = keep_lanes(load_part(x + i * 4, width - i) - middle, width - i, np.float32(0))
        total = fma(a, a, total)
    return reduce_add(total) / np.float32(width)


@inline
def store_normed(x, out, weight, bias, part, center, scale, accumulates):  # type: ignore[no-untyped-def]
    """out = (x - center) * scale * weight + bias of one part, added to what is there if so wished."""
    middle, factor = splat_f32x16(center), splat_f32x16(scale)
    whole = part & ~15
    for i in range(0, whole, 16):
        value = (load_f32x16(x + i * 4) - middle) * factor
        if weight != 0:
            value = value * load_f32x16(weight + i * 4)
        if bias != 0:
            value = value + load_f32x16(bias + i * 4)
        if accumulates:
            value = value + load_f32x16(out + i * 4)
        store_f32x16(out + i * 4, value)
    if whole < part:
        left = part - whole
        value = (load_part(x + whole * 4, left) - middle) * factor
        if weight != 0:
            value = value * load_part(weight + whole * 4, left)
        if bias != 0:
            value = value + load_part(bias + whole * 4, left)
        if accumulates:
            value = value + load_part(out + whole * 4, left)
        store_part(out + whole * 4, value, left)


@inline
def norm_rows(op, step, thread, num_threads, is_centered):  # type: ignore[no-untyped-def]
    """The thread's share of the rows."""
    width, groups = load_i64(op + NORM_WIDTH * 8), load_i64(op + NORM_GROUPS * 8)
    num_rows = count_rows(step, load_i64(op + NORM_ROWS * 8))
    eps, weight_groups = load_f32(op + NORM_EPS * 8), load_i64(op + NORM_WEIGHT_GROUPS * 8)
    accumulates = load_i64(op + NORM_ACCUMULATE * 8) != 0
    part = width // groups
    begin = first_row(num_rows, thread, num_threads) * groups
    end = first_row(num_rows, thread + 1, num_threads) * groups
    for group in range(begin, end):
        x = load_i64(op + NORM_X * 8) + group * part * 4
        out = load_i64(op + NORM_OUT * 8) + group * part * 4
        weight, bias = load_i64(op + NORM_WEIGHT * 8), load_i64(op + NORM_BIAS * 8)
        own = group % weight_groups * part * 4
        weight += own if weight != 0 else 0
        bias += own if bias != 0 else 0
        center = np.float32(0)
        if is_centered:
            center = mean(x, part)
            spread = variance(x, part, center)
        else:
            spread = mean_square(x, part)
        store_normed(x, out, weight, bias, part, center, np.float32(1) / np.sqrt(spread + eps), accumulates)


def rms_norm(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = x / sqrt(mean(x^2) + eps) * weight + bias, or out += that."""
    norm_rows(op, step, thread, num_threads, False)


def layer_norm(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = (x - mean) / sqrt(variance + eps) * weight + bias, or out += that."""
    norm_rows(op, step, thread, num_threads, True)
