"""Root mean square norm of rows or of equal parts of rows (Zhang and Sennrich 2019)."""

from __future__ import annotations

import numpy as np

from engine.kernels.cpu.layouts import (
    NORM_ACCUMULATE,
    NORM_EPS,
    NORM_GROUPS,
    NORM_OUT,
    NORM_ROWS,
    NORM_WEIGHT,
    NORM_WIDTH,
    NORM_X,
)
from engine.kernels.cpu.rows import count_rows, first_row, load_part, store_part
from engine.kernels.cpu.simd import (
    fma,
    inline,
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


def rms_norm(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = x / sqrt(mean(x^2) + eps) * weight, or out += that."""
    width, groups = load_i64(op + NORM_WIDTH * 8), load_i64(op + NORM_GROUPS * 8)
    num_rows = count_rows(step, load_i64(op + NORM_ROWS * 8))
    weight, eps = load_i64(op + NORM_WEIGHT * 8), load_f32(op + NORM_EPS * 8)
    accumulates = load_i64(op + NORM_ACCUMULATE * 8) != 0
    part = width // groups
    whole = part & ~15
    begin = first_row(num_rows, thread, num_threads) * groups
    end = first_row(num_rows, thread + 1, num_threads) * groups
    for group in range(begin, end):
        x = load_i64(op + NORM_X * 8) + group * part * 4
        out = load_i64(op + NORM_OUT * 8) + group * part * 4
        scale = splat_f32x16(np.float32(1) / np.sqrt(mean_square(x, part) + eps))
        if accumulates:
            for i in range(0, whole, 16):
                product = load_f32x16(x + i * 4) * scale
                store_f32x16(out + i * 4, fma(product, load_f32x16(weight + i * 4), load_f32x16(out + i * 4)))
        else:
            for i in range(0, whole, 16):
                store_f32x16(out + i * 4, load_f32x16(x + i * 4) * scale * load_f32x16(weight + i * 4))
        if whole < part:
            left = part - whole
            value = load_part(x + whole * 4, left) * scale * load_part(weight + whole * 4, left)
            if accumulates:
                value = value + load_part(out + whole * 4, left)
            store_part(out + whole * 4, value, left)
