"""The numbers of a model as the builder needs them: every default and every exception of a row is resolved."""

from __future__ import annotations

from engine.model.architectures import Architecture
from engine.model.plan import Gating
from engine.model.rope import RopeParameters
from engine.plain_data import dataclass


@dataclass(frozen=True)
class PositionScale:
    """Queries grow by 1 + scale * ln(floor((position + offset) / length) + 1)."""

    scale: float
    length: int
    offset: int = 0


@dataclass(frozen=True)
class LatentHyperparameters:
    """Keys and values from a compressed latent vector (multi-head latent attention).

    Attributes:
        query_rank: width of the compressed query; None where queries are not compressed.
        kv_rank: width of the latent vector.
        plain_dim, rotated_dim: of each head's query and key, those that stay and those that turn.
        value_dim: width of a head's value.
        is_absorbed: the cache holds the latent vector and the rotated key, which all heads share.
    """

    query_rank: int | None
    kv_rank: int
    plain_dim: int
    rotated_dim: int
    value_dim: int
    is_absorbed: bool


@dataclass(frozen=True)
class ExpertHyperparameters:
    """A mixture of experts.

    Attributes:
        num_experts, num_used: in all, and of each token.
        width: inside one expert.
        gating, is_normalized, scale, num_groups, num_used_groups: as in ``plan.Route``.
        has_shared: the header promises a shared expert.
        chunk_divisor, chunk_width, chunk_scale: second group of experts, each for that many of the first.
    """

    num_experts: int
    num_used: int
    width: int
    gating: Gating
    is_normalized: bool
    scale: float = 1.0
    num_groups: int = 1
    num_used_groups: int = 1
    has_shared: bool = False
    chunk_divisor: int = 1
    chunk_width: int = 0
    chunk_scale: float = 1.0


@dataclass(frozen=True)
class RecurrenceHyperparameters:
    """Recurrent layers; of a short convolution only ``num_taps`` counts.

    Attributes:
        num_taps: values of each channel that its convolution sees.
        inner_dim: width of what comes out.
        state_dim: of a Mamba 2 state; of a delta net the width of a key and of a value.
        num_groups: groups of B and C; of a delta net the key heads.
        num_heads: with a step of their own; of a delta net the value heads.
    """

    num_taps: int
    inner_dim: int = 0
    state_dim: int = 0
    num_groups: int = 1
    num_heads: int = 0


@dataclass(frozen=True)
class LayerHyperparameters:
    """Shape of one layer.

    Attributes:
        num_heads, num_kv_heads: query heads, and the heads of keys and values they share. No heads is no attention
            in this layer; heads without KV heads is one matrix in its place.
        key_dim, value_dim: width of one head.
        feed_forward_dim: width inside the dense feed-forward; 0 is none in this layer.
        window: tokens a token sees, itself included; None is all.
        rope: rotation of queries and keys; None is none.
        attention_scale: factor on q.k.
        chunk: a token sees only its own run of that many positions; None is all.
        kv_layer: layer whose keys and values are used; None is its own.
        position_scale: growth of queries with the position.
        has_experts: the layer has a router.
        is_recurrent: the layer has the recurrence.
        expert_limit, dense_limit: limits of gates of the experts, and of the dense or shared feed-forward.
        activation_parameters: see ``plan.Activate``.
        gate_cutoff: deviations above its mean that a gate's value must reach to count; None keeps all.
    """

    num_heads: int
    num_kv_heads: int
    key_dim: int
    value_dim: int
    feed_forward_dim: int
    window: int | None
    rope: RopeParameters | None
    attention_scale: float = 1.0
    chunk: int | None = None
    kv_layer: int | None = None
    position_scale: PositionScale | None = None
    has_experts: bool = False
    is_recurrent: bool = False
    expert_limit: float | None = None
    dense_limit: float | None = None
    activation_parameters: tuple[float, float, float, float] | None = None
    gate_cutoff: float | None = None


@dataclass(frozen=True)
class Hyperparameters:
    """The numbers of a model.

    Attributes:
        row: the row of the architecture.
        context_length: tokens the model was trained for.
        vocab_size: rows of the token embedding.
        embedding_dim: width of the residual stream.
        norm_eps: epsilon of the norms. has_centered_norms: they are layer norms.
        layers: one entry a layer, in order.
        experts: None where no layer has any.
        latent: None for ordinary attention.
        recurrence: None where no layer has one.
        embedding_scale: factor on the embedding.
        residual_scale: factor on what attention and feed-forward add.
        logit_scale: factor on the logits.
        attention_soft_cap, logit_soft_cap: caps c of ``c * tanh(x / c)``; None is none.
        qkv_limit: queries, keys and values are held within it; None is none.
        alibi_bias: largest slope exponent of a bias by distance; None is none.
        value_scale: factor on attention's result.
        layer_embedding_dim: width of each layer's own embedding; 0 is none.
        num_streams: residual streams.
        is_parallel: both parts of a layer read the stream as it was before either; None leaves it to the tensors.
        num_loops: how often the layers run, one after the other.
        has_norm_between_loops: the output norm also stands between two runs.
        num_extra_layers: further layers of the file that only predict several tokens at once; unused.
    """

    row: Architecture
    context_length: int
    vocab_size: int
    embedding_dim: int
    norm_eps: float
    layers: tuple[LayerHyperparameters, ...]
    has_centered_norms: bool = False
    experts: ExpertHyperparameters | None = None
    latent: LatentHyperparameters | None = None
    recurrence: RecurrenceHyperparameters | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    attention_soft_cap: float | None = None
    logit_soft_cap: float | None = None
    qkv_limit: float | None = None
    alibi_bias: float | None = None
    value_scale: float = 1.0
    layer_embedding_dim: int = 0
    num_streams: int = 1
    is_parallel: bool | None = False
    num_loops: int = 1
    has_norm_between_loops: bool = True
    num_extra_layers: int = 0

    @property
    def architecture(self) -> str:
        """Name of the architecture."""
        return self.row.name

    @property
    def num_layers(self) -> int:
        """Layers of the model."""
        return len(self.layers)
