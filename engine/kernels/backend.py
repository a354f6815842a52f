"""What a backend is: an executor of a plan with a KV store of its own.

The cache manager owns block *ids*; a backend owns the bytes behind them and their layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.model.plan import BLOCK_SIZE, Plan

Integers = Sequence[int] | npt.NDArray[np.int32]


@dataclass(frozen=True)
class SequenceSlice:
    """The part of one sequence that a step computes.

    Attributes:
        token_ids: the num_scheduled_tokens of them.
        start: position of the first of them; positions below are in the KV cache already.
        block_table: block ids; position p lives in block ``block_table[p // 16]``, slot ``p % 16``, and the table
            covers ``start + len(token_ids)`` positions.
        state: slot of the sequence's recurrent state, where the model has one.
        logits: "none", "last" (one row, of the last token) or "all" (one row a token).
        is_prompt: its keys and values must be the same to the bit whatever parts of a text are computed together;
            steps of such slices hold no others.
    """

    token_ids: Integers
    start: int
    block_table: Integers
    logits: str = "last"
    state: int = 0
    is_prompt: bool = False


@dataclass(frozen=True)
class NativeChoice:
    """Machine code that chooses a token from a row of logits; addresses, valid until the thread chooses otherwise.

    Attributes:
        kernel: the code, a kernel (see ``jit``); its operands lie at ``operands``.
        logits, random: slots that take the row's address, int64, and a random number from 0 to 1, float64.
        result: slot that gets the token, int64; negative where none can be chosen.
    """

    kernel: int
    operands: int
    logits: int
    random: int
    result: int


@dataclass
class RunAhead:
    """Tokens that follow a step over a single one, as far as the backend goes on by itself.

    Each is chosen from the logits of the one before and computed in the next position, without what the engine does
    between two steps. Where the next would be an end token, or cannot be chosen, it is not computed, and the logits
    are those that it would be chosen from.

    Attributes:
        choice: how each is chosen.
        randoms: a random number for each; as many as there are tokens at most.
        end_token_ids: that end a completion.
        token_ids: those that were chosen and computed; the backend adds them.
    """

    choice: NativeChoice
    randoms: Sequence[float]
    end_token_ids: frozenset[int]
    token_ids: list[int] = field(default_factory=list)


def check_slice(part: SequenceSlice, plan: Plan, num_states: int) -> None:
    """Raise ValueError for what would read or write outside the buffers of ``plan``."""
    num_positions = part.start + len(part.token_ids)
    if part.logits not in {"none", "last", "all"}:
        raise ValueError(f"logits must be none, last or all, not {part.logits!r}")
    if not len(part.token_ids) or part.start < 0:
        raise ValueError("a slice needs at least one token and a position from 0")
    if min(part.token_ids) < 0 or max(part.token_ids) >= plan.vocab_size:
        raise ValueError(f"token ids must lie below {plan.vocab_size}")
    if plan.max_positions is not None and num_positions > plan.max_positions:
        raise ValueError(f"position {num_positions - 1} of a model with {plan.max_positions} positions")
    if plan.state_sizes and not 0 <= part.state < num_states:
        raise ValueError(f"states must lie below {num_states}")
    if len(part.block_table) * BLOCK_SIZE < num_positions:
        raise ValueError(f"the block table does not cover {num_positions} positions")


def check_ahead(slices: Sequence[SequenceSlice], ahead: RunAhead, plan: Plan) -> None:
    """Raise ValueError for tokens ahead that would be read or written outside the buffers of ``plan``."""
    part = slices[0]
    if len(slices) > 1 or len(part.token_ids) > 1 or part.logits == "none" or part.is_prompt:
        raise ValueError("only a single token of a stream is followed by others")
    num_positions = part.start + 1 + len(ahead.randoms)
    if len(part.block_table) * BLOCK_SIZE < num_positions:
        raise ValueError(f"the block table does not cover {num_positions} positions")
    if plan.max_positions is not None and num_positions > plan.max_positions:
        raise ValueError(f"position {num_positions - 1} of a model with {plan.max_positions} positions")


def check_block_table(block_table: Integers, num_blocks: int) -> None:
    """Raise ValueError for a block that is not there."""
    if min(block_table) < 0 or max(block_table) >= num_blocks:
        raise ValueError(f"block ids must lie below {num_blocks}")


class StepInterruptedError(Exception):
    """A step ended early, since ``Backend.interrupt`` was called. What it has written counts for nothing."""


class Backend(Protocol):
    """Executes the plan it was made for, one step at a time; ``interrupt`` and ``lend_core`` may meet a step."""

    max_batch_tokens: int
    max_ahead_tokens: int  # of a ``RunAhead``; 0 where it does not go on by itself
    vocab_size: int  # of a row of logits
    kv_bytes: int  # of the KV cache when all its blocks are written
    block_bytes: int  # of one block in all layers
    kv_format: str  # equal only where another backend would write the same bytes: layout, type, kernels
    state_bytes: int  # of the recurrent state of one sequence; 0 where the model has none
    num_states: int  # sequences whose states the backend has room for

    def run(self, slices: Sequence[SequenceSlice], ahead: RunAhead | None = None) -> npt.NDArray[np.float32]:
        """Run one step; slices may continue each other, all keys and values are written before any is attended to.

        With ``ahead``, after a single token of a stream, steps of further ones may follow. Returns logits of the
        last step, (wanted rows in order of the slices, vocab_size) float32. The array is overwritten by the
        next call. Raises ValueError when the slices hold more than ``max_batch_tokens`` tokens,
        StepInterruptedError, and what the backend's ``check_weights`` raises, which is called once the weights were
        read, ``guard_weights`` before. What a step has written that raised counts for nothing.
        """
        ...

    def interrupt(self) -> None:
        """End the running step within milliseconds, if it can be; from any thread. Where none runs, the next one
        may be ended. Recurrent states that the step was to change are lost."""
        ...

    def lend_core(self, is_lent: bool) -> None:
        """Leave a core to the calling thread, or take it back. Returns when it is free, in milliseconds at most;
        what is computed stays the same to the bit."""
        ...

    def copy_block(self, source: int, target: int) -> None:
        """Copy the keys and values of block ``source`` to block ``target`` in all layers."""
        ...

    def read_blocks(self, block_ids: npt.NDArray[np.int32], out: npt.NDArray[np.uint8]) -> None:
        """Copy blocks to ``out``, (blocks, block_bytes) uint8: each as it would lie in a file."""
        ...

    def write_blocks(self, block_ids: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> None:
        """Copy what ``read_blocks`` gave, (blocks, block_bytes) uint8, to blocks."""
        ...

    def read_state(self, slot: int) -> npt.NDArray[np.uint8]:
        """A copy of the recurrent state in ``slot``, (state_bytes,) uint8."""
        ...

    def write_state(self, slot: int, state: npt.NDArray[np.uint8] | None) -> None:
        """Put a state that ``read_state`` gave into ``slot``; None is the state before the first token."""
        ...

    def close(self) -> None:
        """End worker threads and free the buffers; idempotent."""
        ...
