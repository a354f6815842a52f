"""Several residual streams (Gemma 3n): AltUp (Baykal et al. 2023, arXiv:2301.13310) and LAuReL (arXiv:2411.07501).

Streams lie side by side in one buffer, the active one first. A layer predicts all of them, works on the active one
as any layer works on its stream, and corrects all by how far the result is from what was predicted.
"""

from __future__ import annotations

import math

from engine.model.graph.graph import Graph
from engine.model.plan import (
    Activate,
    Activation,
    Add,
    Buffer,
    Copy,
    MatchLength,
    MatMul,
    MixStreams,
    Scale,
    ScaleColumns,
    SelectRows,
)
from engine.model.weights.parts import Linear, StreamEnds, StreamWeights


def start_streams(graph: Graph, stream: Buffer, ends: StreamEnds) -> Buffer:
    """All streams: the embedding, and projections of it as long as it is."""
    streams = graph.buffer("streams", stream.width * graph.model.num_streams)
    others = graph.matmul(stream, Linear(ends.entry), "other_streams")
    graph.emit(
        MatchLength(others, stream, others, graph.model.num_streams - 1),
        Copy(stream, streams, stream.width),
        Copy(others, streams, others.width, out_first=stream.width),
    )
    return streams


def predict_streams(graph: Graph, streams: Buffer, stream: Buffer, weights: StreamWeights) -> Buffer:
    """What the layer is expected to make of the streams, by the active one; ``stream`` gets the active part."""
    graph.emit(Copy(streams, stream, stream.width))
    coefficients = graph.matmul(_route(graph, stream, weights), weights.predict, "coefficients")
    predicted = graph.buffer("predicted_streams", streams.width)
    graph.emit(
        MixStreams(streams, coefficients, predicted, graph.model.num_streams),
        Copy(predicted, stream, stream.width),
    )
    return predicted


def add_low_rank(graph: Graph, stream: Buffer, source: Buffer, weights: StreamWeights) -> None:
    """stream = (stream + source + norm(up down source)) / sqrt(2), between attention and feed-forward."""
    narrow = graph.matmul(source, weights.low_rank_down, "low_rank")
    part = graph.matmul(narrow, weights.low_rank_up, "part")
    graph.add_part(stream, part, weights.low_rank_norm)
    graph.emit(Add(stream, source, stream), Scale(stream, stream, math.sqrt(0.5)))


def correct_streams(
    graph: Graph, streams: Buffer, predicted: Buffer, stream: Buffer, weights: StreamWeights
) -> None:
    """Each stream as predicted, plus a share of what the layer added to the active one beyond that."""
    difference = graph.buffer("difference", stream.width)
    graph.emit(
        Copy(predicted, difference, stream.width),
        Scale(difference, difference, -1.0),
        Add(difference, stream, difference),
    )
    shares = graph.matmul(_route(graph, stream, weights), weights.correct, "coefficients")
    graph.emit(MixStreams(difference, shares, streams, 1), Add(streams, predicted, streams))


def scaled_active_stream(graph: Graph, streams: Buffer, stream: Buffer, weights: StreamWeights) -> Buffer:
    """The corrected active stream as the layer's embedding meets it."""
    scaled = graph.buffer("normed", stream.width)
    graph.emit(Copy(streams, stream, stream.width), ScaleColumns(stream, weights.active_scale, scaled))
    return scaled


def add_to_other_streams(graph: Graph, streams: Buffer, part: Buffer) -> None:
    """Add to each stream but the active one."""
    count = graph.model.num_streams - 1
    others, spread = (graph.buffer(name, part.width * count) for name in ("other_streams", "spread_part"))
    graph.emit(
        Copy(streams, others, others.width, first=part.width),
        Copy(part, spread, part.width, count, is_shared=True),
        Add(others, spread, others),
        Copy(others, streams, others.width, out_first=part.width),
    )


def join_streams(graph: Graph, streams: Buffer, ends: StreamEnds) -> Buffer:
    """Sum of the streams at the rows of wanted logits, the others projected and as long as the active one."""
    width = graph.model.embedding_dim
    selected = graph.buffer("selected_streams", streams.width, "logits")
    active, other, projected, joined = (
        graph.buffer(name, width, "logits")
        for name in ("selected_active", "selected_other", "projected", "selected")
    )
    graph.emit(SelectRows(streams, selected), Copy(selected, active, width), Copy(selected, joined, width))
    for index, weight in enumerate(ends.exits, start=1):
        graph.emit(
            Copy(selected, other, width, first=index * width),
            MatMul(other, weight, projected),
            MatchLength(projected, active, projected),
            Add(joined, projected, joined),
        )
    return joined


def _route(graph: Graph, x: Buffer, weights: StreamWeights) -> Buffer:
    """tanh(router(norm(x))), a number a stream."""
    normed = graph.buffer("normed", x.width)
    graph.norm(x, weights.router_norm, normed)
    routed = graph.matmul(normed, weights.router, "stream_router")
    graph.emit(Activate(routed, routed, Activation.TANH))
    return routed
