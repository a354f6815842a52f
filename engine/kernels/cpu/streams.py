"""Ops of several residual streams: mixtures of streams, equal lengths, factors of columns, thinned-out gates."""

from __future__ import annotations

import numpy as np

from engine.kernels.cpu.layouts import (
    COLUMNS_OUT,
    COLUMNS_ROWS,
    COLUMNS_WEIGHT,
    COLUMNS_WIDTH,
    COLUMNS_X,
    KEEP_FACTOR,
    KEEP_OUT,
    KEEP_ROWS,
    KEEP_WIDTH,
    KEEP_X,
    LENGTH_GROUPS,
    LENGTH_LIKE,
    LENGTH_OUT,
    LENGTH_ROWS,
    LENGTH_WIDTH,
    LENGTH_X,
    MIX_INPUTS,
    MIX_OUT,
    MIX_OUTPUTS,
    MIX_ROWS,
    MIX_WEIGHTS,
    MIX_WIDTH,
    MIX_X,
)
from engine.kernels.cpu.norm import mean, mean_square, variance
from engine.kernels.cpu.rows import count_rows, first_row, load_part, store_part
from engine.kernels.cpu.simd import at_least, fma, load_f32, load_i64, splat_f32x16, zeros_f32x16

_LEAST_SQUARE = np.float32(1e-30)


def mix_streams(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: stream o of out = sum over i of weights[o, i] * stream i of x."""
    width, inputs, outputs = (
        load_i64(op + MIX_WIDTH * 8),
        load_i64(op + MIX_INPUTS * 8),
        load_i64(op + MIX_OUTPUTS * 8),
    )
    num_rows = count_rows(step, load_i64(op + MIX_ROWS * 8))
    for row in range(first_row(num_rows, thread, num_threads), first_row(num_rows, thread + 1, num_threads)):
        x = load_i64(op + MIX_X * 8) + row * inputs * width * 4
        weights = load_i64(op + MIX_WEIGHTS * 8) + row * inputs * outputs * 4
        out = load_i64(op + MIX_OUT * 8) + row * outputs * width * 4
        for _ in range(outputs):
            for i in range(0, width, 16):
                total = zeros_f32x16()
                for stream in range(inputs):
                    value = load_part(x + (stream * width + i) * 4, width - i)
                    total = fma(value, splat_f32x16(load_f32(weights + stream * 4)), total)
                store_part(out + i * 4, total, width - i)
            weights += inputs * 4
            out += width * 4


def match_length(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = x scaled to the length of like, part by part."""
    width, groups = load_i64(op + LENGTH_WIDTH * 8), load_i64(op + LENGTH_GROUPS * 8)
    num_rows = count_rows(step, load_i64(op + LENGTH_ROWS * 8))
    for row in range(first_row(num_rows, thread, num_threads), first_row(num_rows, thread + 1, num_threads)):
        wanted = mean_square(load_i64(op + LENGTH_LIKE * 8) + row * width * 4, width)
        for part in range(row * groups, (row + 1) * groups):
            x = load_i64(op + LENGTH_X * 8) + part * width * 4
            out = load_i64(op + LENGTH_OUT * 8) + part * width * 4
            least = _LEAST_SQUARE / np.float32(width)
            factor = splat_f32x16(np.sqrt(wanted / max(mean_square(x, width), least)))
            for i in range(0, width, 16):
                store_part(out + i * 4, load_part(x + i * 4, width - i) * factor, width - i)


def scale_columns(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = x * weight."""
    width, weight = load_i64(op + COLUMNS_WIDTH * 8), load_i64(op + COLUMNS_WEIGHT * 8)
    num_rows = count_rows(step, load_i64(op + COLUMNS_ROWS * 8))
    for row in range(first_row(num_rows, thread, num_threads), first_row(num_rows, thread + 1, num_threads)):
        x = load_i64(op + COLUMNS_X * 8) + row * width * 4
        out = load_i64(op + COLUMNS_OUT * 8) + row * width * 4
        for i in range(0, width, 16):
            value = load_part(x + i * 4, width - i) * load_part(weight + i * 4, width - i)
            store_part(out + i * 4, value, width - i)


def keep_largest(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = what is left above mean + factor * deviation of the row."""
    width, factor = load_i64(op + KEEP_WIDTH * 8), load_f32(op + KEEP_FACTOR * 8)
    num_rows = count_rows(step, load_i64(op + KEEP_ROWS * 8))
    for row in range(first_row(num_rows, thread, num_threads), first_row(num_rows, thread + 1, num_threads)):
        x = load_i64(op + KEEP_X * 8) + row * width * 4
        out = load_i64(op + KEEP_OUT * 8) + row * width * 4
        center = mean(x, width)
        of_sample = np.float32(width) / np.float32(max(width - 1, 1))
        cutoff = splat_f32x16(center + factor * np.sqrt(variance(x, width, center) * of_sample))
        for i in range(0, width, 16):
            store_part(out + i * 4, at_least(load_part(x + i * 4, width - i) - cutoff, zeros_f32x16()), width - i)
