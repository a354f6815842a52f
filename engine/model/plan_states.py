"""Ops of recurrent layers, whose words ``plan`` tells.

What a sequence leaves in such a layer is not a part of the KV cache: ``state`` numbers it among
``Plan.state_sizes``, and it goes from one step of a sequence to its next.
"""

from __future__ import annotations

from engine.model.plan_values import Activation, Buffer, Tensor
from engine.plain_data import dataclass


@dataclass(frozen=True, eq=False)
class CausalConv:
    """out = activation(weighted sum of each value and those of the tokens before it), channel by channel.

    ``weight`` is (taps, channels), the last tap for the token itself. The state holds the last taps - 1 rows of
    ``x``, the oldest first. ``out`` is another buffer than ``x``.
    """

    x: Buffer
    weight: Tensor
    out: Buffer
    state: int
    bias: Tensor | None = None
    activation: Activation = Activation.IDENTITY


@dataclass(frozen=True, eq=False)
class SelectiveScan:
    """The recurrence of Mamba 2 (Dao and Gu 2024), token by token.

    A row of ``x`` holds the inputs u (heads, head_dim), then B and C (groups, state_dim) each; ``step`` is
    (heads,). The state S is (heads, head_dim, state_dim): S = S exp(step decay) + step u B^T; out = S C + skip u.
    Head h reads group h // (heads / groups). ``decay`` and ``skip`` are (heads,).
    """

    x: Buffer
    step: Buffer
    out: Buffer
    decay: Tensor
    skip: Tensor
    num_groups: int
    state_dim: int
    state: int


@dataclass(frozen=True, eq=False)
class DeltaRule:
    """The gated delta rule (Yang et al. 2024), token by token.

    A row of ``x`` holds queries and keys (key heads, dim) each, which are divided by sqrt(sum of squares + eps),
    and values (value heads, dim); ``step`` and ``rate`` are (value heads,). The state S is (value heads, value dim,
    key dim): S *= exp(step decay); S += rate (v - S k) k^T; out = S q / sqrt(dim). Value head h reads key head h
    modulo their number, or with ``has_grouped_heads`` h // (value heads / key heads).
    """

    x: Buffer
    step: Buffer
    rate: Buffer
    out: Buffer
    decay: Tensor
    num_key_heads: int
    dim: int
    eps: float
    has_grouped_heads: bool
    state: int
