"""The plan of a whole model: embedding, layers, logits."""

from __future__ import annotations

from engine.gguf import GGUFFile
from engine.model.architectures.vocabulary import LayerEnd
from engine.model.graph.attention import build_attention
from engine.model.graph.experts import build_experts, build_route
from engine.model.graph.feed_forward import build_feed_forward
from engine.model.graph.graph import Graph
from engine.model.graph.latent import build_latent_attention
from engine.model.graph.layer_embedding import build_layer_embedding, build_layer_embeddings
from engine.model.graph.recurrence import build_recurrence
from engine.model.graph.streams import (
    add_low_rank,
    add_to_other_streams,
    correct_streams,
    join_streams,
    predict_streams,
    scaled_active_stream,
    start_streams,
)
from engine.model.header import read_hyperparameters
from engine.model.hyperparameters import Hyperparameters, LayerHyperparameters
from engine.model.plan import Add, Buffer, Copy, Embed, Norm, Plan, Scale, SelectRows, SoftCap
from engine.model.weights import bind_weights
from engine.model.weights.parts import AttentionWeights, LatentWeights, LayerWeights, Weights


def load_plan(file: GGUFFile, context_length: int = 0) -> tuple[Hyperparameters, Plan]:
    """Read, check and bind ``file`` and build its plan; the plan refers to the file's mapped bytes.

    ``context_length`` is what the KV cache will hold, 0 the trained length. Raises what ``read_hyperparameters``
    and ``bind_weights`` raise.
    """
    hyperparameters = read_hyperparameters(file)
    return hyperparameters, build_plan(hyperparameters, bind_weights(file, hyperparameters), context_length)


def build_plan(hyperparameters: Hyperparameters, weights: Weights, context_length: int = 0) -> Plan:
    """The plan of a model; ``context_length``, 0 for the trained one, chooses long or short rope factors."""
    model = hyperparameters
    graph = Graph(model, weights, context_length or model.context_length)
    stream = _embed(graph)
    kept = _keep_embedding(graph, stream)
    layer_embeddings = build_layer_embeddings(graph, stream)
    streams = start_streams(graph, stream, weights.streams) if weights.streams is not None else None
    for loop in range(model.num_loops):
        if loop and model.has_norm_between_loops:
            graph.norm(stream, weights.output_norm, stream, graph.stream_eps)
        for index, (layer, layer_weights) in enumerate(zip(model.layers, weights.layers, strict=True)):
            if streams is not None and layer_weights.streams is not None:
                predicted = predict_streams(graph, streams, stream, layer_weights.streams)
                _build_layer(graph, stream, index, layer, layer_weights)
                correct_streams(graph, streams, predicted, stream, layer_weights.streams)
            else:
                _build_layer(graph, stream, index, layer, layer_weights)
            if layer_embeddings is not None:
                _add_layer_embedding(graph, stream, streams, layer_embeddings, index, layer_weights)
            _end_layer(graph, stream, kept, layer_weights)
    logits = _logits(graph, stream, streams)
    return Plan(
        ops=tuple(graph.ops),
        buffers=tuple(graph.buffers.values()),
        kv_layers=tuple(graph.kv_layers),
        logits=logits,
        vocab_size=model.vocab_size,
        num_experts_used=model.experts.num_used if model.experts is not None else 0,
        state_sizes=tuple(graph.state_sizes),
        max_positions=model.context_length if weights.position_embedding is not None else None,
    )


def _embed(graph: Graph) -> Buffer:
    model, weights = graph.model, graph.weights
    stream = graph.buffer("stream", model.embedding_dim)
    scale = model.embedding_scale / graph.stream_scale
    graph.emit(Embed(weights.token_embedding, stream, scale))
    if weights.position_embedding is not None:
        positions = graph.buffer("normed", model.embedding_dim)
        graph.emit(Embed(weights.position_embedding, positions, scale, by_position=True))
        graph.emit(Add(stream, positions, stream))
    if weights.embedding_norm is not None:
        graph.norm(stream, weights.embedding_norm, stream)
    return stream


def _keep_embedding(graph: Graph, stream: Buffer) -> Buffer | None:
    """A copy of the embedding where layers add it again."""
    if graph.row.layer_end is not LayerEnd.ADD_EMBEDDING:
        return None
    kept = graph.buffer("embedding", stream.width)
    graph.emit(Copy(stream, kept, stream.width))
    return kept


