"""A mixture of experts and what works beside it."""

from __future__ import annotations

from engine.model.architectures.vocabulary import Beside
from engine.model.graph.feed_forward import build_feed_forward, gated
from engine.model.graph.graph import Graph
from engine.model.hyperparameters import ExpertHyperparameters, LayerHyperparameters
from engine.model.plan import (
    Activate,
    Activation,
    Add,
    Buffer,
    Combine,
    Dispatch,
    ExpertMatMul,
    GatedActivation,
    Route,
    Scale,
)
from engine.model.weights.parts import ExpertGroup, ExpertMatrix, ExpertWeights, FeedForwardWeights


def build_experts(
    graph: Graph,
    stream: Buffer,
    source: Buffer,
    layer: LayerHyperparameters,
    weights: ExpertWeights,
    dense: FeedForwardWeights | None,
) -> Buffer:
    """The experts' part of the stream ``stream``, whose normed value is ``source``."""
    row = graph.row.experts
    assert row is not None, "a layer has experts, so the architecture has them"
    if row.beside is Beside.NORMED_DENSE and dense is not None:
        return _beside_normed_dense(graph, stream, source, layer, weights, dense)
    part = _routed(graph, source, source, layer, weights)
    if row.beside is Beside.DENSE and dense is not None:
        graph.emit(Add(part, build_feed_forward(graph, source, layer, dense, "dense_part"), part))
        graph.emit(Scale(part, part, 0.5**0.5))
    if weights.shared is not None:
        _add_shared(graph, part, source, layer, weights)
        if row.beside is Beside.SHARED_MEAN:
            graph.emit(Scale(part, part, 0.5))
    return part


def build_route(graph: Graph, source: Buffer, weights: ExpertWeights, divisor: int = 1) -> None:
    """The choice of experts by what the router reads."""
    experts = graph.model.experts
    assert experts is not None, "a layer has experts, so the model has them"
    graph.emit(_route(graph.matmul(source, weights.router, "router"), experts, weights, divisor))


def _route(logits: Buffer, experts: ExpertHyperparameters, weights: ExpertWeights, divisor: int) -> Route:
    return Route(
        logits=logits,
        gating=experts.gating,
        bias=weights.selection_bias,
        num_groups=experts.num_groups,
        num_used_groups=experts.num_used_groups,
        is_normalized=experts.is_normalized,
        scale=experts.scale,
        divisor=divisor,
    )


def _routed(
    graph: Graph, router_source: Buffer, source: Buffer, layer: LayerHyperparameters, weights: ExpertWeights
) -> Buffer:
    """The sum of the chosen experts, and of the second group that reads it."""
    row, experts = graph.row.experts, graph.model.experts
    assert row is not None, "a layer has experts, so the architecture has them"
    assert experts is not None, "a layer has experts, so the model has them"
    if not row.reads_stream:
        build_route(graph, router_source, weights)
    part = _group(graph, source, layer, weights.experts, "part")
    if weights.chunks is not None:
        graph.emit(_route(graph.buffer("router", experts.num_experts), experts, weights, experts.chunk_divisor))
        second = _group(graph, part, layer, weights.chunks, "chunk_part")
        graph.emit(Scale(second, second, experts.chunk_scale), Add(part, second, part))
    return part


def _group(graph: Graph, source: Buffer, layer: LayerHyperparameters, group: ExpertGroup, name: str) -> Buffer:
    """Dispatch, the matrices of a group, and the weighted sum in the buffer of that name."""
    weighs_input = graph.row.experts is not None and graph.row.experts.weighs_input
    dispatched = graph.buffer("dispatched", source.width, "pairs")
    graph.emit(Dispatch(source, dispatched, is_weighted=weighs_input))
    up = _expert_matmul(graph, dispatched, group.up, "expert_up")
    if group.gate is None:
        graph.emit(Activate(up, up, graph.row.activation, layer.activation_parameters))
    else:
        gate = _expert_matmul(graph, dispatched, group.gate, "expert_gate")
        graph.emit(gated(graph, gate, up, layer.expert_limit))
    down = _expert_matmul(graph, up, group.down, "expert_down")
    part = graph.buffer(name, group.down.num_rows)
    graph.emit(Combine(down, part, is_weighted=not weighs_input))
    return part


def _expert_matmul(graph: Graph, x: Buffer, matrix: ExpertMatrix, name: str) -> Buffer:
    out = graph.buffer(name, matrix.num_rows, "pairs")
    graph.emit(ExpertMatMul(x, matrix.weight, out, matrix.bias, matrix.first_row))
    return out


def _add_shared(
    graph: Graph, part: Buffer, source: Buffer, layer: LayerHyperparameters, weights: ExpertWeights
) -> None:
    assert weights.shared is not None, "there is a shared expert"
    shared = build_feed_forward(graph, source, layer, weights.shared, "shared_part")
    if weights.shared_gate is not None:
        gate = graph.matmul(source, weights.shared_gate, "shared_gate")
        graph.emit(GatedActivation(gate, shared, shared, Activation.SIGMOID))
    graph.emit(Add(part, shared, part))


def _beside_normed_dense(
    graph: Graph,
    stream: Buffer,
    source: Buffer,
    layer: LayerHyperparameters,
    weights: ExpertWeights,
    dense: FeedForwardWeights,
) -> Buffer:
    """Gemma 4: experts, router and dense part each have norms of their own; the router's divides by sqrt(width)."""
    assert weights.dense_post_norm
    assert weights.router_norm
    assert weights.input_norm
    assert weights.post_norm
    dense_part = build_feed_forward(graph, source, layer, dense, "dense_part")
    graph.norm(dense_part, weights.dense_post_norm, dense_part)
    router_source = graph.normed_stream(stream, weights.router_norm, "router_source")
    graph.emit(Scale(router_source, router_source, stream.width**-0.5))
    expert_source = graph.normed_stream(stream, weights.input_norm, "expert_source")
    part = _routed(graph, router_source, expert_source, layer, weights)
    graph.norm(part, weights.post_norm, part)
    graph.emit(Add(part, dense_part, part))
    return part
