"""Ops on single values of a row: sums, factors, caps, copies, the choice of rows."""

from __future__ import annotations

import numpy as np

from engine.kernels.cpu.exponential import exp
from engine.kernels.cpu.layouts import (
    ADD_OUT,
    ADD_ROWS,
    ADD_WIDTH,
    ADD_X,
    ADD_Y,
    CAP_CAP,
    CAP_OUT,
    CAP_ROWS,
    CAP_WIDTH,
    CAP_X,
    COPY_COUNT,
    COPY_HEADS,
    COPY_OUT,
    COPY_OUT_HEAD,
    COPY_OUT_ROW,
    COPY_ROWS,
    COPY_X,
    COPY_X_HEAD,
    COPY_X_ROW,
    SCALE_FACTOR,
    SCALE_OUT,
    SCALE_ROWS,
    SCALE_TABLE,
    SCALE_WIDTH,
    SCALE_X,
    SELECT_OUT,
    SELECT_WIDTH,
    SELECT_X,
)
from engine.kernels.cpu.rows import count_rows, first_row, load_part, store_part
from engine.kernels.cpu.simd import (
    at_least,
    at_most,
    inline,
    load_f32,
    load_f32x16,
    load_i32,
    load_i64,
    splat_f32x16,
    store_f32x16,
)
from engine.kernels.cpu.step_state import LOGIT_ROWS, NUM_LOGIT_ROWS, NUM_TOKENS, POSITIONS


@inline
def cap_vector(x, cap):  # type: ignore[no-untyped-def]
    """cap * tanh(x / cap), with tanh(y) = 1 - 2 / (exp(2 y) + 1)."""
    one, two = splat_f32x16(np.float32(1)), splat_f32x16(np.float32(2))
    return cap * (one - two / (exp(x * two / cap) + one))


def add(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = x + y."""
    width = load_i64(op + ADD_WIDTH * 8)
    num_rows = count_rows(step, load_i64(op + ADD_ROWS * 8))
    begin = first_row(num_rows, thread, num_threads) * width
    end = first_row(num_rows, thread + 1, num_threads) * width
    x, y, out = load_i64(op + ADD_X * 8), load_i64(op + ADD_Y * 8), load_i64(op + ADD_OUT * 8)
    whole = begin + ((end - begin) & ~15)
    for i in range(begin, whole, 16):
        store_f32x16(out + i * 4, load_f32x16(x + i * 4) + load_f32x16(y + i * 4))
    if whole < end:
        left = end - whole
        store_part(out + whole * 4, load_part(x + whole * 4, left) + load_part(y + whole * 4, left), left)


def soft_cap(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = cap * tanh(x / cap). A row of logits is wide, so threads share its values, not rows."""
    count = count_rows(step, load_i64(op + CAP_ROWS * 8)) * load_i64(op + CAP_WIDTH * 8)
    groups = (count + 15) // 16
    begin = first_row(groups, thread, num_threads) * 16
    end = min(first_row(groups, thread + 1, num_threads) * 16, count)
    x, out = load_i64(op + CAP_X * 8), load_i64(op + CAP_OUT * 8)
    cap = splat_f32x16(load_f32(op + CAP_CAP * 8))
    for i in range(begin, end, 16):  # none for a thread without a share, whose begin lies beyond the end
        store_part(out + i * 4, cap_vector(load_part(x + i * 4, end - i), cap), end - i)


def select_rows(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = the rows of x whose logits are wanted."""
    width, rows = load_i64(op + SELECT_WIDTH * 8), load_i64(step + LOGIT_ROWS * 8)
    num_rows = load_i64(step + NUM_LOGIT_ROWS * 8)
    for row in range(first_row(num_rows, thread, num_threads), first_row(num_rows, thread + 1, num_threads)):
        x = load_i64(op + SELECT_X * 8) + load_i32(rows + row * 4) * width * 4
        out = load_i64(op + SELECT_OUT * 8) + row * width * 4
        for i in range(0, width, 16):
            store_part(out + i * 4, load_part(x + i * 4, width - i), width - i)


def scale(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = x * factor."""
    width = load_i64(op + SCALE_WIDTH * 8)
    num_rows = count_rows(step, load_i64(op + SCALE_ROWS * 8))
    begin = first_row(num_rows, thread, num_threads) * width
    end = first_row(num_rows, thread + 1, num_threads) * width
    x, out = load_i64(op + SCALE_X * 8), load_i64(op + SCALE_OUT * 8)
    factor = splat_f32x16(load_f32(op + SCALE_FACTOR * 8))
    for i in range(begin, end, 16):
        store_part(out + i * 4, load_part(x + i * 4, end - i) * factor, end - i)


def scale_by_position(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: x *= the factor of each token's position."""
    width, num_tokens = load_i64(op + SCALE_WIDTH * 8), load_i64(step + NUM_TOKENS * 8)
    for token in range(first_row(num_tokens, thread, num_threads), first_row(num_tokens, thread + 1, num_threads)):
        position = np.int64(load_i32(load_i64(step + POSITIONS * 8) + token * 4))
        factor = splat_f32x16(load_f32(load_i64(op + SCALE_TABLE * 8) + position * 4))
        x = load_i64(op + SCALE_X * 8) + token * width * 4
        for i in range(0, width, 16):
            store_part(x + i * 4, load_part(x + i * 4, width - i) * factor, width - i)


def clamp(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out = x held within -limit..limit; the limit is the cap's operand."""
    width = load_i64(op + CAP_WIDTH * 8)
    num_rows = count_rows(step, load_i64(op + CAP_ROWS * 8))
    begin = first_row(num_rows, thread, num_threads) * width
    end = first_row(num_rows, thread + 1, num_threads) * width
    x, out, limit = load_i64(op + CAP_X * 8), load_i64(op + CAP_OUT * 8), load_f32(op + CAP_CAP * 8)
    for i in range(begin, end, 16):
        value = at_least(at_most(load_part(x + i * 4, end - i), splat_f32x16(limit)), splat_f32x16(-limit))
        store_part(out + i * 4, value, end - i)


def copy(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: a stretch of each head of x to a stretch of each head of out."""
    heads, count = load_i64(op + COPY_HEADS * 8), load_i64(op + COPY_COUNT * 8)
    num_rows = count_rows(step, load_i64(op + COPY_ROWS * 8))
    for row in range(first_row(num_rows, thread, num_threads), first_row(num_rows, thread + 1, num_threads)):
        x = load_i64(op + COPY_X * 8) + row * load_i64(op + COPY_X_ROW * 8) * 4
        out = load_i64(op + COPY_OUT * 8) + row * load_i64(op + COPY_OUT_ROW * 8) * 4
        for _ in range(heads):
            for i in range(0, count, 16):
                store_part(out + i * 4, load_part(x + i * 4, count - i), count - i)
            x += load_i64(op + COPY_X_HEAD * 8) * 4
            out += load_i64(op + COPY_OUT_HEAD * 8) * 4
