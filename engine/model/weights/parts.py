"""The tensors of a model, by what they do. None stands for what an architecture or a layer does not have."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.model.plan import Tensor
from engine.plain_data import dataclass


@dataclass(frozen=True, eq=False)
class Linear:
    """A matrix, its bias, and a factor on the result of both (the bias is stored divided by it)."""

    weight: Tensor
    bias: Tensor | None = None
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class NormWeights:
    """Weight and bias of a norm; a norm without tensors has neither."""

    weight: Tensor | None = None
    bias: Tensor | None = None


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """What makes queries, keys and values.

    Attributes:
        query: with ``has_query_gate`` of a row, query and gate of each head.
        key: None where the layer uses another one's keys and values.
        value: None where values are the keys before their norm and rope.
    """

    query: Linear
    key: Linear | None
    value: Linear | None
    query_norm: Tensor | None
    key_norm: Tensor | None
    sinks: Tensor | None
    gate: Linear | None


@dataclass(frozen=True, eq=False)
class LatentWeights:
    """What makes queries, keys and values by way of latent vectors.

    Attributes:
        query_down, query_norm: None where queries are not compressed.
        query_up: (heads * (plain + rotated), query rank or embedding).
        latent, rotated_key: of the stream; latent_norm: of the latent vector.
        key_value: (heads * (plain + value), kv rank), key and value of each head; None where absorbed.
        key_up: (heads, kv rank, plain), value_up: (heads, value, kv rank), where absorbed.
    """

    query_down: Linear | None
    query_norm: NormWeights | None
    query_up: Linear
    latent: Linear
    rotated_key: Linear
    latent_norm: NormWeights
    key_value: Linear | None
    key_up: Tensor | None
    value_up: Tensor | None


@dataclass(frozen=True, eq=False)
class ConvWeights:
    """A short convolution: output(second * conv(first * inputs))."""

    first: Linear
    second: Linear
    inputs: Linear
    conv: Tensor
    output: Linear


@dataclass(frozen=True, eq=False)
class ScanWeights:
    """A Mamba 2 mixer.

    Attributes:
        gate, inputs, step: of the stream; ``step`` has the step's bias.
        conv, conv_bias: over ``inputs``, (taps, channels).
        decay, skip: a number a head. norm: of groups, each with its own weights.
    """

    gate: Linear
    inputs: Linear
    step: Linear
    conv: Tensor
    conv_bias: Tensor | None
    decay: Tensor
    skip: Tensor
    norm: NormWeights | None
    output: Linear


@dataclass(frozen=True, eq=False)
class DeltaWeights:
    """A gated delta net.

    Attributes:
        inputs: queries, keys and values; gate: of the result.
        rate, step: a number a value head, ``step`` with its bias; None where ``rate_and_step`` has both: for each
            key head the rates of its value heads, then their steps.
        conv: over ``inputs``, (taps, channels). decay: a number a value head. norm: of each value head.
    """

    inputs: Linear
    gate: Linear
    rate: Linear | None
    step: Linear | None
    rate_and_step: Linear | None
    conv: Tensor
    decay: Tensor
    norm: NormWeights
    output: Linear


@dataclass(frozen=True, eq=False)
class FeedForwardWeights:
    """A dense feed-forward, gated or not."""

    gate: Linear | None
    up: Linear
    down: Linear
    sub_norm: NormWeights | None = None


@dataclass(frozen=True, eq=False)
class ExpertMatrix:
    """Rows ``first_row`` on of each expert's matrix; ``weight`` is (experts, rows of all parts, columns)."""

    weight: Tensor
    num_rows: int
    first_row: int = 0
    bias: Tensor | None = None


@dataclass(frozen=True, eq=False)
class ExpertGroup:
    """The matrices of a group of experts."""

    gate: ExpertMatrix | None
    up: ExpertMatrix
    down: ExpertMatrix


