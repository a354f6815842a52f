"""Rows of the architectures with recurrent or convolutional layers, alone or between layers of attention."""

from __future__ import annotations

from engine.model.architectures.vocabulary import (
    Architecture,
    Experts,
    FeedForward,
    Normalization,
    QueryKeyNorm,
    Recurrence,
    RecurrentLayers,
    RopeLayers,
    RopePairs,
    RopeSections,
    Scales,
)
from engine.model.plan import Activation, Gating

_ADJACENT, _HALVES, _NONE = RopePairs.ADJACENT, RopePairs.HALVES, RopePairs.NONE
_SCAN, _WITHOUT_KV = Recurrence.SCAN, RecurrentLayers.WITHOUT_KV


def _qwen(name: str, sections: RopeSections, experts: Experts | None, has_grouped_heads: bool) -> Architecture:
    """Qwen 3.5 and Qwen 3 Next: a gated delta net in three of four layers."""
    return Architecture(
        name,
        _HALVES,
        rope_sections=sections,
        feed_forward_norm="post_attention_norm",
        query_key_norm=QueryKeyNorm.HEAD,
        has_query_gate=True,
        recurrence=Recurrence.DELTA_NET,
        recurrent_layers=RecurrentLayers.NOT_EVERY_FOURTH,
        has_grouped_heads=has_grouped_heads,
        experts=experts,
    )


def _nemotron(name: str, experts: Experts | None) -> Architecture:
    return Architecture(
        name,
        _NONE,
        recurrence=_SCAN,
        recurrent_layers=_WITHOUT_KV,
        has_one_part=True,
        feed_forward=FeedForward.PLAIN,
        activation=Activation.RELU_SQUARED,
        experts=experts,
    )


def _lfm(name: str, experts: Experts | None) -> Architecture:
    return Architecture(
        name,
        _HALVES,
        query_key_norm=QueryKeyNorm.HEAD,
        recurrence=Recurrence.CONV,
        recurrent_layers=_WITHOUT_KV,
        output_norm="token_embd_norm",
        experts=experts,
    )


HYBRID = (
    _qwen("qwen35", RopeSections.INTERLEAVED, None, has_grouped_heads=False),
    _qwen("qwen35moe", RopeSections.INTERLEAVED, Experts(), has_grouped_heads=False),
    _qwen("qwen3next", RopeSections.JOINED, Experts(), has_grouped_heads=True),
    _lfm("lfm2", None),
    _lfm("lfm2moe", Experts()),
    Architecture(
        "granitehybrid",
        _ADJACENT,
        rope_layers=RopeLayers.TRAINED,
        recurrence=_SCAN,
        recurrent_layers=_WITHOUT_KV,
        scales=Scales(),
        experts=Experts(),
    ),
    _nemotron("nemotron_h", None),
    _nemotron(
        "nemotron_h_moe",
        Experts(gating=Gating.SIGMOID, is_gating_fixed=True, normalization=Normalization.BY_KEY),
    ),
    Architecture("falcon-h1", _HALVES, recurrence=_SCAN, recurrent_layers=RecurrentLayers.BESIDE),
    Architecture("mamba2", _NONE, recurrence=_SCAN),
)
