"""What sampling computes, in NumPy: the definition that the compiled kernels are tested against.

Order: penalties, token mask, top-k, top-p, min-p, temperature, random choice. The truncations look at the model's
own distribution, before the temperature, so that a high temperature cannot bring back what they cut away.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.sampling.params import SamplingParams

LARGEST_LOGIT = float(np.finfo(np.float32).max) / 4  # differences of two are finite
SMALLEST_REPEAT_PENALTY = 1e-30  # quotients by it are finite in float64

Logits = npt.NDArray[np.float32]
Kept = npt.NDArray[np.bool_]


def has_penalties(params: SamplingParams) -> bool:
    """Whether ``apply_penalties`` would change anything."""
    return params.penalty_window != 0 and (
        params.repeat_penalty != 1.0 or params.presence_penalty != 0.0 or params.frequency_penalty != 0.0
    )


def apply_penalties(logits: Logits, token_ids: Sequence[int], params: SamplingParams) -> None:
    """Lower the logits of recent tokens in place; finite ones stay finite, whatever the penalties.

    Args:
        logits: (vocab_size,) float32.
        token_ids: all tokens of the sequence so far, prompt included; the last ``penalty_window`` count.
        params: the three penalties and the window.
    """
    recent = token_ids if params.penalty_window < 0 else token_ids[-params.penalty_window :]
    if not recent or params.penalty_window == 0:
        return
    ids, counts = np.unique(np.asarray(recent, dtype=np.intp), return_counts=True)
    repeat_penalty = max(params.repeat_penalty, SMALLEST_REPEAT_PENALTY)
    values = logits[ids].astype(np.float64)
    values = np.where(values > 0, values / repeat_penalty, values * repeat_penalty)
    values -= params.presence_penalty + params.frequency_penalty * counts
    can_be_chosen = np.isfinite(logits[ids])
    logits[ids] = np.where(can_be_chosen, np.clip(values, -LARGEST_LOGIT, LARGEST_LOGIT), logits[ids])


def apply_mask(logits: Logits, mask: npt.NDArray[np.uint32]) -> None:
    """Forbid, in place, the tokens whose bit ``token_id % 32`` of word ``token_id // 32`` is not set."""
    bits = np.unpackbits(mask.astype("<u4").view(np.uint8), bitorder="little")[: logits.size]
    logits[bits == 0] = -np.inf


def likeliest(logits: Logits, count: int) -> Kept:
    """The ``count`` largest logits, equal ones by lowest id."""
    kept = np.zeros(logits.size, np.bool_)
    kept[np.argsort(-logits, kind="stable")[:count]] = True
    return kept


def nucleus(logits: Logits, top_p: float) -> Kept:
    """The fewest likeliest tokens whose probability is ``top_p``, equal ones by lowest id; never none."""
    order = np.argsort(-logits, kind="stable")
    mass = np.cumsum(np.exp(logits[order].astype(np.float64) - float(logits.max())))
    count = int(np.searchsorted(mass, top_p * mass[-1], side="left")) + 1
    kept = np.zeros(logits.size, np.bool_)
    kept[order[:count]] = True
    return kept


def at_least(logits: Logits, min_p: float) -> Kept:
    """The tokens at least ``min_p`` times as likely as the likeliest."""
    kept: Kept = logits >= float(logits.max()) + np.log(min_p)
    return kept


def truncate(logits: Logits, params: SamplingParams) -> Kept:
    """The tokens that top-k, top-p and min-p leave, one after the other; none that is -inf."""
    kept = logits > -np.inf
    if 0 < params.top_k < logits.size:
        kept &= likeliest(logits, params.top_k)
    if params.top_p < 1:
        kept[kept] = nucleus(logits[kept], params.top_p)
    if params.min_p > 0:
        kept[kept] = at_least(logits[kept], params.min_p)
    return kept


def choose(
    logits: Logits,
    token_ids: Sequence[int],
    params: SamplingParams,
    random: float,
    mask: npt.NDArray[np.uint32] | None = None,
) -> int:
    """The next token.

    Args:
        logits: (vocab_size,) float32, no NaN or +inf, and at least one that may be chosen; not changed.
        token_ids: the sequence so far, for the penalties.
        params: see ``SamplingParams``.
        random: from 0 to below 1: where in the kept probability, ids ascending, the chosen token lies.
        mask: bits of the tokens that are allowed, or None.
    """
    logits = logits.copy()
    apply_penalties(logits, token_ids, params)
    if mask is not None:
        apply_mask(logits, mask)
    if params.temperature == 0:
        return int(logits.argmax())
    ids = np.flatnonzero(truncate(logits, params))
    distances = logits[ids].astype(np.float64) - float(logits.max())
    with np.errstate(over="ignore"):  # a tiny temperature: quotients are -inf, weights 0
        mass = np.cumsum(np.exp(distances / max(params.temperature, 1e-30)))
    index = int(np.searchsorted(mass, random * mass[-1], side="right"))
    return int(ids[min(index, ids.size - 1)])


def log_probabilities(logits: Logits) -> npt.NDArray[np.float64]:
    """Logarithms of the model's own distribution, (vocab_size,)."""
    distances = logits.astype(np.float64) - float(logits.max())
    result: npt.NDArray[np.float64] = distances - np.log(np.exp(distances).sum())
    return result
