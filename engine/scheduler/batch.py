"""A batch: the work of one step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engine.kernels.backend import SequenceSlice
from engine.scheduler.sequence import Sequence


@dataclass(frozen=True)
class ScheduledSequence:
    """One sequence's share of a step: its next ``num_scheduled_tokens`` tokens, and then ``proposed`` ones.

    Attributes:
        sequence: whose share it is.
        num_scheduled_tokens: of its own tokens.
        proposed: tokens that may follow its last one; computed to be verified, given back where they are wrong.
        is_sampled: whether the share reaches the sequence's last token, so that a new one is chosen.
        is_generating: whether a stream is watched that this share continues, rather than a prompt being read.
    """

    sequence: Sequence
    num_scheduled_tokens: int
    proposed: tuple[int, ...] = ()
    is_sampled: bool = field(init=False)
    is_generating: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_sampled", self.num_scheduled_tokens == self.sequence.num_missing_tokens)
        object.__setattr__(self, "is_generating", self.sequence.is_generating)

    @property
    def num_tokens(self) -> int:
        return self.num_scheduled_tokens + len(self.proposed)

    @property
    def num_logits(self) -> int:
        """Rows of logits that the backend gives for ``slice``."""
        if not self.is_sampled or self.num_tokens == 0:
            return 0
        return self.num_tokens if self.proposed else 1

    def slice(self) -> SequenceSlice:
        """What the backend is asked to compute; valid until the sequence's block table grows."""
        assert self.sequence.table is not None, "a scheduled sequence has blocks"
        start = self.sequence.num_computed_tokens
        own = self.sequence.token_ids[start : start + self.num_scheduled_tokens]
        return SequenceSlice(
            token_ids=np.asarray([*own, *self.proposed], dtype=np.int32),
            start=start,
            block_table=self.sequence.table.block_ids,
            logits="none" if self.num_logits == 0 else "all" if self.proposed else "last",
        )


@dataclass(frozen=True)
class Batch:
    """The shares of one step, at most the token budget together."""

    scheduled: tuple[ScheduledSequence, ...]

    @property
    def num_tokens(self) -> int:
        return sum(share.num_tokens for share in self.scheduled)

    @property
    def num_generating(self) -> int:
        """Shares of which a stream is watched."""
        return sum(share.is_generating for share in self.scheduled)

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens of the shares that only read."""
        return sum(share.num_tokens for share in self.scheduled if not share.is_generating)
