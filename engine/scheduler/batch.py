"""A batch: the work of one step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from engine.kernels.backend import SequenceSlice
from engine.scheduler.prompt_lookup import NOTHING, Draft
from engine.scheduler.sequence import Sequence


@dataclass(frozen=True)
class ScheduledSequence:
    """One sequence's share of a step: its next ``num_scheduled_tokens`` tokens, and then proposed ones.

    Attributes:
        sequence: whose share it is.
        num_scheduled_tokens: of its own tokens.
        draft: tokens that may follow its last one; computed to be verified, given back where they are wrong.
        is_sampled: whether the share reaches the sequence's last token, so that a new one is chosen.
        is_probed: whether the logits after each of its tokens are wanted, not only after the last.
        is_generating: whether a stream is watched that this share continues, rather than a prompt being read.
    """

    sequence: Sequence
    num_scheduled_tokens: int
    draft: Draft = NOTHING
    is_sampled: bool = field(init=False)
    is_probed: bool = field(init=False)
    is_generating: bool = field(init=False)

    def __post_init__(self) -> None:
        reaches_end = self.num_scheduled_tokens == self.sequence.num_missing_tokens
        object.__setattr__(self, "is_sampled", reaches_end and self.sequence.max_tokens > 0)
        start, probe = self.sequence.num_computed_tokens, self.sequence.probe
        is_probed = probe is not None and probe.wants(start, start + self.num_scheduled_tokens)
        object.__setattr__(self, "is_probed", is_probed)
        object.__setattr__(self, "is_generating", self.sequence.is_generating)

    @property
    def proposed(self) -> tuple[int, ...]:
        return self.draft.token_ids

    @property
    def num_tokens(self) -> int:
        return self.num_scheduled_tokens + len(self.proposed)

    @property
    def num_logits(self) -> int:
        """Rows of logits that the backend gives for ``slices``."""
        if self.is_probed:
            return self.num_tokens
        return 1 + len(self.proposed) if self.is_sampled and self.num_tokens > 0 else 0

    def slices(self) -> list[SequenceSlice]:
        """What the backend is asked to compute; valid until the sequence's block table grows.

        Proposed tokens are slices of one token each, as if they came one by one: attention over several tokens of
        one slice adds up in another order, and what is accepted should be the same to the bit.
        """
        assert self.sequence.table is not None, "a scheduled sequence has blocks"
        start, count = self.sequence.num_computed_tokens, self.num_scheduled_tokens
        token_ids = np.asarray([*self.sequence.token_ids[start : start + count], *self.proposed], dtype=np.int32)
        block_ids = self.sequence.table.block_ids
        wanted = "all" if self.is_probed else "last" if self.is_sampled else "none"
        is_prompt = not self.is_generating
        own = SequenceSlice(token_ids[:count], start, block_ids, wanted, self.sequence.state_slot, is_prompt)
        ends = range(count, len(token_ids))
        drafted = [SequenceSlice(token_ids[end : end + 1], start + end, block_ids, "last") for end in ends]
        return [own, *drafted] if count > 0 else drafted


@dataclass(frozen=True)
class Batch:
    """The shares of one step, at most the token budget together."""

    scheduled: tuple[ScheduledSequence, ...]

    @property
    def num_tokens(self) -> int:
        return sum(share.num_tokens for share in self.scheduled)

    @property
    def is_reading(self) -> bool:
        """Whether it is a chunk of prompts, rather than the next tokens of streams."""
        return any(share.num_tokens > 0 and not share.is_generating for share in self.scheduled)
