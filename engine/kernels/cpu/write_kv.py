"""Stores a step's keys and values in the cache, in the layouts that ``kv_layout`` draws.

Keys go 16 tokens side by side, so one token's key is scattered: a value every 16 or 32 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from engine.kernels.cpu.kv_layout import SCALE_GROUP, SCALES_BYTES
from engine.kernels.cpu.layouts import (
    WRITE_HEADS,
    WRITE_KEY,
    WRITE_KEY_BLOCK_BYTES,
    WRITE_KEY_DIM,
    WRITE_KEY_HEAD_BYTES,
    WRITE_KEYS,
    WRITE_VALUE,
    WRITE_VALUE_BLOCK_BYTES,
    WRITE_VALUE_DIM,
    WRITE_VALUE_HEAD_BYTES,
    WRITE_VALUES,
)
from engine.kernels.cpu.quantize import largest_magnitude
from engine.kernels.cpu.rows import first_row, load_part
from engine.kernels.cpu.simd import (
    inline,
    load_f16,
    load_f32,
    load_i32,
    load_i64,
    round_even,
    splat_f32x16,
    store_f16,
    store_f16x16,
    store_i8,
    store_u8x16,
    to_i32x16,
    to_u8x16,
)
from engine.kernels.cpu.step_state import KV_SLOTS, NUM_TOKENS

Kernel = Callable[[int, int, int, int], None]
LARGEST_Q8_0: Final = 127.49  # is rounded to 127


@inline
def write_key_f16(key: int, dim: int, keys: int, slot: int) -> None:
    """A key of ``dim`` values to a slot of a block."""
    for i in range(dim):
        store_f16(keys + i * 32 + slot * 2, load_f32(key + i * 4))


@inline
def write_value_f16(value: int, dim: int, values: int, slot: int) -> None:
    """A value of ``dim`` values, padded with zeros, to a slot of a block."""
    width = (dim + 15) // 16 * 16
    for i in range(0, dim, 16):
        store_f16x16(values + (slot * width + i) * 2, load_part(value + i * 4, dim - i))


@inline
def store_scale(x: int, count: int, place: int) -> Any:
    """Store the scale of a group of ``count`` values; returns its inverse, 0 for a scale of 0.

    It is that of the scale as it was stored, unless the largest would then need more than 8 bits: below 6e-5 a
    float16 has so few bits that it may be too small by a third.
    """
    largest = largest_magnitude(load_part(x, count), load_part(x + 64, max(count - 16, 0)))
    store_f16(place, largest * np.float32(1.0 / 127.0))
    scale = load_f16(place)
    inverse = np.float32(1.0) / scale if scale > np.float32(0.0) else np.float32(0.0)
    return min(inverse, np.float32(LARGEST_Q8_0) / largest) if inverse > np.float32(0.0) else inverse


@inline
def write_key_q8_0(key: int, dim: int, keys: int, slot: int) -> None:
    """As ``write_key_f16``."""
    for start in range(0, dim, SCALE_GROUP):
        count = min(SCALE_GROUP, dim - start)
        place = keys + dim * 16 + start // SCALE_GROUP * SCALES_BYTES + slot * 2
        inverse = store_scale(key + start * 4, count, place)
        for i in range(start, start + count):
            store_i8(keys + i * 16 + slot, np.int8(np.rint(load_f32(key + i * 4) * inverse)))


@inline
def write_value_q8_0(value: int, dim: int, values: int, slot: int) -> None:
    """As ``write_value_f16``."""
    width = (dim + 15) // 16 * 16
    for start in range(0, dim, SCALE_GROUP):
        count = min(SCALE_GROUP, dim - start)
        place = values + width * 16 + start // SCALE_GROUP * SCALES_BYTES + slot * 2
        inverse = splat_f32x16(store_scale(value + start * 4, count, place))
        for i in range(start, start + count, 16):
            scaled = load_part(value + i * 4, dim - i) * inverse
            store_u8x16(values + slot * width + i, to_u8x16(to_i32x16(round_even(scaled))))


def _kernel(write_key: Any, write_value: Any, kv_type: str) -> Kernel:
    def write_kv(op: int, step: int, thread: int, num_threads: int) -> None:
        """Kernel: keys and values of each token to its slot."""
        num_tokens, heads = load_i64(step + NUM_TOKENS * 8), load_i64(op + WRITE_HEADS * 8)
        key_dim, value_dim = load_i64(op + WRITE_KEY_DIM * 8), load_i64(op + WRITE_VALUE_DIM * 8)
        first, end = first_row(num_tokens, thread, num_threads), first_row(num_tokens, thread + 1, num_threads)
        for token in range(first, end):
            place = np.int64(load_i32(load_i64(step + KV_SLOTS * 8) + token * 4))
            block, slot = place >> 4, place & 15
            for head in range(heads):
                key = load_i64(op + WRITE_KEY * 8) + (token * heads + head) * key_dim * 4
                keys = load_i64(op + WRITE_KEYS * 8) + head * load_i64(op + WRITE_KEY_HEAD_BYTES * 8)
                write_key(key, key_dim, keys + block * load_i64(op + WRITE_KEY_BLOCK_BYTES * 8), slot)
                value = load_i64(op + WRITE_VALUE * 8) + (token * heads + head) * value_dim * 4
                values = load_i64(op + WRITE_VALUES * 8) + head * load_i64(op + WRITE_VALUE_HEAD_BYTES * 8)
                write_value(value, value_dim, values + block * load_i64(op + WRITE_VALUE_BLOCK_BYTES * 8), slot)

    write_kv.__name__ = f"write_kv_{kv_type}"
    return write_kv


write_kv_f16 = _kernel(write_key_f16, write_value_f16, "f16")
write_kv_q8_0 = _kernel(write_key_q8_0, write_value_q8_0, "q8_0")
