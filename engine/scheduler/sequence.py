"""A sequence: a request's tokens and state inside the engine. It knows token ids only, no text and no template."""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

from engine.cache.kv_cache import BlockTable
from engine.protocol import FinishReason, Priority
from engine.sampling.constraint import TokenConstraint
from engine.sampling.probe import LogitsProbe
from engine.sampling.sampler import Sampler
from engine.scheduler.prompt_lookup import PromptLookup

MAX_PENDING_TOKENS = 32  # more missing tokens than these are read in chunks


class SequenceState(Enum):
    """Where a sequence is on its way through the scheduler."""

    WAITING = "waiting"  # holds no blocks
    RUNNING = "running"
    FINISHED = "finished"


class Sequence:
    """Tokens of a request and how many of them are computed.

    The scheduler closes the gap between ``num_tokens`` and ``num_computed_tokens``; reading the prompt and
    generating are the same thing to it.

    Attributes:
        request_id: of the request it serves.
        token_ids: prompt and completion.
        num_prompt_tokens: how many of them are the prompt.
        num_computed_tokens: how many have their keys and values in the KV cache.
        num_reused_tokens: tokens of the prompt that were in the KV cache when the sequence first ran, and those
            that others have read for it while it had given way; None before.
        num_reached_tokens: the most tokens that were computed so far, whatever was taken from it since.
        max_tokens: completion tokens at most; with 0 it only reads, and ends when that is done.
        end_token_ids: tokens that end the completion.
        sampler: chooses its tokens.
        constraint: which tokens may follow; None is all.
        probe: who wants to see its logits, too.
        num_logprobs: how many alternatives are wanted of each token.
        state: waiting, running or finished.
        finish_reason: set once it is finished without an error.
        table: its blocks while it runs.
        state_slot: of its recurrent state in the backend while it runs, where the model has one.
        priority: whose turn it is first; may change at any time.
        arrival: its place among those of its priority; set by the scheduler.
        lookup: proposes tokens, where tokens are proposed.
        num_read_tokens, num_proposed_tokens, num_accepted_tokens, num_forced_tokens: counts of the report.
        known_logits: (vocab_size,) float32 to choose the next token from when no token is missing.
    """

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: list[int],
        sampler: Sampler,
        max_tokens: int,
        end_token_ids: frozenset[int],
        constraint: TokenConstraint | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> None:
        self.request_id = request_id
        self.token_ids = list(prompt_token_ids)
        self.num_prompt_tokens = len(prompt_token_ids)
        self.num_computed_tokens = 0
        self.num_reused_tokens: int | None = None
        self.num_reached_tokens = 0
        self.max_tokens = max_tokens
        self.end_token_ids = end_token_ids
        self.sampler = sampler
        self.constraint = constraint
        self.probe: LogitsProbe | None = None
        self.num_logprobs = 0
        self.priority = priority
        self.arrival = 0
        self.lookup: PromptLookup | None = None
        self.num_read_tokens = 0
        self.num_proposed_tokens = 0
        self.num_accepted_tokens = 0
        self.num_forced_tokens = 0
        self.state = SequenceState.WAITING
        self.finish_reason: FinishReason | None = None
        self.table: BlockTable | None = None
        self.state_slot = 0
        self.known_logits: npt.NDArray[np.float32] | None = None

    def continue_from(self, other: Sequence) -> None:
        """Take over the completion and the counts of ``other``, which has another prompt and has ended."""
        self.token_ids += other.token_ids[other.num_prompt_tokens :]
        self.num_logprobs = other.num_logprobs
        self.num_reused_tokens = other.num_reused_tokens
        self.num_reached_tokens = self.num_tokens - other.num_missing_tokens
        self.num_read_tokens = other.num_read_tokens
        self.num_proposed_tokens = other.num_proposed_tokens
        self.num_accepted_tokens = other.num_accepted_tokens
        self.num_forced_tokens = other.num_forced_tokens

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_completion_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_missing_tokens(self) -> int:
        """Tokens that are still to be computed before the next one can be sampled."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def is_generating(self) -> bool:
        """Whether it has begun its completion and misses few tokens: the chosen one and those forced after it.

        After a preemption it reads again what it lost, as if that were a prompt.
        """
        num_tokens = len(self.token_ids)
        return num_tokens > self.num_prompt_tokens and num_tokens - self.num_computed_tokens <= MAX_PENDING_TOKENS
