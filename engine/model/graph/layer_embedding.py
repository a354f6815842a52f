"""Embeddings that each layer adds for itself (Gemma 3n and 4)."""

from __future__ import annotations

import math

from engine.model.graph.graph import Graph
from engine.model.plan import Activation, Add, Buffer, Copy, Embed, GatedActivation
from engine.model.weights.binder import scaled
from engine.model.weights.parts import LayerEmbeddingWeights, NormWeights


def build_layer_embeddings(graph: Graph, stream: Buffer) -> Buffer | None:
    """(norm(projection(stream) / sqrt(width)) + embedding * sqrt(narrow)) / sqrt(2), all layers side by side."""
    weights, narrow = graph.weights, graph.model.layer_embedding_dim
    if weights.layer_embedding is None or weights.layer_projection is None or weights.layer_norm is None:
        return None
    projected = graph.matmul(stream, weights.layer_projection, "layer_projection")
    # A factor before a norm is an epsilon divided by its square.
    eps = graph.model.norm_eps * stream.width
    assert weights.layer_norm.weight is not None, "this norm has weights"
    halved = NormWeights(scaled(weights.layer_norm.weight, 2**-0.5), weights.layer_norm.bias)
    graph.norm(projected, halved, projected, eps, groups=graph.model.num_layers)
    embedded = graph.buffer("layer_embeddings", projected.width)
    graph.emit(Embed(weights.layer_embedding, embedded, math.sqrt(narrow / 2)), Add(embedded, projected, embedded))
    return embedded


def build_layer_embedding(
    graph: Graph, source: Buffer, embeddings: Buffer, index: int, weights: LayerEmbeddingWeights
) -> Buffer:
    """norm(projection(gelu(gate x) * this layer's embedding)), which joins the stream."""
    narrow = graph.model.layer_embedding_dim
    gate = graph.matmul(source, weights.gate, "layer_gate")
    own = graph.buffer("layer_embedding", narrow)
    graph.emit(
        Copy(embeddings, own, narrow, first=index * narrow), GatedActivation(gate, own, own, Activation.GELU)
    )
    part = graph.matmul(own, weights.projection, "part")
    graph.norm(part, weights.post_norm, part)
    return part
