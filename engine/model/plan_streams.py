"""Ops of models with several residual streams and thinned-out gates (Gemma 3n)."""

from __future__ import annotations

from engine.model.plan_values import Buffer, Tensor
from engine.plain_data import dataclass


@dataclass(frozen=True, eq=False)
class MixStreams:
    """Stream o of ``out`` = sum over i of weights[o, i] * stream i of ``x``, token by token.

    ``x`` holds ``num_inputs`` streams side by side, ``out`` some of the same width; ``weights`` is (streams of
    ``out``, num_inputs), row by row. ``out`` is another buffer than ``x``.
    """

    x: Buffer
    weights: Buffer
    out: Buffer
    num_inputs: int


@dataclass(frozen=True, eq=False)
class MatchLength:
    """out = each of ``num_groups`` equal parts of a row of ``x``, scaled to the length (L2) of the row of ``like``.

    A length below 1e-15 counts as 1e-15. ``out`` may be ``x``.
    """

    x: Buffer
    like: Buffer
    out: Buffer
    num_groups: int = 1


@dataclass(frozen=True, eq=False)
class ScaleColumns:
    """out = x * weight, one factor a column. ``out`` may be ``x``."""

    x: Buffer
    weight: Tensor
    out: Buffer


@dataclass(frozen=True, eq=False)
class KeepLargest:
    """out = max(x - (mean + factor * deviation), 0) of each row, with the deviation of a sample (width - 1).

    Of normally distributed values that keeps a fixed share (Gemma 3n's 5 % for a factor of 1.645). ``out`` may be
    ``x``.
    """

    x: Buffer
    out: Buffer
    factor: float
