"""How keys and values lie in a block of 16 tokens, for each KV type. Light on purpose: no numba.

A layer has (kv heads, blocks) of these, keys and values apart; ``width`` is value_dim up to a multiple of 16. One
load of keys gives a value of each of 16 tokens, one load of values 16 values of a token:

    f16     keys    [key_dim][16] float16
            values  [16][width] float16
    q8_0    keys    [key_dim][16] int8, then [groups of key_dim][16] float16 scales
            values  [16][width] int8, then [groups of width][16] float16 scales

A group is 32 neighbouring values of one token, the last one what is left; value = scale * q, scale = largest / 127.
"""

from __future__ import annotations

from typing import Final

from engine.config import KVType
from engine.model.plan import BLOCK_SIZE, KVLayer, Plan

SCALE_GROUP: Final = 32  # values that share a scale
SCALES_BYTES: Final = 2 * BLOCK_SIZE  # of one group in a block


def padded(dim: int) -> int:
    """``dim`` up to a multiple of 16."""
    return -(-dim // 16) * 16


def _block_bytes(dim: int, kv_type: KVType) -> int:
    if kv_type == "f16":
        return dim * BLOCK_SIZE * 2
    return dim * BLOCK_SIZE + -(-dim // SCALE_GROUP) * SCALES_BYTES


def key_block_bytes(layer: KVLayer, kv_type: KVType) -> int:
    """Bytes of the keys of one head in one block."""
    return _block_bytes(layer.key_dim, kv_type)


def value_block_bytes(layer: KVLayer, kv_type: KVType) -> int:
    """Bytes of the values of one head in one block."""
    return _block_bytes(padded(layer.value_dim), kv_type)


def kv_bytes_per_block(plan: Plan, kv_type: KVType = "f16") -> int:
    """Bytes that one block of 16 tokens takes in all layers together."""
    return sum(
        layer.num_kv_heads * (key_block_bytes(layer, kv_type) + value_block_bytes(layer, kv_type))
        for layer in plan.kv_layers
    )
