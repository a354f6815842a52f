"""Binding of recurrent layers."""

from __future__ import annotations

import numpy as np

from engine.model.architectures import Architecture
from engine.model.architectures.vocabulary import Recurrence
from engine.model.hyperparameters import RecurrenceHyperparameters
from engine.model.plan import Tensor
from engine.model.weights.binder import Binder, float_tensor
from engine.model.weights.parts import ConvWeights, DeltaWeights, Linear, NormWeights, ScanWeights


def bind_recurrence(
    binder: Binder, row: Architecture, sizes: RecurrenceHyperparameters, prefix: str, embedding_dim: int
) -> ConvWeights | ScanWeights | DeltaWeights:
    """The recurrence of a layer, of the row's kind."""
    match row.recurrence:
        case Recurrence.CONV:
            return _bind_conv(binder, sizes, prefix, embedding_dim)
        case Recurrence.SCAN:
            return _bind_scan(binder, sizes, prefix, embedding_dim)
        case _:
            return _bind_delta(binder, sizes, prefix, embedding_dim)


def _bind_conv(binder: Binder, sizes: RecurrenceHyperparameters, prefix: str, width: int) -> ConvWeights:
    first, second, inputs = binder.split(f"{prefix}shortconv.in_proj", (width, width, width), width)
    return ConvWeights(
        first=first,
        second=second,
        inputs=inputs,
        conv=binder.taps(f"{prefix}shortconv.conv.weight", width, sizes.num_taps),
        output=binder.linear(f"{prefix}shortconv.out_proj", width, width),
    )


def _bind_scan(binder: Binder, sizes: RecurrenceHyperparameters, prefix: str, width: int) -> ScanWeights:
    inner, heads, groups = sizes.inner_dim, sizes.num_heads, sizes.num_groups
    channels = inner + 2 * groups * sizes.state_dim
    gate, inputs, step = binder.split(f"{prefix}ssm_in", (inner, channels, heads), width)
    norm = binder.optional_vector(f"{prefix}ssm_norm.weight", groups, inner // groups)
    return ScanWeights(
        gate=gate,
        inputs=inputs,
        step=Linear(step.weight, binder.vector(f"{prefix}ssm_dt.bias", heads)),
        conv=binder.taps(f"{prefix}ssm_conv1d.weight", channels, sizes.num_taps),
        conv_bias=binder.optional_vector(f"{prefix}ssm_conv1d.bias", channels),
        decay=binder.flat_vector(f"{prefix}ssm_a", heads),
        skip=binder.flat_vector(f"{prefix}ssm_d", heads),
        norm=None if norm is None else NormWeights(float_tensor(norm.name, norm.data.view(np.float32))),
        output=binder.linear(f"{prefix}ssm_out", width, inner),
    )


def _bind_delta(binder: Binder, sizes: RecurrenceHyperparameters, prefix: str, width: int) -> DeltaWeights:
    inner, heads = sizes.inner_dim, sizes.num_heads
    channels = 2 * sizes.num_groups * sizes.state_dim + inner
    bias = binder.vector(f"{prefix}ssm_dt.bias", heads)
    rate: Linear | None = None
    step: Linear | None = None
    both: Linear | None = None
    if f"{prefix}ssm_ba.weight" in binder:
        both = Linear(binder.matrix(f"{prefix}ssm_ba.weight", 2 * heads, width), _beside_rates(bias, sizes))
    else:
        rate = binder.linear(f"{prefix}ssm_beta", heads, width)
        step = Linear(binder.matrix(f"{prefix}ssm_alpha.weight", heads, width), bias)
    return DeltaWeights(
        inputs=binder.linear(f"{prefix}attn_qkv", channels, width),
        gate=binder.linear(f"{prefix}attn_gate", inner, width),
        rate=rate,
        step=step,
        rate_and_step=both,
        conv=binder.taps(f"{prefix}ssm_conv1d.weight", channels, sizes.num_taps),
        decay=binder.flat_vector(f"{prefix}ssm_a", heads),
        norm=binder.norm(f"{prefix}ssm_norm", sizes.state_dim),
        output=binder.linear(f"{prefix}ssm_out", width, inner),
    )


def _beside_rates(bias: Tensor, sizes: RecurrenceHyperparameters) -> Tensor:
    """The bias of steps where each key head has its rates in front of them."""
    steps = bias.data.view(np.float32).reshape(sizes.num_groups, -1)
    return float_tensor(bias.name, np.concatenate([np.zeros_like(steps), steps], axis=1).reshape(-1))
