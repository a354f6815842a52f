"""Activations of gated feed-forwards: out = activation(gate) * up."""

from __future__ import annotations

import math

import numpy as np

from engine.kernels.cpu.layouts import GATED_GATE, GATED_OUT, GATED_ROWS, GATED_UP, GATED_WIDTH
from engine.kernels.cpu.rows import count_rows, first_row, load_part, store_part
from engine.kernels.cpu.simd import exp, fma, inline, load_f32x16, load_i64, splat_f32x16, store_f32x16

# gelu(x) = x (1 + tanh y) / 2 = x / (1 + exp(-2 y)) with y = sqrt(2 / pi) (x + 0.044715 x^3)
_GELU_FACTOR = np.float32(-2 * math.sqrt(2 / math.pi))
_GELU_CUBE = np.float32(0.044715)


@inline
def silu_vector(x):  # type: ignore[no-untyped-def]
    """x / (1 + exp(-x))."""
    return x / (splat_f32x16(np.float32(1)) + exp(x * splat_f32x16(np.float32(-1))))


@inline
def gelu_vector(x):  # type: ignore[no-untyped-def]
    """The tanh approximation of x times the normal distribution function."""
    inner = fma(x * x * x, splat_f32x16(_GELU_CUBE), x) * splat_f32x16(_GELU_FACTOR)
    return x / (splat_f32x16(np.float32(1)) + exp(inner))


def silu_gated(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = silu(gate) * up."""
    width = load_i64(op + GATED_WIDTH * 8)
    num_rows = count_rows(step, load_i64(op + GATED_ROWS * 8))
    begin = first_row(num_rows, thread, num_threads) * width
    end = first_row(num_rows, thread + 1, num_threads) * width
    gate, up, out = load_i64(op + GATED_GATE * 8), load_i64(op + GATED_UP * 8), load_i64(op + GATED_OUT * 8)
    whole = begin + ((end - begin) & ~15)
    for i in range(begin, whole, 16):
        store_f32x16(out + i * 4, silu_vector(load_f32x16(gate + i * 4)) * load_f32x16(up + i * 4))
    if whole < end:
        left = end - whole
        value = silu_vector(load_part(gate + whole * 4, left)) * load_part(up + whole * 4, left)
        store_part(out + whole * 4, value, left)


def gelu_gated(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = gelu(gate) * up."""
    width = load_i64(op + GATED_WIDTH * 8)
    num_rows = count_rows(step, load_i64(op + GATED_ROWS * 8))
    begin = first_row(num_rows, thread, num_threads) * width
    end = first_row(num_rows, thread + 1, num_threads) * width
    gate, up, out = load_i64(op + GATED_GATE * 8), load_i64(op + GATED_UP * 8), load_i64(op + GATED_OUT * 8)
    whole = begin + ((end - begin) & ~15)
    for i in range(begin, whole, 16):
        store_f32x16(out + i * 4, gelu_vector(load_f32x16(gate + i * 4)) * load_f32x16(up + i * 4))
    if whole < end:
        left = end - whole
        value = gelu_vector(load_part(gate + whole * 4, left)) * load_part(up + whole * 4, left)
        store_part(out + whole * 4, value, left)
