"""The engine's configuration, and the memory plan: how long a context and how many KV blocks there is room for.

The plan is made before anything large is allocated, so that a model that does not fit is refused with numbers
instead of freezing the computer. Weights are mapped from the file and count in full: a model whose weights do not
stay in memory reads them from disk for every token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.cache.kv_cache import num_blocks_for
from engine.errors import InsufficientMemoryError, InvalidParameterError
from engine.model.plan import BLOCK_SIZE

DEFAULT_CONTEXT_LENGTH = 8192
MIN_CONTEXT_LENGTH = 512  # a default context is not made shorter than this; the model does not fit then
RESERVE_BYTES = 400 << 20  # activations, kernels, and room for the rest of the system
MAX_DEFAULT_KV_BYTES = 4 << 30
CONTEXTS_KEPT = 4  # how many full contexts the default pool keeps for other chats and branches


@dataclass(frozen=True)
class EngineConfig:
    """What the person or the app may choose once for an engine.

    Attributes:
        backend: "cpu", or "reference" for the slow NumPy definition.
        num_threads: 0 is the number of physical cores.
        context_length: used where a load names none; 0 lets the memory plan choose.
        max_batch_tokens: most tokens of one step.
        kv_bytes: memory for the KV cache; 0 is chosen from what is free.
    """

    backend: Literal["cpu", "reference"] = "cpu"
    num_threads: int = 0
    context_length: int = 0
    max_batch_tokens: int = 512
    kv_bytes: int = 0


@dataclass(frozen=True)
class MemoryPlan:
    """The KV cache to allocate: ``num_blocks`` hold at least one sequence of ``context_length`` tokens."""

    context_length: int
    num_blocks: int


def plan_memory(
    *,
    available_bytes: int,
    weights_bytes: int,
    block_bytes: int,
    trained_context_length: int,
    context_length: int = 0,
    kv_bytes: int = 0,
) -> MemoryPlan:
    """Choose context length and number of blocks.

    Args:
        available_bytes: memory that can be taken without swapping.
        weights_bytes: of the model's files.
        block_bytes: of one KV block in all layers.
        trained_context_length: upper bound; positions beyond it were never trained.
        context_length: wanted tokens; 0 is up to ``DEFAULT_CONTEXT_LENGTH``, less where memory is short.
        kv_bytes: wanted size of the KV cache; 0 is a quarter of what is left, within bounds.

    Raises InsufficientMemoryError, with the numbers and the largest context that fits, and InvalidParameterError
    for a negative wish.
    """
    if context_length < 0 or kv_bytes < 0:
        raise InvalidParameterError("The context length and the KV cache's size cannot be negative.")
    room = available_bytes - weights_bytes - RESERVE_BYTES
    fitting = max(0, (room // block_bytes - 1) * BLOCK_SIZE)
    smallest = min(MIN_CONTEXT_LENGTH, trained_context_length)
    if fitting < smallest:
        needed = weights_bytes + RESERVE_BYTES + (num_blocks_for(smallest) + 1) * block_bytes
        raise InsufficientMemoryError(
            f"The model needs {_gigabytes(needed)} of memory and {_gigabytes(available_bytes)} is free; "
            "close other programs or choose a smaller model."
        )
    wanted = min(context_length or DEFAULT_CONTEXT_LENGTH, trained_context_length)
    if wanted > fitting and context_length:
        needed = weights_bytes + RESERVE_BYTES + (num_blocks_for(wanted) + 1) * block_bytes
        raise InsufficientMemoryError(
            f"With a context of {wanted:,} tokens the model needs {_gigabytes(needed)} of memory and "
            f"{_gigabytes(available_bytes)} is free; choose a context of at most {fitting:,} tokens."
        )
    chosen = min(wanted, fitting)
    num_needed = num_blocks_for(chosen) + 1  # one more: a block to copy from while all others are held
    budget = kv_bytes or min(room // 4, MAX_DEFAULT_KV_BYTES, CONTEXTS_KEPT * num_needed * block_bytes)
    return MemoryPlan(chosen, max(num_needed, min(budget, room) // block_bytes))


def _gigabytes(num_bytes: int) -> str:
    return f"{max(num_bytes, 0) / 1e9:.1f} GB"
