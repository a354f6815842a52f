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


@dataclass(frozen=True)
class SlidingWindow:
    """Layout of sliding-window layers, where the file gives no pattern of its own.

    Attributes:
        period: layer i slides when i mod period < period - 1.
        rope_base: base of sliding layers when the file names none; None is the base of full layers.
        is_rope_scaled: whether sliding layers follow the file's rope scaling.
    """

    period: int
    rope_base: float | None = None
    is_rope_scaled: bool = True


@dataclass(frozen=True)
class Architecture:
    """One row: how the layers of an architecture are put together.

    Attributes:
        name: ``general.architecture``, also the prefix of the metadata keys.
        rope: which values turn together.
        rope_layers: which layers turn at all.
        activation: of the gated feed-forward.
        has_pre_norms: attention and feed-forward read a normed input.
        has_post_norms: their results are normed before they are added.
        feed_forward_norm: tensor name of the feed-forward's input norm.
        post_norm_suffix: what follows the names of the norms after attention and feed-forward.
        query_key_norm: norm of queries and keys.
        is_query_key_norm_late: that norm comes after rope instead of before.
        is_gate_up_fused: ``ffn_up`` holds the gate's rows, then its own.
        scales_embedding: the embedding is multiplied by sqrt(embedding_dim).
        window: layout of sliding-window layers; None where the architecture has none.
        attention_soft_cap: cap of attention scores unless the file has one; None is no cap whatever the file says.
        has_logit_soft_cap: the file's ``final_logit_softcapping`` applies.
        width_scaled_at: number of layers of the one size whose scores are scaled by 1 / sqrt(embedding_dim / heads)
            instead of 1 / sqrt(key_dim).
    """

    name: str
    rope: RopePairs
    rope_layers: RopeLayers = RopeLayers.ALL
    activation: Activation = Activation.SILU
    has_pre_norms: bool = True
    has_post_norms: bool = False
    feed_forward_norm: str = "ffn_norm"
    post_norm_suffix: str = ".weight"
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    is_query_key_norm_late: bool = False
    is_gate_up_fused: bool = False
    scales_embedding: bool = False
    window: SlidingWindow | None = None
    attention_soft_cap: float | None = None
    has_logit_soft_cap: bool = False
    width_scaled_at: int | None = None


ARCHITECTURES: dict[str, Architecture] = {
    row.name: row
    for row in (
        Architecture("llama", RopePairs.ADJACENT),
        Architecture(
            "gemma3",
            RopePairs.HALVES,
            activation=Activation.GELU,
            has_post_norms=True,
            query_key_norm=QueryKeyNorm.HEAD,
            scales_embedding=True,
            window=SlidingWindow(period=6, rope_base=1e4, is_rope_scaled=False),
            has_logit_soft_cap=True,
            width_scaled_at=62,  # 27B
        ),
    )
}
