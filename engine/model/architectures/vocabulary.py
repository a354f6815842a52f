"""The words in which a row of data says how an architecture differs from the plain one.

The plain one is Llama: RMS norms before attention and feed-forward, rope on all layers, a gated feed-forward with
SiLU, both parts added to the stream one after the other. The module knows no file and no op.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.model.plan import Activation, Gating


class RopePairs(Enum):
    """Which values of a head turn together."""

    ADJACENT = "adjacent"  # (2i, 2i + 1)
    HALVES = "halves"  # (i, i + rotated_dims / 2)
    NONE = "none"


class RopeLayers(Enum):
    """Which layers turn their queries and keys."""

    ALL = "all"
    NOT_EVERY_FOURTH = "not every fourth"  # none where (i + 1) mod 4 = 0
    SLIDING = "sliding"  # where the file has a window, only layers that slide; else all
    SLIDING_OR_DENSE = "sliding or dense"  # those, and the dense layers before the experts begin
    PATTERN = "pattern"  # by the file's ``attention.rope_pattern``
    TRAINED = "trained"  # all, unless ``rope.scaling.finetuned`` is there and false


class RopeSections(Enum):
    """Order of the pairs of a rotation in several dimensions (``rope.dimension_sections``).

    Text moves along the first three dimensions at once and not at all along the fourth.
    """

    JOINED = "joined"  # the pairs of a dimension lie together
    INTERLEAVED = "interleaved"  # pair j belongs to dimension j mod 3, until that one's are used up


class NormKind(Enum):
    """The norms of the stream."""

    RMS = "rms"
    LAYER = "layer"
    EITHER = "either"  # the one whose epsilon the file has, layer norm where it has both


class QueryKeyNorm(Enum):
    """Norm of queries and keys."""

    NONE = "none"
    HEAD = "head"  # RMS over each head, one weight of head_dim for all heads
    ROW = "row"  # RMS over all heads at once
    OWN = "own"  # layer norm over each head, each with its own weight
    PLAIN = "plain"  # RMS over each head without weights, in layers that turn
    QUERY_FACTOR = "query factor"  # RMS over each head without weights, queries times one number a head


class Residual(Enum):
    """How the results of attention and feed-forward join the stream."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"  # both read the stream as it was before either
    BY_KEY = "by key"  # parallel where ``use_parallel_residual`` says so
    BY_NORM = "by norm"  # parallel where the feed-forward has no norm of its own


class FeedForward(Enum):
    """Matrices of the dense feed-forward."""

    GATED = "gated"
    FUSED = "fused"  # ``ffn_up`` holds the gate's rows, then its own
    PLAIN = "plain"  # down(activation(up h))


class EmbeddingNorm(Enum):
    """Norm of the embedding before the first layer."""

    NONE = "none"
    WEIGHTED = "weighted"
    PLAIN = "plain"  # without weights


class Sinks(Enum):
    """Layers with ``attn_sinks``, a logit a head that takes part in the softmax only."""

    NONE = "none"
    ALL = "all"
    SLIDING = "sliding"


class Temperature(Enum):
    """Growth of the queries with the position, see ``ScaleByPosition``."""

    NONE = "none"
    BY_ORIGINAL_CONTEXT = "by original context"  # the step is the original context
    BY_LENGTH = "by length"  # the step is ``attention.temperature_length``
    WITHOUT_ROPE = "without rope"  # 0.1 a step of 8192, in layers that do not turn


class LayerEnd(Enum):
    """What ``layer_output_scale`` does at the end of a layer."""

    NONE = "none"
    SCALE_STREAM = "scale stream"
    ADD_EMBEDDING = "add embedding"  # it scales the embedding, which is added


class Normalization(Enum):
    """Whether the weights of the chosen experts are divided by their sum."""

    ALWAYS = "always"
    NEVER = "never"
    BY_KEY = "by key"  # where ``expert_weights_norm`` says so


class Beside(Enum):
    """What the experts' sum meets before it joins the stream."""

    SHARED = "shared"  # is added to the shared expert's result, if there is one
    SHARED_MEAN = "shared mean"  # the mean of the two, if there is one
    DENSE = "dense"  # a dense feed-forward of the same input, if there is one; sum / sqrt(2)
    NORMED_DENSE = "normed dense"  # a dense feed-forward with norms of its own, as Gemma 4 has it


