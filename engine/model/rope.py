"""Rotary position embedding: from the file's parameters to the frequencies of one kind of layer.

Knows linear scaling, YaRN, and frequency factors stored as a tensor (Llama 3, LongRoPE). Knows no layers.
Sources: RoFormer (arXiv:2104.09864), YaRN (arXiv:2309.00071) in the form that GGUF files are made for.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
import numpy.typing as npt

from engine.model.plan import RopeTable
from engine.plain_data import dataclass


class RopeScalingKind(Enum):
    """How a file stretches its positions; the value is ``rope.scaling.type``."""

    NONE = "none"
    LINEAR = "linear"
    YARN = "yarn"
    LONG = "longrope"  # factors per frequency, stored as tensors


@dataclass(frozen=True)
class RopeScaling:
    """The ``rope.scaling.*`` keys.

    Attributes:
        kind: which scaling.
        factor: how many times longer the context became.
        original_context_length: tokens the model was trained for before it was stretched.
        beta_fast, beta_slow: turns within the original context above which a frequency is kept, and below which it
            is divided by ``factor`` (YaRN).
        attention_factor: extra factor on cos and sin.
        log_multiplier: YaRN's magnitude is divided by ``1 + 0.1 * log_multiplier * ln(factor)``.
        is_on_scores: YaRN's magnitude is in the attention scale instead.
    """

    kind: RopeScalingKind = RopeScalingKind.NONE
    factor: float = 1.0
    original_context_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0
    log_multiplier: float = 0.0
    is_on_scores: bool = False


@dataclass(frozen=True)
class RopeParameters:
    """Rotation of one kind of layer.

    Attributes:
        rotated_dims: leading values of a head that turn; even.
        base: frequency i is ``base ** (-2i / rotated_dims)``.
        scaling: applied on top.
        sections: pairs of each of up to four dimensions, of which the fourth stands still for text; empty is none.
        has_interleaved_sections: whether the pairs of the first three take turns.
        has_factors: whether factors stored as a tensor apply.
    """

    rotated_dims: int
    base: float
    scaling: RopeScaling = RopeScaling()
    sections: tuple[int, ...] = ()
    has_interleaved_sections: bool = False
    has_factors: bool = True


def rope_table(
    rope: RopeParameters, *, is_interleaved: bool, factors: npt.NDArray[np.float32] | None = None
) -> RopeTable:
    """Frequencies and magnitude for one kind of layer.

    ``factors``, (rotated_dims / 2,), divides the frequencies.
    """
    inv_freq = rope.base ** (-np.arange(0, rope.rotated_dims, 2, dtype=np.float64) / rope.rotated_dims)
    if factors is not None:
        inv_freq = inv_freq / factors.astype(np.float64)
    scaling = rope.scaling
    magnitude = scaling.attention_factor
    if scaling.kind is RopeScalingKind.LINEAR:
        inv_freq = inv_freq / scaling.factor
    elif scaling.kind is RopeScalingKind.YARN:
        kept = _yarn_kept_share(rope)
        inv_freq = inv_freq * kept + inv_freq / scaling.factor * (1.0 - kept)
        stretch = 0.1 * math.log(scaling.factor)
        if not scaling.is_on_scores:
            magnitude *= (1.0 + stretch) / (1.0 + scaling.log_multiplier * stretch)
    if rope.sections:
        inv_freq = inv_freq * _is_moved_by_text(rope)
    return RopeTable(inv_freq=inv_freq, magnitude=magnitude, interleaved=is_interleaved)


def _yarn_kept_share(rope: RopeParameters) -> npt.NDArray[np.float64]:
    """Share of each frequency that stays unscaled: 1 for fast ones, 0 for slow ones, a ramp between."""
    scaling = rope.scaling

    def pair_that_turns(turns: float) -> float:
        """Index of the pair that makes so many turns within the original context."""
        ratio = scaling.original_context_length / (turns * 2.0 * math.pi)
        return rope.rotated_dims * math.log(ratio) / (2.0 * math.log(rope.base))

    low = max(0.0, math.floor(pair_that_turns(scaling.beta_fast)))
    high = min(rope.rotated_dims - 1.0, math.ceil(pair_that_turns(scaling.beta_slow)))
    pairs = np.arange(rope.rotated_dims // 2, dtype=np.float64)
    return 1.0 - np.clip((pairs - low) / max(0.001, high - low), 0.0, 1.0)


def _is_moved_by_text(rope: RopeParameters) -> npt.NDArray[np.bool_]:
    """Which pairs turn as text goes on: all but those of the fourth dimension."""
    pair = np.arange(rope.rotated_dims // 2) % sum(rope.sections)
    counts = np.array(rope.sections[:3])
    num_moved = 3 * counts[pair % 3] if rope.has_interleaved_sections else counts.sum()
    result: npt.NDArray[np.bool_] = pair < num_moved
    return result
