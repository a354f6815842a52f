"""A batch: the work of one step."""

from __future__ import annotations

from dataclasses import dataclass

from engine.kernels.backend import SequenceSlice
from engine.scheduler.sequence import Sequence


@dataclass(frozen=True)
class ScheduledSequence:
    """One sequence's share of a step: its next ``num_scheduled_tokens`` tokens."""

    sequence: Sequence
    num_scheduled_tokens: int

    @property
    def is_sampled(self) -> bool:
        """Whether this share reaches the sequence's last token, so that a new one is chosen."""
        return self.num_scheduled_tokens == self.sequence.num_missing_tokens

    def slice(self) -> SequenceSlice:
        """What the backend is asked to compute; valid until the sequence's block table grows."""
        assert self.sequence.table is not None, "a scheduled sequence has blocks"
        return SequenceSlice(
            token_ids=self.sequence.tokens_to_compute(self.num_scheduled_tokens),
            start=self.sequence.num_computed_tokens,
            block_table=self.sequence.table.block_ids,
            logits="last" if self.is_sampled else "none",
        )


@dataclass(frozen=True)
class Batch:
    """The shares of one step, at most the token budget together."""

    scheduled: tuple[ScheduledSequence, ...]

    @property
    def num_tokens(self) -> int:
        return sum(share.num_scheduled_tokens for share in self.scheduled)

    @property
    def num_generating(self) -> int:
        """Sequences of which a stream is watched: those that already have completion tokens."""
        return sum(share.sequence.num_completion_tokens > 0 for share in self.scheduled)
