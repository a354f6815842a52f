"""Activations, alone or as a gate: out = activation(gate) * up.

Exponentials serve them all. Softplus needs log(1 + t) for t in 0..1, which is 2 artanh(t / (2 + t)): a short odd
series, as t / (2 + t) is at most 1/3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from engine.kernels.cpu.exponential import exp
from engine.kernels.cpu.layouts import (
    ACTIVATE_OUT,
    ACTIVATE_PARAMETERS,
    ACTIVATE_ROWS,
    ACTIVATE_WIDTH,
    ACTIVATE_X,
    GATED_GATE,
    GATED_IS_EARLY,
    GATED_LIMIT,
    GATED_OFFSET,
    GATED_OUT,
    GATED_ROWS,
    GATED_RUN,
    GATED_UP,
    GATED_WIDTH,
)
from engine.kernels.cpu.rows import count_rows, first_row, load_part, store_part
from engine.kernels.cpu.simd import (
    absolute,
    at_least,
    at_most,
    fma,
    inline,
    load_f32,
    load_f32x16,
    load_i64,
    splat_f32x16,
    store_f32x16,
    zeros_f32x16,
)
from engine.model.plan import Activation

# gelu(x) = x (1 + tanh y) / 2 = x / (1 + exp(-2 y)) with y = sqrt(2 / pi) (x + 0.044715 x^3)
_GELU_FACTOR = np.float32(-2 * math.sqrt(2 / math.pi))
_GELU_CUBE = np.float32(0.044715)
_QUICK_FACTOR = np.float32(-1.702)


@inline
def silu_vector(x):  # type: ignore[no-untyped-def]
    """x / (1 + exp(-x))."""
    return x / (splat_f32x16(np.float32(1)) + exp(x * splat_f32x16(np.float32(-1))))


@inline
def gelu_vector(x):  # type: ignore[no-untyped-def]
    """The tanh approximation of x times the normal distribution function."""
    inner = fma(x * x * x, splat_f32x16(_GELU_CUBE), x) * splat_f32x16(_GELU_FACTOR)
    return x / (splat_f32x16(np.float32(1)) + exp(inner))


@inline
def quick_gelu_vector(x):  # type: ignore[no-untyped-def]
    """x / (1 + exp(-1.702 x))."""
    return x / (splat_f32x16(np.float32(1)) + exp(x * splat_f32x16(_QUICK_FACTOR)))


@inline
def sigmoid_vector(x):  # type: ignore[no-untyped-def]
    """1 / (1 + exp(-x))."""
    one = splat_f32x16(np.float32(1))
    return one / (one + exp(x * splat_f32x16(np.float32(-1))))


@inline
def tanh_vector(x):  # type: ignore[no-untyped-def]
    """2 / (1 + exp(-2 x)) - 1."""
    one, two = splat_f32x16(np.float32(1)), splat_f32x16(np.float32(2))
    return two / (one + exp(x * splat_f32x16(np.float32(-2)))) - one


@inline
def relu_vector(x):  # type: ignore[no-untyped-def]
    """x above 0."""
    return at_least(x, zeros_f32x16())


@inline
def relu_squared_vector(x):  # type: ignore[no-untyped-def]
    """x^2 above 0."""
    above = at_least(x, zeros_f32x16())
    return above * above


@inline
def softplus_vector(x):  # type: ignore[no-untyped-def]
    """log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|))."""
    t = exp(absolute(x) * splat_f32x16(np.float32(-1)))
    s = t / (splat_f32x16(np.float32(2)) + t)
    square = s * s
    series = splat_f32x16(np.float32(1 / 15))
    for odd in (13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series = fma(series, square, splat_f32x16(np.float32(1) / np.float32(odd)))
    return fma(series * splat_f32x16(np.float32(2)), s, at_least(x, zeros_f32x16()))


@inline
def identity_vector(x):  # type: ignore[no-untyped-def]
    """x."""
    return x


VECTORS = {
    Activation.IDENTITY: identity_vector,
    Activation.SILU: silu_vector,
    Activation.GELU: gelu_vector,
    Activation.QUICK_GELU: quick_gelu_vector,
    Activation.RELU: relu_vector,
    Activation.RELU_SQUARED: relu_squared_vector,
    Activation.SIGMOID: sigmoid_vector,
    Activation.TANH: tanh_vector,
    Activation.SOFTPLUS: softplus_vector,
}


def gated_kernel(activation: Activation) -> Any:
    """Makes the kernel out = activation(gate) * (up + offset), with or without limits, for a gate as wide as up."""
    activate = VECTORS[activation]

    @inline
    def product(gate, up, limit, is_early, offset):  # type: ignore[no-untyped-def]
        if limit != np.float32(0):
            top = splat_f32x16(limit)
            up = at_least(at_most(up, top), splat_f32x16(-limit))
            if is_early:
                return activate(at_most(gate, top)) * (up + splat_f32x16(offset))
            return at_most(activate(gate), top) * (up + splat_f32x16(offset))
        return activate(gate) * (up + splat_f32x16(offset))

    def gated(op: int, step: int, thread: int, num_threads: int) -> None:
        width = load_i64(op + GATED_WIDTH * 8)
        num_rows = count_rows(step, load_i64(op + GATED_ROWS * 8))
        limit, offset = load_f32(op + GATED_LIMIT * 8), load_f32(op + GATED_OFFSET * 8)
        is_early = load_i64(op + GATED_IS_EARLY * 8) != 0
        begin = first_row(num_rows, thread, num_threads) * width
        end = first_row(num_rows, thread + 1, num_threads) * width
        gate, up, out = load_i64(op + GATED_GATE * 8), load_i64(op + GATED_UP * 8), load_i64(op + GATED_OUT * 8)
        whole = begin + ((end - begin) & ~15)
        for i in range(begin, whole, 16):
            value = product(load_f32x16(gate + i * 4), load_f32x16(up + i * 4), limit, is_early, offset)
            store_f32x16(out + i * 4, value)
        if whole < end:
            left = end - whole
            value = product(
                load_part(gate + whole * 4, left), load_part(up + whole * 4, left), limit, is_early, offset
            )
            store_part(out + whole * 4, value, left)

    gated.__name__ = f"gated_{activation.name.lower()}"
    return gated


def gated_runs_kernel(activation: Activation) -> Any:
    """Makes the kernel out = activation(gate) * up for a gate each value of which serves a run of up."""
    activate = VECTORS[activation]

    def gated_runs(op: int, step: int, thread: int, num_threads: int) -> None:
        width, run = load_i64(op + GATED_WIDTH * 8), load_i64(op + GATED_RUN * 8)
        num_rows = count_rows(step, load_i64(op + GATED_ROWS * 8))
        gate, up, out = load_i64(op + GATED_GATE * 8), load_i64(op + GATED_UP * 8), load_i64(op + GATED_OUT * 8)
        runs = width // run
        begin = first_row(num_rows, thread, num_threads) * runs
        for index in range(begin, first_row(num_rows, thread + 1, num_threads) * runs):
            factor = activate(splat_f32x16(load_f32(gate + index * 4)))
            for i in range(0, run, 16):
                place = (index * run + i) * 4
                store_part(out + place, load_part(up + place, run - i) * factor, run - i)

    gated_runs.__name__ = f"gated_runs_{activation.name.lower()}"
    return gated_runs


@inline
def xielu_vector(x, negative, positive, beta, eps):  # type: ignore[no-untyped-def]
    """beta x, plus p x^2 above 0 and n (expm1(min(x, eps)) - x) below."""
    above = at_least(x, zeros_f32x16())
    below = at_most(x, splat_f32x16(eps))
    # exp(0) - 1 - 0 is 0, so that the second term vanishes above 0.
    under = at_most(x, zeros_f32x16())
    curve = exp(at_most(below, under)) - splat_f32x16(np.float32(1)) - under
    return fma(x, splat_f32x16(beta), fma(above * above, splat_f32x16(positive), curve * splat_f32x16(negative)))


def activate_kernel(activation: Activation) -> Any:
    """Makes the kernel out = activation(x)."""
    if activation is Activation.XIELU:

        @inline
        def apply(x, op):  # type: ignore[no-untyped-def]
            place = op + ACTIVATE_PARAMETERS * 8
            return xielu_vector(x, load_f32(place), load_f32(place + 8), load_f32(place + 16), load_f32(place + 24))
    else:
        vector = VECTORS[activation]

        @inline
        def apply(x, op):  # type: ignore[no-untyped-def]
            return vector(x)

    def activate(op: int, step: int, thread: int, num_threads: int) -> None:
        width = load_i64(op + ACTIVATE_WIDTH * 8)
        num_rows = count_rows(step, load_i64(op + ACTIVATE_ROWS * 8))
        begin = first_row(num_rows, thread, num_threads) * width
        end = first_row(num_rows, thread + 1, num_threads) * width
        x, out = load_i64(op + ACTIVATE_X * 8), load_i64(op + ACTIVATE_OUT * 8)
        for i in range(begin, end, 16):
            store_part(out + i * 4, apply(load_part(x + i * 4, end - i), op), end - i)

    activate.__name__ = f"activate_{activation.name.lower()}"
    return activate
