"""Rotary position embedding (Su et al. 2021): the angles of a step's tokens, and the rotation of heads.

Angles come from two small tables by the addition theorem: position p = 64 a + b turns by the sum of the angles of
64 a and b. The tables are float64, so an angle of position 100,000 is as exact as one of position 1, and no
kernel needs a sine. Rotated are the first 2 * pairs values of each head: value i with i + pairs ("halves"), or 2
i with 2 i + 1 ("pairs"; there each cosine is stored twice and each sine as -sin, +sin, so that a vector meets its
own).
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from engine.kernels.cpu.layouts import (
    ANGLES_COARSE,
    ANGLES_FINE,
    ANGLES_OUT,
    ANGLES_PAIRS,
    ROPE_ANGLES,
    ROPE_HEAD_DIM,
    ROPE_HEADS,
    ROPE_PAIRS,
    ROPE_X,
)
from engine.kernels.cpu.rows import first_row
from engine.kernels.cpu.simd import (
    F32X16,
    define,
    fma,
    inline,
    load_f32,
    load_f32x16,
    load_i32,
    load_i64,
    load_value,
    shuffle,
    store_f32,
    store_f32x16,
)
from engine.kernels.cpu.step_state import NUM_TOKENS, POSITIONS

FINE_POSITIONS = 64  # positions of the fine table

_F64 = ir.DoubleType()
load_f64 = define(types.float64, [types.int64], lambda b, address: load_value(b, address, _F64))
swap_neighbours = shuffle(F32X16, [lane ^ 1 for lane in range(16)])


@inline
def store_angles(out, position, coarse, fine, pairs, twice):  # type: ignore[no-untyped-def]
    """Cosines and sines of a position, each once, or twice with the sine's signs of a rotation."""
    coarse += (position >> 6) * pairs * 16
    fine += (position & 63) * pairs * 16
    for i in range(pairs):
        coarse_cos, coarse_sin = load_f64(coarse + i * 16), load_f64(coarse + i * 16 + 8)
        fine_cos, fine_sin = load_f64(fine + i * 16), load_f64(fine + i * 16 + 8)
        cos = np.float32(coarse_cos * fine_cos - coarse_sin * fine_sin)
        sin = np.float32(coarse_sin * fine_cos + coarse_cos * fine_sin)
        if twice:
            store_f32(out + i * 8, cos)
            store_f32(out + i * 8 + 4, cos)
            store_f32(out + (pairs + i) * 8, -sin)
            store_f32(out + (pairs + i) * 8 + 4, sin)
        else:
            store_f32(out + i * 4, cos)
            store_f32(out + (pairs + i) * 4, sin)


def angles_of_halves(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out[token] = cosines, sines."""
    pairs, num_tokens = load_i64(op + ANGLES_PAIRS * 8), load_i64(step + NUM_TOKENS * 8)
    for token in range(first_row(num_tokens, thread, num_threads), first_row(num_tokens, thread + 1, num_threads)):
        out = load_i64(op + ANGLES_OUT * 8) + token * pairs * 8
        position = np.int64(load_i32(load_i64(step + POSITIONS * 8) + token * 4))
        store_angles(out, position, load_i64(op + ANGLES_COARSE * 8), load_i64(op + ANGLES_FINE * 8), pairs, False)


def angles_of_pairs(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: out[token] = each cosine twice, each sine as -sin, +sin."""
    pairs, num_tokens = load_i64(op + ANGLES_PAIRS * 8), load_i64(step + NUM_TOKENS * 8)
    for token in range(first_row(num_tokens, thread, num_threads), first_row(num_tokens, thread + 1, num_threads)):
        out = load_i64(op + ANGLES_OUT * 8) + token * pairs * 16
        position = np.int64(load_i32(load_i64(step + POSITIONS * 8) + token * 4))
        store_angles(out, position, load_i64(op + ANGLES_COARSE * 8), load_i64(op + ANGLES_FINE * 8), pairs, True)


def rotate_halves(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: rotate each head's value i with value i + pairs, in place."""
    num_tokens, heads = load_i64(step + NUM_TOKENS * 8), load_i64(op + ROPE_HEADS * 8)
    head_bytes, pairs = load_i64(op + ROPE_HEAD_DIM * 8) * 4, load_i64(op + ROPE_PAIRS * 8)
    half, whole = pairs * 4, (pairs & ~15) * 4
    for token in range(first_row(num_tokens, thread, num_threads), first_row(num_tokens, thread + 1, num_threads)):
        cos = load_i64(op + ROPE_ANGLES * 8) + token * half * 2
        x = load_i64(op + ROPE_X * 8) + token * heads * head_bytes
        for _ in range(heads):
            for i in range(0, whole, 64):
                c, s = load_f32x16(cos + i), load_f32x16(cos + half + i)
                a, b = load_f32x16(x + i), load_f32x16(x + half + i)
                store_f32x16(x + i, a * c - b * s)
                store_f32x16(x + half + i, fma(a, s, b * c))
            for i in range(whole, half, 4):
                c1, s1 = load_f32(cos + i), load_f32(cos + half + i)
                a1, b1 = load_f32(x + i), load_f32(x + half + i)
                store_f32(x + i, a1 * c1 - b1 * s1)
                store_f32(x + half + i, a1 * s1 + b1 * c1)
            x += head_bytes


def rotate_pairs(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: rotate each head's value 2 i with value 2 i + 1, in place."""
    num_tokens, heads = load_i64(step + NUM_TOKENS * 8), load_i64(op + ROPE_HEADS * 8)
    head_bytes, pairs = load_i64(op + ROPE_HEAD_DIM * 8) * 4, load_i64(op + ROPE_PAIRS * 8)
    rotated, whole = pairs * 8, (pairs & ~7) * 8
    for token in range(first_row(num_tokens, thread, num_threads), first_row(num_tokens, thread + 1, num_threads)):
        cos = load_i64(op + ROPE_ANGLES * 8) + token * rotated * 2
        x = load_i64(op + ROPE_X * 8) + token * heads * head_bytes
        for _ in range(heads):
            for i in range(0, whole, 64):
                v = load_f32x16(x + i)
                s = swap_neighbours(v) * load_f32x16(cos + rotated + i)
                store_f32x16(x + i, fma(v, load_f32x16(cos + i), s))
            for i in range(whole, rotated, 8):
                c1, s1 = load_f32(cos + i), load_f32(cos + rotated + i + 4)
                a1, b1 = load_f32(x + i), load_f32(x + i + 4)
                store_f32(x + i, a1 * c1 - b1 * s1)
                store_f32(x + i + 4, a1 * s1 + b1 * c1)
            x += head_bytes
