"""The dense feed-forward, which also is the shape of a shared expert."""

from __future__ import annotations

from engine.model.graph.graph import Graph
from engine.model.hyperparameters import LayerHyperparameters
from engine.model.plan import Activate, Activation, Buffer, GatedActivation, KeepLargest
from engine.model.weights.parts import FeedForwardWeights


def build_feed_forward(
    graph: Graph, source: Buffer, layer: LayerHyperparameters, weights: FeedForwardWeights, name: str = "part"
) -> Buffer:
    """down(activation(gate h) * up h), or down(activation(up h)), in the buffer of that name."""
    up = graph.matmul(source, weights.up, "up")
    if weights.gate is None:
        graph.emit(Activate(up, up, graph.row.activation, layer.activation_parameters))
    else:
        gate = graph.matmul(source, weights.gate, "gate")
        if layer.gate_cutoff is not None:
            graph.emit(KeepLargest(gate, gate, layer.gate_cutoff))
        graph.emit(gated(graph, gate, up, layer.dense_limit))
    if weights.sub_norm is not None:
        graph.norm(up, weights.sub_norm, up)
    return graph.matmul(up, weights.down, name)


def gated(graph: Graph, gate: Buffer, up: Buffer, limit: float | None) -> GatedActivation:
    """The gate of a feed-forward, in place of ``up``."""
    activation = graph.row.activation
    is_quick = activation is Activation.QUICK_GELU
    return GatedActivation(
        gate,
        up,
        up,
        activation,
        limit=limit,
        is_limit_early=is_quick or graph.row.gate_limit_is_early,
        up_offset=1.0 if is_quick else 0.0,
    )