class Recurrence(Enum):
    """What stands in layers without attention."""

    DELTA_NET = "gated delta net"
    SCAN = "selective scan"  # Mamba 2
    CONV = "short convolution"


class RecurrentLayers(Enum):
    """Which layers have the recurrence instead of attention."""

    ALL = "all"
    BESIDE = "beside attention"  # every layer has both, of the same input
    WITHOUT_KV = "without KV heads"
    NOT_EVERY_FOURTH = "not every fourth"  # unless the file has a pattern or an interval of its own


@dataclass(frozen=True)
class SlidingWindow:
    """Layout of sliding-window layers.

    Attributes:
        period: layer i slides when i mod period < period - 1, unless the file has a pattern; None where it must.
        is_full_first: layer i slides when i mod period > 0 instead.
        size: of the window, whatever the file says; None is what the file says.
        rope_base: base of sliding layers when the file names none; None is the base of full layers.
        is_rope_scaled: whether sliding layers follow the file's rope scaling.
        has_rope_factors: whether sliding layers follow the file's rope factors.
        full_rope_divisor: full layers turn ``rope.dimension_count`` divided by it.
    """

    period: int | None
    is_full_first: bool = False
    size: int | None = None
    rope_base: float | None = None
    is_rope_scaled: bool = True
    has_rope_factors: bool = True
    full_rope_divisor: int = 1


