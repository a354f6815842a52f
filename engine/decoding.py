"""From logits to the tokens that a step appends to one sequence.

A step may bring several: tokens that a constraint forces need no logits, and each proposed token that turns out to
be the one chosen brings the logits of the next. A choice is made from the model's own logits with the sampler's own
random numbers whether something was proposed or not, so speculation changes neither the distribution nor, with a
seed, the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.errors import GenerationError
from engine.protocol import FinishReason
from engine.scheduler.sequence import Sequence

if TYPE_CHECKING:
    from engine.sampling.choice import TokenLogprob

Ranking = tuple["TokenLogprob", ...]


@dataclass
class Extension:
    """The tokens of one step, already appended to the sequence.

    Attributes:
        token_ids: in order, an end token included.
        num_forced: how many of them a constraint forced.
        num_accepted: how many of the first were proposed or chosen ahead, whose keys and values are computed.
        reason: why the completion ends with them; None when it goes on.
        error: why no token could be chosen after them.
        rankings: for a sequence that wants them, of each token the likeliest at its place and the token itself;
            None of a forced one.
    """

    token_ids: list[int] = field(default_factory=list)
    num_forced: int = 0
    num_accepted: int = 0
    reason: FinishReason | None = None
    error: GenerationError | None = None
    rankings: list[Ranking | None] = field(default_factory=list)


def extend(
    sequence: Sequence,
    rows: npt.NDArray[np.float32],
    proposed: Tokens[int],
    context_length: int,
    ahead: Tokens[int] = (),
) -> Extension:
    """Append to ``sequence`` what follows from the logits after its last token and after each proposed one.

    Args:
        sequence: all its tokens are computed.
        rows: (1 + len(proposed), vocab_size) float32, not changed.
        proposed: tokens that were computed after the sequence's last one, in the hope that they follow.
        context_length: tokens of a sequence at most.
        ahead: tokens that were chosen already and computed, before ``rows``: none of them ends it.
    """
    sequence.token_ids += ahead
    result = Extension()
    try:
        while result.reason is None:
            following, is_forced = _next_tokens(sequence, rows, result)
            if not following:
                break
            if is_forced and sequence.num_logprobs:
                result.rankings += [None] * len(following)
            for token_id in following:
                _append(sequence, token_id, result, proposed)
                result.num_forced += is_forced
                result.reason = _finish_reason(sequence, context_length)
                if result.reason is not None:
                    break
    except GenerationError as error:
        result.error = error
    if ahead:
        result.token_ids[:0] = ahead
        result.num_accepted += len(ahead)
    return result


def _next_tokens(sequence: Sequence, rows: npt.NDArray[np.float32], result: Extension) -> tuple[list[int], bool]:
    """Forced tokens and True, or a chosen one and False; none when the logits to choose from are not there."""
    constraint = sequence.constraint
    forced = constraint.forced_tokens() if constraint is not None else []
    if forced:
        return forced, True
    is_on_path = result.num_accepted == len(result.token_ids)  # all new tokens so far were proposed
    if not is_on_path or result.num_accepted == len(rows):
        return [], False
    mask = constraint.mask() if constraint is not None else None
    row = rows[result.num_accepted]
    token_id = sequence.sampler.sample(row, sequence.token_ids, mask)
    if sequence.num_logprobs:
        result.rankings.append(tuple(sequence.sampler.top_logprobs(row, sequence.num_logprobs, token_id)))
    return [token_id], False


def _append(sequence: Sequence, token_id: int, result: Extension, proposed: Tokens[int]) -> None:
    is_on_path = result.num_accepted == len(result.token_ids)
    if is_on_path and result.num_accepted < len(proposed) and proposed[result.num_accepted] == token_id:
        result.num_accepted += 1
    result.token_ids.append(token_id)
    sequence.token_ids.append(token_id)
    if sequence.constraint is not None and token_id not in sequence.end_token_ids:
        sequence.constraint.advance(token_id)


def _finish_reason(sequence: Sequence, context_length: int) -> FinishReason | None:
    if sequence.token_ids[-1] in sequence.end_token_ids:
        return FinishReason.STOP
    if sequence.constraint is not None and sequence.constraint.is_complete:
        return FinishReason.STOP
    if sequence.num_completion_tokens >= sequence.max_tokens:
        return FinishReason.LENGTH
    return FinishReason.CONTEXT if sequence.num_tokens >= context_length else None
