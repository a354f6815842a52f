"""The attention part of a layer."""

from __future__ import annotations

from engine.model.architectures.vocabulary import QueryKeyNorm
from engine.model.graph.graph import Graph, alibi_slopes
from engine.model.hyperparameters import LayerHyperparameters
from engine.model.plan import (
    Activation,
    Attention,
    Buffer,
    Clamp,
    Copy,
    GatedActivation,
    KVLayer,
    Norm,
    Rope,
    ScaleByPosition,
    Tensor,
    WriteKV,
)
from engine.model.weights.parts import AttentionWeights


def build_attention(
    graph: Graph, source: Buffer, index: int, layer: LayerHyperparameters, weights: AttentionWeights
) -> Buffer:
    """What attention gathers, before its output matrix."""
    query, query_gate = _project_query(graph, source, layer, weights)
    _turn(graph, query, layer.num_heads, layer, weights.query_norm)
    if layer.position_scale is not None:
        scale = layer.position_scale
        graph.emit(ScaleByPosition(query, scale.scale, scale.length, scale.offset))
    if layer.kv_layer is None:
        graph.kv_of_layer[index] = _write_kv(graph, source, layer, weights)
    kv_layer = graph.kv_of_layer[index if layer.kv_layer is None else layer.kv_layer]
    attended = graph.buffer("attended", layer.num_heads * layer.value_dim)
    graph.emit(attention_op(graph, kv_layer, query, attended, layer, weights.sinks))
    if weights.gate is not None and graph.row.attention_gate is not None:
        gate = graph.matmul(source, weights.gate, "attention_gate")
        graph.emit(GatedActivation(gate, attended, attended, graph.row.attention_gate))
    if query_gate is not None:
        graph.emit(GatedActivation(query_gate, attended, attended, Activation.SIGMOID))
    return attended


def attention_op(
    graph: Graph,
    kv_layer: int,
    query: Buffer,
    out: Buffer,
    layer: LayerHyperparameters,
    sinks: Tensor | None = None,
) -> Attention:
    """The op over the cache of ``kv_layer``."""
    bias = graph.model.alibi_bias
    return Attention(
        kv_layer=kv_layer,
        query=query,
        out=out,
        num_heads=layer.num_heads,
        scale=layer.attention_scale,
        window=layer.window,
        soft_cap=graph.model.attention_soft_cap,
        sinks=sinks,
        chunk=layer.chunk,
        slopes=alibi_slopes(layer.num_heads, bias) if bias is not None else None,
    )


def _project_query(
    graph: Graph, source: Buffer, layer: LayerHyperparameters, weights: AttentionWeights
) -> tuple[Buffer, Buffer | None]:
    """Queries, and the gates that may lie between them."""
    query = graph.matmul(source, weights.query, "query")
    if not graph.row.has_query_gate:
        _clamp(graph, query)
        return query, None
    heads, dim = layer.num_heads, layer.key_dim
    plain, gate = (graph.buffer(name, heads * dim) for name in ("plain_query", "query_gate"))
    graph.emit(Copy(query, plain, dim, heads), Copy(query, gate, dim, heads, first=dim))
    return plain, gate


def _write_kv(graph: Graph, source: Buffer, layer: LayerHyperparameters, weights: AttentionWeights) -> int:
    """Compute and store keys and values; returns the layer of the cache."""
    assert weights.key is not None, "a layer without keys borrows them"
    key = graph.matmul(source, weights.key, "key")
    _clamp(graph, key)
    if weights.value is not None:
        value = graph.matmul(source, weights.value, "value")
        _clamp(graph, value)
    else:
        value = graph.buffer("value", key.width)
        graph.emit(Copy(key, value, key.width))
    _turn(graph, key, layer.num_kv_heads, layer, weights.key_norm)
    if graph.row.has_value_norm:
        graph.emit(Norm(value, None, value, graph.model.norm_eps, layer.num_kv_heads))
    kv_layer = len(graph.kv_layers)
    graph.kv_layers.append(KVLayer(layer.num_kv_heads, layer.key_dim, layer.value_dim, layer.window))
    graph.emit(WriteKV(kv_layer, key, value))
    return kv_layer


def _turn(graph: Graph, x: Buffer, num_heads: int, layer: LayerHyperparameters, weight: Tensor | None) -> None:
    """Norm and rope of queries or keys, in the order of the row."""
    if not graph.row.is_query_key_norm_late:
        _norm_heads(graph, x, num_heads, layer, weight)
    if layer.rope is not None:
        graph.emit(Rope(x, num_heads, layer.key_dim, graph.table(layer.rope)))
    if graph.row.is_query_key_norm_late:
        _norm_heads(graph, x, num_heads, layer, weight)


def _norm_heads(
    graph: Graph, x: Buffer, num_heads: int, layer: LayerHyperparameters, weight: Tensor | None
) -> None:
    kind = graph.row.query_key_norm
    if kind is QueryKeyNorm.ROW:
        num_heads = 1
    is_weightless = kind is QueryKeyNorm.QUERY_FACTOR or (
        kind is QueryKeyNorm.PLAIN and layer.rope is not None and not _is_large_llama4(graph)
    )
    if weight is not None or is_weightless:
        is_centered = kind is QueryKeyNorm.OWN
        graph.emit(Norm(x, weight, x, graph.model.norm_eps, num_heads, is_centered=is_centered))


def _is_large_llama4(graph: Graph) -> bool:
    """The size with 128 experts was trained without norms of queries and keys."""
    return graph.model.experts is not None and graph.model.experts.num_experts == 128


def _clamp(graph: Graph, x: Buffer) -> None:
    if graph.model.qkv_limit is not None:
        graph.emit(Clamp(x, x, graph.model.qkv_limit))
