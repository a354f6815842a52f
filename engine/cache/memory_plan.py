"""The memory plan: how long a context and how many KV blocks there is room for.

The plan is made before anything large is allocated, so that a model that does not fit is refused with numbers
instead of freezing the computer. Weights are mapped from the file and count in full: a model whose weights do not
stay in memory reads them from disk for every token.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.cache.checkpoints import DEFAULT_MAX_BYTES
from engine.cache.kv_cache import num_blocks_for
from engine.errors import InsufficientMemoryError, InvalidParameterError
from engine.model.plan import BLOCK_SIZE

DEFAULT_CONTEXT_LENGTH = 8192
MIN_CONTEXT_LENGTH = 512  # a default context is not made shorter than this; the model does not fit then
RESERVE_BYTES = 400 << 20  # buffers of a step, kernels, and room for the rest of the system
RESERVED_WORK_BYTES = 200 << 20  # of the reserve, for buffers; larger ones count beside it
DEFAULT_SHARE = 4  # the default KV cache is this part of the memory that is left
MAX_DEFAULT_KV_BYTES = 4 << 30
MAX_STATES = 16  # sequences with recurrent states that run side by side
STATE_SHARE = 8  # the states of all sequences, and the kept ones, each take no more than this part of what is left
MIN_CHECKPOINTS = 2  # kept states that a chat needs at least: of its last answer, and of the message before
CHECKPOINTS_WANTED = 8


@dataclass(frozen=True)
class MemoryPlan:
    """The KV cache to allocate.

    Attributes:
        context_length: tokens of one sequence.
        num_blocks: hold at least one sequence of that length.
        num_states: sequences with recurrent states that can run side by side; 0 where the model has no states.
        checkpoint_bytes: most for states that are kept.
    """

    context_length: int
    num_blocks: int
    num_states: int = 0
    checkpoint_bytes: int = 0


@dataclass(frozen=True)
class _Room:
    """What there is to plan with, in bytes.

    Attributes:
        available_bytes: memory that can be taken without swapping.
        fixed_bytes: taken whatever the context: weights, states and reserve.
        block_bytes: of one KV block in all layers.
        limit_bytes: most for the KV cache; 0 where nobody set a limit.
    """

    available_bytes: int
    fixed_bytes: int
    block_bytes: int
    limit_bytes: int

    @property
    def kv_bytes(self) -> int:
        """Most that the KV cache can have."""
        free = max(0, self.available_bytes - self.fixed_bytes)
        return min(free, self.limit_bytes) if self.limit_bytes else free

    @property
    def longest_context(self) -> int:
        """Tokens of one sequence at most; one block is kept to copy from while all others are held."""
        return max(0, self.kv_bytes // self.block_bytes - 1) * BLOCK_SIZE

    def num_blocks(self, context_length: int) -> int:
        """Blocks that a sequence of this length needs."""
        return num_blocks_for(context_length) + 1


def plan_memory(
    *,
    available_bytes: int,
    weights_bytes: int,
    block_bytes: int,
    trained_context_length: int,
    context_length: int = 0,
    kv_bytes: int = 0,
    state_bytes: int = 0,
    work_bytes: int = 0,
    takes_more: bool = False,
) -> MemoryPlan:
    """Choose context length, number of blocks and of recurrent states.

    The blocks beyond one context keep other chats and branches. Their memory is taken as they are written, so a
    large plan costs a short chat nothing.

    Args:
        available_bytes: memory that can be taken without swapping.
        weights_bytes: of the model's files.
        block_bytes: of one KV block in all layers.
        trained_context_length: upper bound; positions beyond it were never trained.
        context_length: wanted tokens; 0 is up to ``DEFAULT_CONTEXT_LENGTH``, less where memory is short.
        kv_bytes: most bytes the KV cache may take; 0 is a quarter of what is left, at most 4 GB, and more only
            where the context needs it.
        state_bytes: of the recurrent state of one sequence.
        work_bytes: of the buffers of a step.
        takes_more: than is free, where less than the smallest context would fit.

    Raises InsufficientMemoryError, with the numbers and the largest context that fits, and InvalidParameterError
    for a negative wish.
    """
    if context_length < 0 or kv_bytes < 0:
        raise InvalidParameterError("The context length and the KV cache's size cannot be negative.")
    fixed_bytes = weights_bytes + RESERVE_BYTES + max(0, work_bytes - RESERVED_WORK_BYTES)
    num_states, checkpoint_bytes = _plan_states(available_bytes - fixed_bytes, state_bytes)
    fixed_bytes += num_states * state_bytes + checkpoint_bytes
    wanted = min(context_length or DEFAULT_CONTEXT_LENGTH, trained_context_length)
    smallest = wanted if context_length else min(MIN_CONTEXT_LENGTH, wanted)
    if takes_more:
        needed = (num_blocks_for(smallest) + 1) * block_bytes
        available_bytes = max(available_bytes, fixed_bytes + needed)
    room = _Room(available_bytes, fixed_bytes, block_bytes, kv_bytes)
    if room.longest_context < smallest:
        raise _refusal(room, smallest, is_wish=context_length > 0)
    chosen = min(wanted, room.longest_context)
    default = min((available_bytes - room.fixed_bytes) // DEFAULT_SHARE, MAX_DEFAULT_KV_BYTES)
    num_blocks = min(kv_bytes or default, room.kv_bytes) // block_bytes
    return MemoryPlan(chosen, max(room.num_blocks(chosen), num_blocks), num_states, checkpoint_bytes)


def _plan_states(left_bytes: int, state_bytes: int) -> tuple[int, int]:
    """Sequences with recurrent states, and bytes for kept ones; a large state makes both few."""
    if not state_bytes:
        return 0, 0
    share = max(0, left_bytes) // STATE_SHARE
    num_states = min(MAX_STATES, max(1, share // state_bytes))
    wanted = max(DEFAULT_MAX_BYTES, CHECKPOINTS_WANTED * state_bytes)
    return num_states, max(MIN_CHECKPOINTS * state_bytes, min(wanted, share))


def _refusal(room: _Room, context_length: int, is_wish: bool) -> InsufficientMemoryError:
    """The sentence for a context that does not fit: what it needs, what there is, what would fit."""
    needed = room.num_blocks(context_length) * room.block_bytes
    smallest = room.num_blocks(1) * room.block_bytes
    fits = room.available_bytes - room.fixed_bytes
    if fits < smallest or (fits < needed and not is_wish):
        return InsufficientMemoryError(
            f"The model needs {_gigabytes(room.fixed_bytes + needed)} of memory and "
            f"{_gigabytes(room.available_bytes)} is free; close other programs or choose a smaller model.",
            can_load_anyway=True,
        )
    if fits < needed:
        return InsufficientMemoryError(
            f"With a context of {context_length:,} tokens the model needs "
            f"{_gigabytes(room.fixed_bytes + needed)} of memory and {_gigabytes(room.available_bytes)} is free; "
            f"choose a context of at most {room.longest_context:,} tokens.",
            can_load_anyway=True,
        )
    return InsufficientMemoryError(
        f"A context of {context_length:,} tokens needs {_megabytes(needed)} of memory for what has been read and "
        f"{_megabytes(room.limit_bytes)} is allowed; allow more, or choose a context of at most "
        f"{room.longest_context:,} tokens."
        if room.longest_context
        else f"Even the shortest context needs {_megabytes(smallest)} of memory for what has been read and "
        f"{_megabytes(room.limit_bytes)} is allowed; allow at least {_megabytes(needed)}."
    )


def _gigabytes(num_bytes: int) -> str:
    return f"{max(num_bytes, 0) / 1e9:.1f} GB"


def _megabytes(num_bytes: int) -> str:
    return f"{max(num_bytes, 0) / 1e6:,.1f} MB"
