"""Sampling parameters of a request."""

from __future__ import annotations

from engine.plain_data import dataclass


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen.

    Attributes:
        temperature: 0 is greedy (ties by the lowest id).
        top_k: keep the k likeliest tokens; 0, negative or larger than the vocabulary is off.
        top_p: keep the smallest set with this probability mass; 1 is off, 0 keeps one token.
        min_p: drop tokens less likely than this share of the likeliest; 0 is off.
        repeat_penalty: divides positive and multiplies negative logits of recent tokens; 1 is off.
        presence_penalty: subtracted once from the logit of each recent token; 0 is off.
        frequency_penalty: subtracted once per occurrence; 0 is off.
        penalty_window: how many last tokens count as recent; -1 is all.
        seed: of the random choice; None draws one and reports it.
    """

    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 64
    seed: int | None = None
