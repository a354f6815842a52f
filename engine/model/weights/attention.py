"""Binding of what makes queries, keys and values."""

from __future__ import annotations

import numpy as np

from engine.model.architectures import Architecture
from engine.model.architectures.vocabulary import QueryKeyNorm, Sinks
from engine.model.hyperparameters import LatentHyperparameters, LayerHyperparameters
from engine.model.plan import Tensor
from engine.model.weights.binder import Binder, float_tensor
from engine.model.weights.parts import AttentionWeights, LatentWeights, Linear


def bind_attention(
    binder: Binder, row: Architecture, layer: LayerHyperparameters, prefix: str, embedding_dim: int
) -> AttentionWeights:
    """Ordinary attention, with one fused matrix or three, fewer where a layer borrows or shares them."""
    query_dim, key_dim = layer.num_heads * layer.key_dim, layer.num_kv_heads * layer.key_dim
    value_dim = layer.num_kv_heads * layer.value_dim
    key: Linear | None = None
    value: Linear | None = None
    if f"{prefix}attn_qkv.weight" in binder:
        query, key, value = binder.split(f"{prefix}attn_qkv", (query_dim, key_dim, value_dim), embedding_dim)
    else:
        query = binder.linear(f"{prefix}attn_q", query_dim * (2 if row.has_query_gate else 1), embedding_dim)
        if layer.kv_layer is None:
            key = binder.linear(f"{prefix}attn_k", key_dim, embedding_dim)
            if not row.can_share_kv or f"{prefix}attn_v.weight" in binder:
                value = binder.linear(f"{prefix}attn_v", value_dim, embedding_dim)
        else:
            binder.leave(*(f"{prefix}{name}.weight" for name in ("attn_k", "attn_v", "attn_k_norm")))
    has_sinks = row.sinks is Sinks.ALL or (row.sinks is Sinks.SLIDING and layer.window is not None)
    return AttentionWeights(
        query=query,
        key=key,
        value=value,
        query_norm=_bind_norm(binder, row, f"{prefix}attn_q_norm.weight", layer.num_heads, layer.key_dim),
        key_norm=(
            _bind_norm(binder, row, f"{prefix}attn_k_norm.weight", layer.num_kv_heads, layer.key_dim)
            if key is not None and row.query_key_norm is not QueryKeyNorm.QUERY_FACTOR
            else None
        ),
        sinks=binder.vector(f"{prefix}attn_sinks.weight", layer.num_heads) if has_sinks else None,
        gate=_bind_gate(binder, layer, prefix, embedding_dim) if row.attention_gate is not None else None,
    )


def _bind_norm(binder: Binder, row: Architecture, name: str, num_heads: int, head_dim: int) -> Tensor | None:
    """Weights of a query or key norm: of one head, or of all where heads have their own."""
    if row.is_query_key_norm_optional and name not in binder:
        return None
    match row.query_key_norm:
        case QueryKeyNorm.HEAD:
            return binder.vector(name, head_dim)
        case QueryKeyNorm.ROW:
            return binder.vector(name, num_heads * head_dim)
        case QueryKeyNorm.OWN:
            weight = binder.vector(name, num_heads, head_dim)
            return float_tensor(name, weight.data.view(np.float32))
        case QueryKeyNorm.QUERY_FACTOR:
            factors = binder.vector(name, num_heads, 1)
            return float_tensor(name, np.repeat(factors.data.view(np.float32), head_dim))
        case QueryKeyNorm.NONE | QueryKeyNorm.PLAIN:
            return None


def _bind_gate(binder: Binder, layer: LayerHyperparameters, prefix: str, embedding_dim: int) -> Linear:
    """A gate of one value a head, or one for each value that attention gathers."""
    num_rows = binder.num_rows(f"{prefix}attn_gate.weight")
    if num_rows != layer.num_heads:
        num_rows = layer.num_heads * layer.value_dim
    return binder.linear(f"{prefix}attn_gate", num_rows, embedding_dim)


def bind_latent(
    binder: Binder, latent: LatentHyperparameters, num_heads: int, prefix: str, embedding_dim: int
) -> LatentWeights:
    """Attention by way of latent vectors."""
    query_dim, rank = num_heads * (latent.plain_dim + latent.rotated_dim), latent.kv_rank
    compressed, rotated = binder.split(f"{prefix}attn_kv_a_mqa", (rank, latent.rotated_dim), embedding_dim)
    is_joined = not latent.is_absorbed
    query_rank = latent.query_rank
    return LatentWeights(
        query_down=binder.linear(f"{prefix}attn_q_a", query_rank, embedding_dim) if query_rank else None,
        query_norm=binder.norm(f"{prefix}attn_q_a_norm", query_rank) if query_rank else None,
        query_up=(
            binder.linear(f"{prefix}attn_q_b", query_dim, query_rank)
            if query_rank
            else binder.linear(f"{prefix}attn_q", query_dim, embedding_dim)
        ),
        latent=compressed,
        rotated_key=rotated,
        latent_norm=binder.norm(f"{prefix}attn_kv_a_norm", rank),
        key_value=(
            binder.linear(f"{prefix}attn_kv_b", num_heads * (latent.plain_dim + latent.value_dim), rank)
            if is_joined
            else None
        ),
        key_up=None if is_joined else binder.matrix(f"{prefix}attn_k_b.weight", num_heads, rank, latent.plain_dim),
        value_up=(
            None if is_joined else binder.matrix(f"{prefix}attn_v_b.weight", num_heads, latent.value_dim, rank)
        ),
    )
