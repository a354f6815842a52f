"""How many bytes a decoded token reads, and how large a KV cache is: arithmetic over a plan."""

from __future__ import annotations

from engine.model.plan import MatMul, Plan, RmsNorm

KV_VALUE_BYTES = 2  # float16


def weight_bytes_per_token(plan: Plan) -> int:
    """Bytes of weights that one token reads: matrices and norms; of the embedding one row, which is left out."""
    return sum(op.weight.data.nbytes for op in plan.ops if isinstance(op, MatMul | RmsNorm))


def kv_bytes_per_token(plan: Plan, depth: int) -> int:
    """Bytes of keys and values that attention reads for a token at position ``depth``."""
    return sum(
        layer.num_kv_heads * (layer.key_dim + layer.value_dim) * KV_VALUE_BYTES * min(depth, layer.window or depth)
        for layer in plan.kv_layers
    )


def peer_kv_bytes(plan: Plan, num_tokens: int, batch_tokens: int) -> int:
    """Bytes that llama.cpp takes for ``num_tokens``: layers with a window keep it and one batch."""
    return sum(
        layer.num_kv_heads
        * (layer.key_dim + layer.value_dim)
        * KV_VALUE_BYTES
        * min(num_tokens, layer.window + batch_tokens if layer.window else num_tokens)
        for layer in plan.kv_layers
    )
