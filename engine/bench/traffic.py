"""How many bytes a decoded token reads, and how large a KV cache is: arithmetic over a plan."""

from __future__ import annotations

from engine.config import KVType
from engine.model.plan import ExpertMatMul, HeadMatMul, MatMul, Norm, Plan

KV_VALUE_BYTES: dict[KVType, float] = {"f16": 2, "q8_0": 1 + 2 / 32}
_PEER_VALUE_BYTES = 2  # float16


def weight_bytes_per_token(plan: Plan) -> int:
    """Bytes of weights that one token reads: matrices and norms, and of experts those it uses.

    Of the embedding it reads one row, which is left out.
    """
    num_bytes = 0
    for op in plan.ops:
        match op:
            case MatMul(weight=weight) | HeadMatMul(weight=weight):
                num_bytes += weight.data.nbytes
            case ExpertMatMul(weight=weight):
                row_bytes = weight.type.row_bytes(weight.shape[2])
                num_bytes += row_bytes * op.out.width * plan.num_experts_used
            case Norm(weight=vector) if vector is not None:
                num_bytes += vector.data.nbytes
    return num_bytes


def kv_bytes_per_token(plan: Plan, depth: int, kv_type: KVType = "f16") -> int:
    """Bytes of keys and values that attention reads for a token at position ``depth``."""
    values = sum(
        layer.num_kv_heads * (layer.key_dim + layer.value_dim) * min(depth, layer.window or depth)
        for layer in plan.kv_layers
    )
    return round(values * KV_VALUE_BYTES[kv_type])


def peer_kv_bytes(plan: Plan, num_tokens: int, batch_tokens: int) -> int:
    """Bytes that llama.cpp takes for ``num_tokens``: layers with a window keep it and one batch."""
    return sum(
        layer.num_kv_heads
        * (layer.key_dim + layer.value_dim)
        * _PEER_VALUE_BYTES
        * min(num_tokens, layer.window + batch_tokens if layer.window else num_tokens)
        for layer in plan.kv_layers
    )
