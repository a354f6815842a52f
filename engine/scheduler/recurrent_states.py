"""The recurrent states of running sequences: their slots in the backend, and the checkpoints taken of them.

A state cannot be cut to a shorter prefix as keys and values can. It is therefore copied at the end of a prompt, at
the end of an answer, and now and then between; the copies lie in the radix tree beside the blocks, and a sequence
starts from the deepest one of its prefix.
"""

from __future__ import annotations

from engine.cache.kv_cache import KVCache
from engine.kernels.backend import Backend
from engine.scheduler.sequence import Sequence

CHECKPOINT_INTERVAL = 256  # tokens between two copies while a long text is read or written


class RecurrentStates:
    """Slots for as many sequences as the backend has states for."""

    def __init__(self, backend: Backend, kv_cache: KVCache) -> None:
        self._backend = backend
        self._kv_cache = kv_cache
        self._free = list(reversed(range(backend.num_states)))
        self._kept_at: dict[int, int] = {}  # tokens at the last copy, by slot

    @property
    def has_room(self) -> bool:
        """Whether one more sequence can run."""
        return bool(self._free)

    def enter(self, sequence: Sequence) -> None:
        """Give ``sequence`` a slot with the state after what it reuses."""
        assert sequence.table is not None, "a running sequence has blocks"
        slot = self._free.pop()
        checkpoint = sequence.table.checkpoint
        self._backend.write_state(slot, None if checkpoint is None else checkpoint.state)
        self._kept_at[slot] = sequence.num_computed_tokens
        sequence.state_slot = slot

    def note(self, sequence: Sequence) -> None:
        """Copy the state where its place is worth it; call it when the step's tokens are committed."""
        num_tokens = sequence.num_computed_tokens
        is_due = num_tokens - self._kept_at[sequence.state_slot] >= CHECKPOINT_INTERVAL
        if is_due or num_tokens == sequence.num_prompt_tokens:
            self._keep(sequence)

    def leave(self, sequence: Sequence, is_trusted: bool) -> None:
        """Take the slot back, before the sequence's blocks are; the last state is kept if it can be trusted."""
        if is_trusted:
            self._keep(sequence)
        self._free.append(sequence.state_slot)
        del self._kept_at[sequence.state_slot]

    def _keep(self, sequence: Sequence) -> None:
        num_tokens, slot = sequence.num_computed_tokens, sequence.state_slot
        if num_tokens > self._kept_at[slot]:
            assert sequence.table is not None, "a running sequence has blocks"
            self._kv_cache.add_checkpoint(sequence.table, num_tokens, self._backend.read_state(slot))
            self._kept_at[slot] = num_tokens