def _build_layer(
    graph: Graph, stream: Buffer, index: int, layer: LayerHyperparameters, weights: LayerWeights
) -> None:
    """Attention and feed-forward, one after the other or both of the same stream."""
    if weights.experts is not None and graph.row.experts is not None and graph.row.experts.reads_stream:
        build_route(graph, stream, weights.experts)
    is_parallel = graph.model.is_parallel
    if is_parallel is None:
        is_parallel = weights.feed_forward_norm is None
    source = graph.normed_stream(stream, weights.attention_norm)
    feed_forward_source = source
    if is_parallel and weights.feed_forward_norm is not None:
        feed_forward_source = graph.normed_stream(stream, weights.feed_forward_norm, "normed_again")
    _attention_part(graph, stream, source, index, layer, weights)
    if weights.streams is not None:
        add_low_rank(graph, stream, source, weights.streams)
    if weights.recurrence is not None:
        graph.add_part(stream, build_recurrence(graph, source, weights.recurrence), weights.attention_post_norm)
    if weights.feed_forward is None and weights.experts is None:
        return
    if not is_parallel:
        feed_forward_source = graph.normed_stream(stream, weights.feed_forward_norm)
    _feed_forward_part(graph, stream, feed_forward_source, layer, weights)


def _attention_part(
    graph: Graph,
    stream: Buffer,
    source: Buffer,
    index: int,
    layer: LayerHyperparameters,
    weights: LayerWeights,
) -> None:
    """stream += output(attention(source)), as far as the layer has it."""
    if weights.attention_output is None:
        return
    if isinstance(weights.attention, LatentWeights):
        source = build_latent_attention(graph, source, layer, weights.attention)
    elif isinstance(weights.attention, AttentionWeights):
        source = build_attention(graph, source, index, layer, weights.attention)
    if weights.attention_sub_norm is not None:
        graph.norm(source, weights.attention_sub_norm, source)
    part = graph.matmul(source, weights.attention_output, "part")
    if graph.model.value_scale != 1.0:
        graph.emit(Scale(part, part, graph.model.value_scale))
    graph.add_part(stream, part, weights.attention_post_norm)


def _feed_forward_part(
    graph: Graph, stream: Buffer, source: Buffer, layer: LayerHyperparameters, weights: LayerWeights
) -> None:
    if weights.experts is not None:
        part = build_experts(graph, stream, source, layer, weights.experts, weights.feed_forward)
    else:
        assert weights.feed_forward is not None, "the layer has a feed-forward"
        part = build_feed_forward(graph, source, layer, weights.feed_forward)
    graph.add_part(stream, part, weights.feed_forward_post_norm)


def _add_layer_embedding(
    graph: Graph, stream: Buffer, streams: Buffer | None, embeddings: Buffer, index: int, weights: LayerWeights
) -> None:
    """The layer's own embedding joins the stream, or of several all but the active one, which it reads."""
    assert weights.layer_embedding is not None, "all layers have embeddings of their own, or none"
    if streams is None or weights.streams is None:
        part = build_layer_embedding(graph, stream, embeddings, index, weights.layer_embedding)
        graph.emit(Add(stream, part, stream))
        return
    source = scaled_active_stream(graph, streams, stream, weights.streams)
    part = build_layer_embedding(graph, source, embeddings, index, weights.layer_embedding)
    add_to_other_streams(graph, streams, part)


def _end_layer(graph: Graph, stream: Buffer, kept: Buffer | None, weights: LayerWeights) -> None:
    if graph.row.layer_end is LayerEnd.SCALE_STREAM:
        graph.emit(Scale(stream, stream, weights.output_scale))
    elif kept is not None:
        part = graph.buffer("part", stream.width)
        graph.emit(Scale(kept, part, weights.output_scale), Add(stream, part, stream))


def _logits(graph: Graph, stream: Buffer, streams: Buffer | None) -> Buffer:
    model, weights = graph.model, graph.weights
    eps = graph.stream_eps
    if streams is not None and weights.streams is not None:
        selected = join_streams(graph, streams, weights.streams)
        eps *= model.num_streams**2  # the norm of the sum is that of the mean
    else:
        selected = graph.buffer("selected", model.embedding_dim, "logits")
        graph.emit(SelectRows(stream, selected))
    norm = weights.output_norm
    centered = model.has_centered_norms
    graph.emit(Norm(selected, norm.weight, selected, eps, 1, norm.bias, centered))
    logits = graph.matmul(selected, weights.output, "logits")
    if norm.weight is None and model.logit_scale != 1.0:
        graph.emit(Scale(logits, logits, model.logit_scale))
    if model.logit_soft_cap is not None:
        graph.emit(SoftCap(logits, logits, model.logit_soft_cap))
    return logits
