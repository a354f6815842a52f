"""A batch: the work of one step."""

from __future__ import annotations

from collections.abc import Sequence as Shares
from collections.abc import Sequence as Tokens

from engine.kernels.backend import SequenceSlice
from engine.scheduler.prompt_lookup import NOTHING, Draft
from engine.scheduler.sequence import Sequence


class ScheduledSequence:
    """One sequence's share of a step: its next ``num_scheduled_tokens`` tokens, and then proposed ones.

    Attributes:
        sequence: whose share it is.
        num_scheduled_tokens: of its own tokens.
        draft: tokens that may follow its last one; computed to be verified, given back where they are wrong.
        num_ahead: tokens that the backend may choose and compute after its last one.
        ahead: those that it has.
        is_sampled: whether the share reaches the sequence's last token, so that a new one is chosen.
        is_probed: whether the logits after each of its tokens are wanted, not only after the last.
        is_generating: whether a stream is watched that this share continues, rather than a prompt being read.
    """

    def __init__(self, sequence: Sequence, num_scheduled_tokens: int, draft: Draft = NOTHING) -> None:
        self.sequence = sequence
        self.num_scheduled_tokens = num_scheduled_tokens
        self.draft = draft
        self.num_ahead = 0
        self.ahead: Tokens[int] = ()
        self.is_sampled = num_scheduled_tokens == sequence.num_missing_tokens and sequence.max_tokens > 0
        start, probe = sequence.num_computed_tokens, sequence.probe
        self.is_probed = probe is not None and probe.wants(start, start + num_scheduled_tokens)
        self.is_generating = sequence.is_generating

    @property
    def proposed(self) -> tuple[int, ...]:
        return self.draft.token_ids

    @property
    def num_tokens(self) -> int:
        return self.num_scheduled_tokens + len(self.draft.token_ids)

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
        sequence, count = self.sequence, self.num_scheduled_tokens
        assert sequence.table is not None, "a scheduled sequence has blocks"
        start, block_ids = sequence.num_computed_tokens, sequence.table.block_ids
        parts = []
        if count > 0:
            own = sequence.token_ids[start : start + count]
            wanted = "all" if self.is_probed else "last" if self.is_sampled else "none"
            parts.append(SequenceSlice(own, start, block_ids, wanted, sequence.state_slot, not self.is_generating))
        for position, token_id in enumerate(self.proposed, start + count):
            parts.append(SequenceSlice((token_id,), position, block_ids, "last"))
        return parts


class Batch:
    """The shares of one step, at most the token budget together.

    Attributes:
        scheduled: the shares.
        num_tokens: of all.
        is_reading: whether it is a chunk of prompts, rather than the next tokens of streams.
    """

    def __init__(self, scheduled: Shares[ScheduledSequence]) -> None:
        self.scheduled = scheduled
        self.num_tokens = 0
        self.is_reading = False
        for share in scheduled:
            self.num_tokens += share.num_tokens
            self.is_reading |= not share.is_generating and share.num_tokens > 0
