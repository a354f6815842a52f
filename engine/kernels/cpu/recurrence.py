"""Recurrent layers: causal convolution, the scan of Mamba 2, the gated delta rule.

Each sequence goes token by token from its state to its next, so threads share out channels or heads. A state is
read and written in its slot, float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.kernels.cpu.activation import VECTORS
from engine.kernels.cpu.exponential import exp
from engine.kernels.cpu.layouts import (
    CONV_BIAS,
    CONV_TAPS,
    CONV_WEIGHT,
    DELTA_EPS,
    DELTA_IS_GROUPED,
    DELTA_RATE,
    RECUR_OUT,
    RECUR_OUT_ROW,
    RECUR_X,
    RECUR_X_ROW,
    SCAN_DECAY,
    SCAN_GROUPS,
    SCAN_HEAD_DIM,
    SCAN_HEADS,
    SCAN_SKIP,
    SCAN_STATE_DIM,
    SCAN_STEP,
    STATE_BASE,
    STATE_SLOT_BYTES,
)
from engine.kernels.cpu.rows import first_row, load_part, store_part
from engine.kernels.cpu.simd import (
    fma,
    inline,
    load_f32,
    load_i64,
    reduce_add,
    splat_f32x16,
    store_f32,
    store_f32x16,
    zeros_f32x16,
)
from engine.kernels.cpu.step_state import (
    NUM_SLICES,
    SCRATCH,
    SCRATCH_BYTES,
    SLICE_FIRST_TOKEN,
    SLICE_NUM_TOKENS,
    SLICE_SLOTS,
    SLICE_STATE,
    SLICES,
)
from engine.model.plan import Activation


@inline
def scalar_exp(x, work):  # type: ignore[no-untyped-def]
    """exp of one number, by way of 64 bytes at ``work``."""
    store_f32x16(work, exp(splat_f32x16(x)))
    return load_f32(work)


@inline
def dot(a, b, count):  # type: ignore[no-untyped-def]
    """Dot product of ``count`` values."""
    total = zeros_f32x16()
    for i in range(0, count, 16):
        total = fma(load_part(a + i * 4, count - i), load_part(b + i * 4, count - i), total)
    return reduce_add(total)


def conv_kernel(activation: Activation) -> Any:
    """Makes the kernel of a causal convolution; threads share out channels."""
    activate = VECTORS[activation]

    def conv(op: int, step: int, thread: int, num_threads: int) -> None:
        taps, channels = load_i64(op + CONV_TAPS * 8), load_i64(op + RECUR_X_ROW * 8)
        weight, bias = load_i64(op + CONV_WEIGHT * 8), load_i64(op + CONV_BIAS * 8)
        groups = (channels + 15) // 16
        begin = first_row(groups, thread, num_threads) * 16
        end = min(first_row(groups, thread + 1, num_threads) * 16, channels)
        row = channels * 4
        for index in range(load_i64(step + NUM_SLICES * 8)):
            piece = load_i64(step + SLICES * 8) + index * SLICE_SLOTS * 8
            num_tokens, first = load_i64(piece + SLICE_NUM_TOKENS * 8), load_i64(piece + SLICE_FIRST_TOKEN * 8)
            slot = load_i64(piece + SLICE_STATE * 8) * load_i64(op + STATE_SLOT_BYTES * 8)
            state = load_i64(op + STATE_BASE * 8) + slot
            x = load_i64(op + RECUR_X * 8) + first * row
            out = load_i64(op + RECUR_OUT * 8) + first * row
            for c in range(begin, end, 16):
                left = end - c
                for token in range(num_tokens):
                    total = zeros_f32x16()
                    if bias != 0:
                        total = load_part(bias + c * 4, left)
                    for tap in range(taps):
                        source = token + tap - (taps - 1)
                        place = x + source * row if source >= 0 else state + (source + taps - 1) * row
                        total = fma(
                            load_part(place + c * 4, left), load_part(weight + tap * row + c * 4, left), total
                        )
                    store_part(out + token * row + c * 4, activate(total), left)
                for tap in range(taps - 1):
                    source = num_tokens + tap - (taps - 1)
                    place = x + source * row if source >= 0 else state + (num_tokens + tap) * row
                    store_part(state + tap * row + c * 4, load_part(place + c * 4, left), left)

    conv.__name__ = f"conv_{activation.name.lower()}"
    return conv


def selective_scan(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: S = S exp(step decay) + step u B^T; out = S C + skip u. Threads share out heads of sequences."""
    heads, groups = load_i64(op + SCAN_HEADS * 8), load_i64(op + SCAN_GROUPS * 8)
    dim, state_dim = load_i64(op + SCAN_HEAD_DIM * 8), load_i64(op + SCAN_STATE_DIM * 8)
    x_row, out_row = load_i64(op + RECUR_X_ROW * 8) * 4, load_i64(op + RECUR_OUT_ROW * 8) * 4
    work = load_i64(step + SCRATCH * 8) + thread * load_i64(step + SCRATCH_BYTES * 8)
    units = load_i64(step + NUM_SLICES * 8) * heads
    for unit in range(first_row(units, thread, num_threads), first_row(units, thread + 1, num_threads)):
        head = unit % heads
        piece = load_i64(step + SLICES * 8) + unit // heads * SLICE_SLOTS * 8
        first = load_i64(piece + SLICE_FIRST_TOKEN * 8)
        slot = load_i64(piece + SLICE_STATE * 8) * load_i64(op + STATE_SLOT_BYTES * 8)
        state = load_i64(op + STATE_BASE * 8) + slot + head * dim * state_dim * 4
        decay = load_f32(load_i64(op + SCAN_DECAY * 8) + head * 4)
        skip = load_f32(load_i64(op + SCAN_SKIP * 8) + head * 4)
        group = (heads * dim + head // (heads // groups) * state_dim) * 4
        for token in range(first, first + load_i64(piece + SLICE_NUM_TOKENS * 8)):
            x = load_i64(op + RECUR_X * 8) + token * x_row
            out = load_i64(op + RECUR_OUT * 8) + token * out_row + head * dim * 4
            size = load_f32(load_i64(op + SCAN_STEP * 8) + (token * heads + head) * 4)
            kept = splat_f32x16(scalar_exp(size * decay, work))
            b, c = x + group, x + group + groups * state_dim * 4
            for i in range(dim):
                u = load_f32(x + (head * dim + i) * 4)
                added, total = splat_f32x16(size * u), zeros_f32x16()
                row = state + i * state_dim * 4
                for n in range(0, state_dim, 16):
                    left = state_dim - n
                    value = fma(load_part(b + n * 4, left), added, load_part(row + n * 4, left) * kept)
                    store_part(row + n * 4, value, left)
                    total = fma(value, load_part(c + n * 4, left), total)
                store_f32(out + i * 4, reduce_add(total) + skip * u)


@inline
def scaled_copy(source, target, count, eps, factor):  # type: ignore[no-untyped-def]
    """``count`` values divided by sqrt(sum of squares + eps), times a factor."""
    scale = splat_f32x16(factor / np.sqrt(dot(source, source, count) + eps))
    for i in range(0, count, 16):
        store_part(target + i * 4, load_part(source + i * 4, count - i) * scale, count - i)


def delta_rule(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: S *= exp(step decay); S += rate (v - S k) k^T; out = S q. Threads share out heads of sequences."""
    heads, key_heads = load_i64(op + SCAN_HEADS * 8), load_i64(op + SCAN_GROUPS * 8)
    dim, eps = load_i64(op + SCAN_STATE_DIM * 8), load_f32(op + DELTA_EPS * 8)
    x_row, out_row = load_i64(op + RECUR_X_ROW * 8) * 4, load_i64(op + RECUR_OUT_ROW * 8) * 4
    work = load_i64(step + SCRATCH * 8) + thread * load_i64(step + SCRATCH_BYTES * 8)
    query, key = work + 64, work + 64 + dim * 4
    units = load_i64(step + NUM_SLICES * 8) * heads
    for unit in range(first_row(units, thread, num_threads), first_row(units, thread + 1, num_threads)):
        head = unit % heads
        key_head = head // (heads // key_heads) if load_i64(op + DELTA_IS_GROUPED * 8) != 0 else head % key_heads
        piece = load_i64(step + SLICES * 8) + unit // heads * SLICE_SLOTS * 8
        first = load_i64(piece + SLICE_FIRST_TOKEN * 8)
        slot = load_i64(piece + SLICE_STATE * 8) * load_i64(op + STATE_SLOT_BYTES * 8)
        state = load_i64(op + STATE_BASE * 8) + slot + head * dim * dim * 4
        decay = load_f32(load_i64(op + SCAN_DECAY * 8) + head * 4)
        for token in range(first, first + load_i64(piece + SLICE_NUM_TOKENS * 8)):
            x = load_i64(op + RECUR_X * 8) + token * x_row
            values = x + (2 * key_heads + head) * dim * 4
            out = load_i64(op + RECUR_OUT * 8) + token * out_row + head * dim * 4
            place = (token * heads + head) * 4
            kept = splat_f32x16(scalar_exp(load_f32(load_i64(op + SCAN_STEP * 8) + place) * decay, work))
            rate = load_f32(load_i64(op + DELTA_RATE * 8) + place)
            scaled_copy(x + key_head * dim * 4, query, dim, eps, np.float32(1) / np.sqrt(np.float32(dim)))
            scaled_copy(x + (key_heads + key_head) * dim * 4, key, dim, eps, np.float32(1))
            for i in range(dim):
                row, known = state + i * dim * 4, zeros_f32x16()
                for n in range(0, dim, 16):
                    left = dim - n
                    value = load_part(row + n * 4, left) * kept
                    store_part(row + n * 4, value, left)
                    known = fma(value, load_part(key + n * 4, left), known)
                error = splat_f32x16((load_f32(values + i * 4) - reduce_add(known)) * rate)
                total = zeros_f32x16()
                for n in range(0, dim, 16):
                    left = dim - n
                    value = fma(load_part(key + n * 4, left), error, load_part(row + n * 4, left))
                    store_part(row + n * 4, value, left)
                    total = fma(value, load_part(query + n * 4, left), total)
                store_f32(out + i * 4, reduce_add(total))
