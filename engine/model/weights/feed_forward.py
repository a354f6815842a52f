"""Binding of dense feed-forwards and of experts."""

from __future__ import annotations

from engine.model.architectures import Architecture
from engine.model.architectures.vocabulary import Beside, FeedForward
from engine.model.hyperparameters import ExpertHyperparameters
from engine.model.weights.binder import Binder
from engine.model.weights.parts import (
    ExpertGroup,
    ExpertMatrix,
    ExpertWeights,
    FeedForwardWeights,
    Linear,
    NormWeights,
)


def bind_feed_forward(
    binder: Binder, row: Architecture, prefix: str, embedding_dim: int, hidden_dim: int
) -> FeedForwardWeights:
    """The dense feed-forward."""
    gate = None
    if row.feed_forward is FeedForward.FUSED:
        gate, up = binder.split(f"{prefix}ffn_up", (hidden_dim, hidden_dim), embedding_dim)
    else:
        if row.feed_forward is FeedForward.GATED:
            gate = binder.linear(f"{prefix}ffn_gate", hidden_dim, embedding_dim)
        up = binder.linear(f"{prefix}ffn_up", hidden_dim, embedding_dim)
    return FeedForwardWeights(
        gate,
        up,
        down=binder.linear(f"{prefix}ffn_down", embedding_dim, hidden_dim),
        sub_norm=binder.norm(f"{prefix}ffn_sub_norm", hidden_dim) if row.has_sub_norms else None,
    )


def bind_experts(
    binder: Binder, row: Architecture, experts: ExpertHyperparameters, prefix: str, embedding_dim: int
) -> ExpertWeights:
    """A router with its experts and what stands beside them."""
    assert row.experts is not None, "experts were read, so the row has them"
    has_norms = row.experts.beside is Beside.NORMED_DENSE
    bias_name = f"{prefix}exp_probs_b" + ("" if f"{prefix}exp_probs_b" in binder else ".bias")
    num_chunks = -(-experts.num_experts // experts.chunk_divisor)

    def norm(name: str) -> NormWeights | None:
        return binder.norm(prefix + name, embedding_dim) if has_norms else None

    return ExpertWeights(
        router=(
            Linear(binder.matrix(f"{prefix}ffn_gate_inp.weight", experts.num_experts, embedding_dim))
            if has_norms
            else binder.linear(f"{prefix}ffn_gate_inp", experts.num_experts, embedding_dim)
        ),
        selection_bias=binder.optional_vector(bias_name, experts.num_experts),
        experts=_bind_group(binder, row, prefix, "exps", (experts.num_experts, experts.width, embedding_dim)),
        chunks=(
            _bind_group(binder, row, prefix, "chexps", (num_chunks, experts.chunk_width, embedding_dim))
            if row.experts.has_chunks
            else None
        ),
        shared=_bind_shared(binder, row, experts, prefix, embedding_dim),
        shared_gate=(
            binder.row(f"{prefix}ffn_gate_inp_shexp.weight", embedding_dim)
            if f"{prefix}ffn_gate_inp_shexp.weight" in binder
            else None
        ),
        input_norm=norm("pre_ffw_norm_2"),
        post_norm=norm("post_ffw_norm_2"),
        router_norm=(
            NormWeights(binder.vector(f"{prefix}ffn_gate_inp.scale", embedding_dim)) if has_norms else None
        ),
        dense_post_norm=norm("post_ffw_norm_1"),
    )


def _bind_group(
    binder: Binder, row: Architecture, prefix: str, suffix: str, sizes: tuple[int, int, int]
) -> ExpertGroup:
    num_experts, width, embedding_dim = sizes
    is_gated = row.feed_forward is not FeedForward.PLAIN

    def part(name: str, num_rows: int, num_columns: int) -> ExpertMatrix:
        full_name = f"{prefix}ffn_{name}_{suffix}"
        weight = binder.matrix(f"{full_name}.weight", num_experts, num_rows, num_columns)
        return ExpertMatrix(
            weight, num_rows, bias=binder.optional_vector(f"{full_name}.bias", num_experts, num_rows)
        )

    down = part("down", embedding_dim, width)
    if is_gated and f"{prefix}ffn_gate_up_{suffix}.weight" in binder:
        fused = binder.matrix(f"{prefix}ffn_gate_up_{suffix}.weight", num_experts, 2 * width, embedding_dim)
        return ExpertGroup(ExpertMatrix(fused, width), ExpertMatrix(fused, width, first_row=width), down)
    gate = part("gate", width, embedding_dim) if is_gated else None
    return ExpertGroup(gate, part("up", width, embedding_dim), down)


def _bind_shared(
    binder: Binder, row: Architecture, experts: ExpertHyperparameters, prefix: str, embedding_dim: int
) -> FeedForwardWeights | None:
    """The shared expert, as wide as its tensors are; needed where the header promises one."""
    up = f"{prefix}ffn_up_shexp"
    if f"{up}.weight" not in binder and not experts.has_shared:
        return None
    width = binder.num_rows(f"{up}.weight")
    is_gated = row.feed_forward is not FeedForward.PLAIN
    return FeedForwardWeights(
        gate=binder.linear(f"{prefix}ffn_gate_shexp", width, embedding_dim) if is_gated else None,
        up=binder.linear(up, width, embedding_dim),
        down=binder.linear(f"{prefix}ffn_down_shexp", embedding_dim, width),
    )