@dataclass(frozen=True, eq=False)
class ExpertWeights:
    """A router, its experts, and what works beside them.

    Attributes:
        selection_bias: added to the scores for the choice alone.
        chunks: the second group (Grove MoE).
        shared, shared_gate: the shared expert, and the sigmoid gate on its result.
        input_norm, post_norm, router_norm, dense_post_norm: where experts and dense part have norms of their own.
    """

    router: Linear
    selection_bias: Tensor | None
    experts: ExpertGroup
    chunks: ExpertGroup | None = None
    shared: FeedForwardWeights | None = None
    shared_gate: Linear | None = None
    input_norm: NormWeights | None = None
    post_norm: NormWeights | None = None
    router_norm: NormWeights | None = None
    dense_post_norm: NormWeights | None = None


@dataclass(frozen=True, eq=False)
class LayerEmbeddingWeights:
    """How a layer adds its own embedding: post_norm(projection(gelu(gate x) * embedding))."""

    gate: Linear
    projection: Linear
    post_norm: NormWeights


@dataclass(frozen=True, eq=False)
class StreamWeights:
    """A layer's part in several residual streams.

    Attributes:
        router_norm, router: what a stream says of itself, a number a stream.
        predict: of those, (streams * streams); correct: (streams,). Their biases are what they are added to.
        active_scale: on the active stream before the layer's own embedding.
        low_rank_down, low_rank_up, low_rank_norm: the low-rank part beside attention.
    """

    router_norm: NormWeights
    router: Linear
    predict: Linear
    correct: Linear
    active_scale: Tensor
    low_rank_down: Linear
    low_rank_up: Linear
    low_rank_norm: NormWeights


@dataclass(frozen=True, eq=False)
class StreamEnds:
    """Where streams begin and end: ``entry`` makes all but the active one, each of ``exits`` takes one of them."""

    entry: Tensor
    exits: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Tensors of one layer.

    Attributes:
        attention: None where ``attention_output`` alone stands for it.
        attention_output: None where the layer has no attention part.
        recurrence: instead of attention, or beside it.
        feed_forward_norm: None also where the feed-forward reads what attention reads.
        feed_forward: the dense one; experts: the mixture. Some layers have both, some neither.
        output_scale: see ``architectures.vocabulary.LayerEnd``.
    """

    attention_norm: NormWeights | None
    attention: AttentionWeights | LatentWeights | None
    attention_sub_norm: NormWeights | None
    attention_output: Linear | None
    attention_post_norm: NormWeights | None
    feed_forward_norm: NormWeights | None
    feed_forward: FeedForwardWeights | None
    experts: ExpertWeights | None
    feed_forward_post_norm: NormWeights | None
    recurrence: ConvWeights | ScanWeights | DeltaWeights | None = None
    layer_embedding: LayerEmbeddingWeights | None = None
    streams: StreamWeights | None = None
    output_scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Weights:
    """All tensors of a model.

    Attributes:
        token_embedding: (vocab_size, embedding_dim).
        position_embedding: (context_length, embedding_dim).
        embedding_norm: between the embedding and the first layer.
        layer_embedding, layer_projection, layer_norm: what makes the layers' own embeddings.
        streams: where several residual streams begin and end.
        layers: in order.
        output_norm: with factors on the logits already in it, where it has weights.
        output: (vocab_size, embedding_dim); the token embedding itself when tied.
        rope_factors: divide the rope frequencies whatever the context.
        long_rope_factors, short_rope_factors: the same for contexts above and up to the original length.
    """

    token_embedding: Tensor
    position_embedding: Tensor | None
    embedding_norm: NormWeights | None
    layer_embedding: Tensor | None
    layer_projection: Linear | None
    layer_norm: NormWeights | None
    streams: StreamEnds | None
    layers: tuple[LayerWeights, ...]
    output_norm: NormWeights
    output: Linear
    rope_factors: npt.NDArray[np.float32] | None
    long_rope_factors: npt.NDArray[np.float32] | None
    short_rope_factors: npt.NDArray[np.float32] | None