@dataclass(frozen=True)
class Scales:
    """Factors on the embedding, on what each part adds, and on the logits, where the file states none.

    Attributes:
        embedding: on the embedding.
        residual_by_depth: divided by sqrt(layers), on what attention and feed-forward add; None is 1.
        logit_by_width: divided by the embedding's width, divides the logits; None is 1.
        is_logit_multiplied: ``logit_scale`` multiplies the logits instead of dividing them.
    """

    embedding: float = 1.0
    residual_by_depth: float | None = None
    logit_by_width: float | None = None
    is_logit_multiplied: bool = False


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in layers that have a router.

    Attributes:
        gating: unless the file names one.
        is_gating_fixed: whatever the file names.
        normalization: of the chosen weights.
        activation: of the experts; None is the dense one.
        beside: what their sum meets.
        reads_stream: the router reads the stream before any norm.
        weighs_input: the weight of an expert multiplies its input, not its result.
        has_chunks: a second, smaller group of experts works on the first one's result (Grove MoE).
    """

    gating: Gating = Gating.SOFTMAX
    is_gating_fixed: bool = False
    normalization: Normalization = Normalization.ALWAYS
    activation: Activation | None = None
    beside: Beside = Beside.SHARED
    reads_stream: bool = False
    weighs_input: bool = False
    has_chunks: bool = False


@dataclass(frozen=True)
class Architecture:
    """One row: how the layers of an architecture are put together.

    Attributes:
        name: ``general.architecture``, also the prefix of the metadata keys.
        rope, rope_layers, rope_sections: which values turn together, in which layers, in which order.
        norm: kind of the stream's norms; a bias is used wherever the file has one.
        has_norm_weights: False where the norms have no tensors.
        post_norm_eps: epsilon of the norms after attention and feed-forward; None is the model's.
        residual: how parts join the stream.
        has_pre_norms: attention and feed-forward read a normed input.
        has_post_norms: their results are normed before they are added.
        attention_post_norm, feed_forward_norm: tensor names of those norms.
        embedding_norm: norm of the embedding.
        query_key_norm: norm of queries and keys. is_query_key_norm_late: after rope instead of before.
        is_query_key_norm_optional: only where the file has its tensors.
        has_value_norm: values are RMS-normed a head, without weights.
        attention_gate: activation of ``attn_gate``, which multiplies what attention gathered; None is no gate.
        has_query_gate: ``attn_q`` holds for each head the query and a gate (sigmoid) of the same width.
        has_latent_attention: keys and values come from a compressed latent vector (MLA).
        is_yarn_on_scores: YaRN's magnitude goes into the attention scale instead of cos and sin.
        sinks: which layers have sinks.
        has_qkv_clamp: the file's ``attention.clamp_kqv`` applies.
        alibi_bias: largest slope exponent of a bias by distance, unless the file has one; None is no bias.
        temperature: growth of queries with the position.
        chunk: full layers see only positions of the same run of that many (layers that turn; Llama 4).
        attention_scale: fixed factor on q.k; None is the file's, else 1 / sqrt(key_dim).
        attention_soft_cap: cap of attention scores unless the file has one; None is no cap whatever the file says.
        width_scaled_at: number of layers of the one size whose scores are scaled by 1 / sqrt(embedding_dim / heads)
            instead of 1 / sqrt(key_dim).
        window: layout of sliding-window layers; None where the architecture has none.
        recurrence: what stands in layers without attention; recurrent_layers: which those are.
        has_grouped_heads: value heads of a delta net read key heads in runs.
        has_one_part: a layer has attention, a recurrence or a feed-forward, each after ``attn_norm``.
        output_norm: tensor name of the last norm.
        feed_forward: matrices of the feed-forward. activation: of it.
        gate_limit_is_early: clamped gates (``swiglu_clamp_exp``) are clamped before the activation.
        gate_limit: fixed limit of gates, clamped early; ``up`` gets 1 added (gpt-oss).
        has_sub_norms: norms stand before ``attn_output`` and ``ffn_down``.
        experts: None where the architecture has no mixture of experts.
        has_position_embedding: learned positions are added to the embedding.
        has_layer_embeddings: each layer adds an embedding of its own (Gemma 3n and 4).
        has_streams: several residual streams (AltUp), and a low-rank part beside attention (LAuReL; Gemma 3n).
        num_sparse_layers: first layers whose gates keep only the largest 5 % of their values.
        layer_end: what stands at the end of a layer.
        can_omit_parts: a layer may lack attention (no heads), have one matrix for it (heads, but no KV heads), or
            lack the feed-forward (width 0).
        can_loop: the layers run ``num_loops`` times.
        can_share_kv: the last ``attention.shared_kv_layers`` layers use keys and values of earlier ones.
        first_sharing_layer: where those begin in files that do not say; None is nowhere.
        scales_embedding: the embedding is multiplied by sqrt(embedding_dim).
        scales: the file's scale factors apply, with these defaults; None is no factors whatever the file says.
        has_value_scale: the file's ``attention.value_scale`` multiplies attention's result.
        has_logit_soft_cap: the file's ``final_logit_softcapping`` applies.
        logit_soft_cap: where the file names none.
        only_with_layers: the one number of layers whose graph this row is.
    """

    name: str
    rope: RopePairs
    rope_layers: RopeLayers = RopeLayers.ALL
    rope_sections: RopeSections = RopeSections.JOINED
    norm: NormKind = NormKind.RMS
    has_norm_weights: bool = True
    post_norm_eps: float | None = None
    residual: Residual = Residual.SEQUENTIAL
    has_pre_norms: bool = True
    has_post_norms: bool = False
    attention_post_norm: str = "post_attention_norm"
    feed_forward_norm: str = "ffn_norm"
    embedding_norm: EmbeddingNorm = EmbeddingNorm.NONE
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    is_query_key_norm_late: bool = False
    is_query_key_norm_optional: bool = False
    has_value_norm: bool = False
    attention_gate: Activation | None = None
    has_query_gate: bool = False
    has_latent_attention: bool = False
    is_yarn_on_scores: bool = False
    sinks: Sinks = Sinks.NONE
    has_qkv_clamp: bool = False
    alibi_bias: float | None = None
    temperature: Temperature = Temperature.NONE
    chunk: int | None = None
    attention_scale: float | None = None
    attention_soft_cap: float | None = None
    width_scaled_at: int | None = None
    window: SlidingWindow | None = None
    recurrence: Recurrence | None = None
    recurrent_layers: RecurrentLayers = RecurrentLayers.ALL
    has_grouped_heads: bool = False
    has_one_part: bool = False
    output_norm: str = "output_norm"
    feed_forward: FeedForward = FeedForward.GATED
    activation: Activation = Activation.SILU
    gate_limit_is_early: bool = False
    gate_limit: float | None = None
    has_sub_norms: bool = False
    experts: Experts | None = None
    has_position_embedding: bool = False
    has_layer_embeddings: bool = False
    has_streams: bool = False
    num_sparse_layers: int = 0
    layer_end: LayerEnd = LayerEnd.NONE
    can_omit_parts: bool = False
    can_loop: bool = False
    can_share_kv: bool = False
    first_sharing_layer: int | None = None
    scales_embedding: bool = False
    scales: Scales | None = None
    has_value_scale: bool = False
    has_logit_soft_cap: bool = False
    logit_soft_cap: float | None = None
    only_with_layers: int | None = None
