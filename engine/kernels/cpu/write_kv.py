"""Stores a step's keys and values in the cache, in the layout that ``layouts`` draws.

Keys go 16 tokens side by side, so one token's key is scattered: a value every 32 bytes.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.cpu.layouts import (
    WRITE_HEADS,
    WRITE_KEY,
    WRITE_KEY_DIM,
    WRITE_KEY_HEAD_BYTES,
    WRITE_KEYS,
    WRITE_VALUE,
    WRITE_VALUE_DIM,
    WRITE_VALUE_HEAD_BYTES,
    WRITE_VALUES,
)
from engine.kernels.cpu.rows import first_row, load_part
from engine.kernels.cpu.simd import load_f32, load_i32, load_i64, store_f16, store_f16x16
from engine.kernels.cpu.step_state import KV_SLOTS, NUM_TOKENS


def write_kv(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: keys and values of each token to its slot, rounded to float16."""
    num_tokens, heads = load_i64(step + NUM_TOKENS * 8), load_i64(op + WRITE_HEADS * 8)
    key_dim, value_dim = load_i64(op + WRITE_KEY_DIM * 8), load_i64(op + WRITE_VALUE_DIM * 8)
    value_bytes = (value_dim + 15) // 16 * 32  # of one token in a block
    for token in range(first_row(num_tokens, thread, num_threads), first_row(num_tokens, thread + 1, num_threads)):
        place = np.int64(load_i32(load_i64(step + KV_SLOTS * 8) + token * 4))
        block, slot = place >> 4, place & 15
        for head in range(heads):
            key = load_i64(op + WRITE_KEY * 8) + (token * heads + head) * key_dim * 4
            keys = load_i64(op + WRITE_KEYS * 8) + head * load_i64(op + WRITE_KEY_HEAD_BYTES * 8)
            keys += block * key_dim * 32 + slot * 2
            for i in range(key_dim):
                store_f16(keys + i * 32, load_f32(key + i * 4))
            value = load_i64(op + WRITE_VALUE * 8) + (token * heads + head) * value_dim * 4
            values = load_i64(op + WRITE_VALUES * 8) + head * load_i64(op + WRITE_VALUE_HEAD_BYTES * 8)
            values += (block * 16 + slot) * value_bytes
            for i in range(0, value_dim, 16):
                store_f16x16(values + i * 2, load_part(value + i * 4, value_dim - i))
