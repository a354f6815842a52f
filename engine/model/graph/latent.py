"""Attention by way of latent vectors (DeepSeek-V2, arXiv:2405.04434).

Joined files get keys and values of every head back from the latent vector, and the cache holds those. Absorbed ones
move the matrices between latent vector and heads to the queries and to what attention gathers, so that the cache
holds the latent vector and the rotated key alone, one KV head for all.
"""

from __future__ import annotations

from engine.model.graph.attention import attention_op
from engine.model.graph.graph import Graph
from engine.model.hyperparameters import LatentHyperparameters, LayerHyperparameters
from engine.model.plan import (
    Buffer,
    Copy,
    HeadMatMul,
    KVLayer,
    Rope,
    ScaleByPosition,
    WriteKV,
)
from engine.model.weights.parts import LatentWeights


def build_latent_attention(
    graph: Graph, source: Buffer, layer: LayerHyperparameters, weights: LatentWeights
) -> Buffer:
    """What attention gathers, before its output matrix."""
    latent = graph.model.latent
    assert latent is not None, "the model has latent attention"
    query = _query(graph, source, layer, latent, weights)
    compressed = graph.matmul(source, weights.latent, "latent")
    graph.norm(compressed, weights.latent_norm, compressed)
    rotated = graph.matmul(source, weights.rotated_key, "rotated_key")
    if layer.rope is not None:
        graph.emit(Rope(rotated, 1, latent.rotated_dim, graph.table(layer.rope)))
    if latent.is_absorbed:
        return _attend_absorbed(graph, query, compressed, rotated, layer, latent, weights)
    return _attend_joined(graph, query, compressed, rotated, layer, latent, weights)


def _query(
    graph: Graph,
    source: Buffer,
    layer: LayerHyperparameters,
    latent: LatentHyperparameters,
    weights: LatentWeights,
) -> Buffer:
    if weights.query_down is not None and weights.query_norm is not None:
        source = graph.matmul(source, weights.query_down, "latent_query")
        graph.norm(source, weights.query_norm, source)
    query = graph.matmul(source, weights.query_up, "query")
    if layer.rope is not None:
        table = graph.table(layer.rope)
        graph.emit(Rope(query, layer.num_heads, layer.key_dim, table, first=latent.plain_dim))
    if layer.position_scale is not None:
        scale = layer.position_scale
        graph.emit(ScaleByPosition(query, scale.scale, scale.length, scale.offset))
    return query


def _attend_joined(
    graph: Graph,
    query: Buffer,
    compressed: Buffer,
    rotated: Buffer,
    layer: LayerHyperparameters,
    latent: LatentHyperparameters,
    weights: LatentWeights,
) -> Buffer:
    assert weights.key_value is not None, "joined files have one matrix for keys and values"
    heads, plain = layer.num_heads, latent.plain_dim
    both = graph.matmul(compressed, weights.key_value, "key_value")
    key, value = graph.buffer("key", heads * layer.key_dim), graph.buffer("value", heads * latent.value_dim)
    attended = graph.buffer("attended", heads * latent.value_dim)
    kv_layer = _add_kv_layer(graph, KVLayer(heads, layer.key_dim, latent.value_dim, layer.window))
    graph.emit(
        Copy(both, key, plain, heads),
        Copy(rotated, key, latent.rotated_dim, heads, out_first=plain, is_shared=True),
        Copy(both, value, latent.value_dim, heads, first=plain),
        WriteKV(kv_layer, key, value),
        attention_op(graph, kv_layer, query, attended, layer),
    )
    return attended


def _attend_absorbed(
    graph: Graph,
    query: Buffer,
    compressed: Buffer,
    rotated: Buffer,
    layer: LayerHyperparameters,
    latent: LatentHyperparameters,
    weights: LatentWeights,
) -> Buffer:
    assert weights.key_up is not None, "absorbed files have a key matrix a head"
    assert weights.value_up is not None, "absorbed files have a value matrix a head"
    heads, rank, turned = layer.num_heads, latent.kv_rank, latent.rotated_dim
    key = graph.buffer("key", rank + turned)
    wide_query = graph.buffer("wide_query", heads * (rank + turned))
    gathered = graph.buffer("gathered", heads * rank)
    attended = graph.buffer("attended", heads * latent.value_dim)
    kv_layer = _add_kv_layer(graph, KVLayer(1, rank + turned, rank, layer.window))
    graph.emit(
        HeadMatMul(query, weights.key_up, wide_query, heads),
        Copy(query, wide_query, turned, heads, first=latent.plain_dim, out_first=rank),
        Copy(compressed, key, rank),
        Copy(rotated, key, turned, out_first=rank),
        WriteKV(kv_layer, key, compressed),
        attention_op(graph, kv_layer, wide_query, gathered, layer),
        HeadMatMul(gathered, weights.value_up, attended, heads),
    )
    return attended


def _add_kv_layer(graph: Graph, layer: KVLayer) -> int:
    graph.kv_layers.append(layer)
    return len(graph.kv_layers) - 1
