"""What distinguishes one architecture from another: one row of data each.

A row says what the metadata leaves unsaid (where norms sit, how rope pairs values, which layers slide) and how
tensors are named. Everything that can be resolved while loading is, so that rows stay short and the plan plain.
The module knows no file and no op.

Facts were observed with llama.cpp on small models of each architecture; the goldens in ``tests`` hold them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.model.plan import Activation


class RopePairs(Enum):
    """Which values of a head turn together."""

    ADJACENT = "adjacent"  # (2i, 2i + 1)
    HALVES = "halves"  # (i, i + rotated_dims / 2)


class QueryKeyNorm(Enum):
    """RMS norm of queries and keys."""

    NONE = "none"
    HEAD = "head"  # over each head, one weight of head_dim for all heads
    ROW = "row"  # over all heads at once


class RopeLayers(Enum):
    """Which layers turn their queries and keys."""

    ALL = "all"
    NOT_EVERY_FOURTH = "not every fourth"  # none where (i + 1) mod 4 = 0
    SLIDING = "sliding"  # where some layers slide, only those; else all
    PATTERN = "pattern"  # by the file's ``attention.rope_pattern``


class RopeSections(Enum):
    """Order of the pairs of a rotation in several dimensions (``rope.dimension_sections``).

    Text moves along the first three dimensions at once and not at all along the fourth.
    """

    JOINED = "joined"  # the pairs of a dimension lie together
    INTERLEAVED = "interleaved"  # pair j belongs to dimension j mod 3, until that one's are used up


@dataclass(frozen=True)
class SlidingWindow:
    """Layout of sliding-window layers.

    Attributes:
        period: layer i slides when i mod period < period - 1, unless the file has a pattern; None where it must.
        rope_base: base of sliding layers when the file names none; None is the base of full layers.
        is_rope_scaled: whether sliding layers follow the file's rope scaling.
    """

    period: int | None
    rope_base: float | None = None
    is_rope_scaled: bool = True


@dataclass(frozen=True)
class Scales:
    """Factors on the embedding, on what each part adds, and on the logits, where the file states none.

    Attributes:
        embedding: on the embedding.
        residual_by_depth: divided by sqrt(layers), on what attention and feed-forward add; None is 1.
        logit_by_width: divided by the embedding's width, divides the logits; None is 1.
    """

    embedding: float = 1.0
    residual_by_depth: float | None = None
    logit_by_width: float | None = None


@dataclass(frozen=True)
class Architecture:
    """One row: how the layers of an architecture are put together.

    Attributes:
        name: ``general.architecture``, also the prefix of the metadata keys.
        rope: which values turn together.
        rope_layers: which layers turn at all.
        rope_sections: order of the pairs where the file has ``rope.dimension_sections``.
        activation: of the gated feed-forward.
        has_pre_norms: attention and feed-forward read a normed input.
        has_post_norms: their results are normed before they are added.
        feed_forward_norm: tensor name of the feed-forward's input norm.
        post_norm_suffix: what follows the names of the norms after attention and feed-forward.
        query_key_norm: norm of queries and keys.
        is_query_key_norm_late: that norm comes after rope instead of before.
        is_gate_up_fused: ``ffn_up`` holds the gate's rows, then its own.
        has_sinks: each layer has ``attn_sinks``, a logit a head that takes part in the softmax only.
        can_omit_parts: a layer may lack attention (no heads), have one matrix for it (heads, but no KV heads), or
            lack the feed-forward (width 0).
        can_loop: the layers run ``num_loops`` times.
        scales_embedding: the embedding is multiplied by sqrt(embedding_dim).
        scales: the file's scale factors apply, with these defaults; None is no factors whatever the file says.
        window: layout of sliding-window layers; None where the architecture has none.
        attention_soft_cap: cap of attention scores unless the file has one; None is no cap whatever the file says.
        has_logit_soft_cap: the file's ``final_logit_softcapping`` applies.
        width_scaled_at: number of layers of the one size whose scores are scaled by 1 / sqrt(embedding_dim / heads)
            instead of 1 / sqrt(key_dim).
        only_with_layers: the one number of layers whose graph this row is; others are refused.
    """

    name: str
    rope: RopePairs
    rope_layers: RopeLayers = RopeLayers.ALL
    rope_sections: RopeSections = RopeSections.JOINED
    activation: Activation = Activation.SILU
    has_pre_norms: bool = True
    has_post_norms: bool = False
    feed_forward_norm: str = "ffn_norm"
    post_norm_suffix: str = ".weight"
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    is_query_key_norm_late: bool = False
    is_gate_up_fused: bool = False
    has_sinks: bool = False
    can_omit_parts: bool = False
    can_loop: bool = False
    scales_embedding: bool = False
    scales: Scales | None = None
    window: SlidingWindow | None = None
    attention_soft_cap: float | None = None
    has_logit_soft_cap: bool = False
    width_scaled_at: int | None = None
    only_with_layers: int | None = None


_ADJACENT, _HALVES = RopePairs.ADJACENT, RopePairs.HALVES
_GELU = Activation.GELU
_HEAD_NORM, _ROW_NORM = QueryKeyNorm.HEAD, QueryKeyNorm.ROW

_ROWS = (
    Architecture("llama", _ADJACENT),  # also Mistral 7B, InternLM 3 and many others
    Architecture("mistral3", _ADJACENT),
    Architecture("internlm2", _ADJACENT),
    Architecture("xverse", _ADJACENT),
    Architecture("ernie4_5", _ADJACENT),
    Architecture("baichuan", _ADJACENT, only_with_layers=32),  # 7B; 13B has position biases instead of rope
    Architecture("deci", _ADJACENT, can_omit_parts=True),
    Architecture("nanbeige", _ADJACENT, can_loop=True),
    Architecture("smollm3", _ADJACENT, rope_layers=RopeLayers.NOT_EVERY_FOURTH),
    Architecture("chatglm", _ADJACENT, is_gate_up_fused=True),
    Architecture("glm4", _ADJACENT, has_post_norms=True, is_gate_up_fused=True),
    Architecture("granite", _ADJACENT, scales=Scales()),
    Architecture(
        "granite_swa",
        _ADJACENT,
        rope_layers=RopeLayers.PATTERN,
        has_sinks=True,
        scales=Scales(),
        window=SlidingWindow(period=None),
    ),
    Architecture("minicpm", _ADJACENT, scales=Scales(embedding=12.0, residual_by_depth=1.4, logit_by_width=256.0)),
    Architecture("qwen2", _HALVES),
    Architecture("qwen2vl", _HALVES),
    Architecture("qwen3", _HALVES, query_key_norm=_HEAD_NORM),
    Architecture("qwen3vl", _HALVES, rope_sections=RopeSections.INTERLEAVED, query_key_norm=_HEAD_NORM),
    Architecture("paddleocr", _HALVES),
    Architecture("exaone", _HALVES),
    Architecture("pangu-embedded", _HALVES),
    Architecture("seed_oss", _HALVES, feed_forward_norm="post_attention_norm"),
    Architecture("openelm", _HALVES, query_key_norm=_HEAD_NORM),
    Architecture("hunyuan-dense", _HALVES, query_key_norm=_HEAD_NORM, is_query_key_norm_late=True),
    Architecture("hunyuan_vl", _HALVES, query_key_norm=_HEAD_NORM, is_query_key_norm_late=True),
    Architecture("phi3", _HALVES, is_gate_up_fused=True),
    Architecture(  # OLMo 2 and 3
        "olmo2",
        _HALVES,
        has_pre_norms=False,
        has_post_norms=True,
        query_key_norm=_ROW_NORM,
        window=SlidingWindow(period=4, is_rope_scaled=False),
    ),
    Architecture(
        "exaone4",
        _HALVES,
        rope_layers=RopeLayers.SLIDING,
        has_pre_norms=False,
        has_post_norms=True,
        query_key_norm=_HEAD_NORM,
        window=SlidingWindow(period=4),
    ),
    Architecture(
        "plamo3",
        _HALVES,
        has_post_norms=True,
        post_norm_suffix="",
        query_key_norm=_HEAD_NORM,
        is_gate_up_fused=True,
        window=SlidingWindow(period=8),
    ),
    Architecture("gemma", _HALVES, activation=_GELU, scales_embedding=True),
    Architecture(
        "gemma2",
        _HALVES,
        activation=_GELU,
        has_post_norms=True,
        scales_embedding=True,
        window=SlidingWindow(period=2),
        attention_soft_cap=50.0,
        has_logit_soft_cap=True,
        width_scaled_at=46,  # 27B
    ),
    Architecture(
        "gemma3",
        _HALVES,
        activation=_GELU,
        has_post_norms=True,
        query_key_norm=_HEAD_NORM,
        scales_embedding=True,
        window=SlidingWindow(period=6, rope_base=1e4, is_rope_scaled=False),
        has_logit_soft_cap=True,
        width_scaled_at=62,  # 27B
    ),
)

ARCHITECTURES: dict[str, Architecture] = {row.name: row for row in _ROWS}
