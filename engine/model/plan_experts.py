"""Ops of a mixture of experts, whose words ``plan`` tells.

A router chooses ``Plan.num_experts_used`` of the experts for each token. A buffer with ``rows="pairs"`` has a row
for each pair of a token and one of its experts, in an order that is the backend's affair.
"""

from __future__ import annotations

from engine.model.plan_values import Buffer, Gating, Tensor
from engine.plain_data import dataclass


@dataclass(frozen=True, eq=False)
class Route:
    """Choose experts by ``logits`` (tokens, experts), for the ops on pairs that follow.

    Scores are the gated logits plus ``bias``, which only the choice sees. With ``num_groups`` equal groups of
    experts, only those of the ``num_used_groups`` groups whose two best scores have the largest sums can be chosen.
    The expert is the chosen number // ``divisor``. Its weight is its gated logit; divided by the sum of the chosen
    ones (at least 2^-14) with ``is_normalized``; times ``scale``.
    """

    logits: Buffer
    gating: Gating
    bias: Tensor | None = None
    num_groups: int = 1
    num_used_groups: int = 1
    is_normalized: bool = False
    scale: float = 1.0
    divisor: int = 1


@dataclass(frozen=True, eq=False)
class Dispatch:
    """out[pair] = x[its token], times the pair's weight with ``is_weighted``."""

    x: Buffer
    out: Buffer
    is_weighted: bool = False


@dataclass(frozen=True, eq=False)
class ExpertMatMul:
    """out[pair] = rows ``first_row`` on of weight[its expert] @ x[pair] (+ bias[its expert]).

    ``weight`` is (experts, rows, columns), of which as many rows are used as ``out`` is wide; ``bias`` is
    (experts, width of ``out``).
    """

    x: Buffer
    weight: Tensor
    out: Buffer
    bias: Tensor | None = None
    first_row: int = 0


@dataclass(frozen=True, eq=False)
class Combine:
    """out[token] = sum of x[pair] over the token's pairs, each times its weight with ``is_weighted``."""

    x: Buffer
    out: Buffer
    is_weighted: bool = True
