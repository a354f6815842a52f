"""A backend whose "model" is a checksum of the tokens it finds in the KV cache.

The next token depends on every token before it *as stored in the blocks*, so a wrong, stale or overwritten block
changes the answer. It also refuses what a real backend would be harmed by.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.kernels.backend import RunAhead, SequenceSlice, StepInterruptedError
from engine.model.plan import BLOCK_SIZE

VOCAB_SIZE = 64


def next_token(token_ids: Sequence[int], vocab_size: int = VOCAB_SIZE) -> int:
    """The fake model's greedy choice after ``token_ids``."""
    state = 17
    for token_id in token_ids:
        state = (state * 31 + token_id + 7) % 1_000_003
    return state % vocab_size


def continuation(prompt: Sequence[int], count: int, vocab_size: int = VOCAB_SIZE) -> list[int]:
    """The fake model's greedy answer."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens, vocab_size))
    return tokens[len(prompt) :]


class FakeBackend:
    """See the module; ``before_run`` is called in each step and may wait, raise or look."""

    def __init__(
        self,
        num_blocks: int,
        max_batch_tokens: int = 64,
        vocab_size: int = VOCAB_SIZE,
        before_run: Callable[[Sequence[SequenceSlice]], object] = lambda slices: None,
        max_ahead_tokens: int = 0,
    ) -> None:
        self.max_batch_tokens = max_batch_tokens
        self.max_ahead_tokens = max_ahead_tokens
        self.vocab_size = vocab_size
        self.before_run = before_run
        self.num_computed_tokens = 0
        self.num_copied_blocks = 0
        self.num_written_blocks = 0  # brought from elsewhere
        self.is_closed = threading.Event()
        self.is_interrupted = threading.Event()
        self.poison: int | None = None  # a token after which all logits are NaN
        self._stored = np.full((num_blocks, BLOCK_SIZE), -1, dtype=np.int32)
        self.kv_bytes = self._stored.nbytes
        self.block_bytes = self._stored[0].nbytes
        self.kv_format = "fake"
        self.state_bytes = self.num_states = 0

    def read_state(self, slot: int) -> npt.NDArray[np.uint8]:
        raise NotImplementedError("the fake model has no recurrent state")

    def write_state(self, slot: int, state: npt.NDArray[np.uint8] | None) -> None:
        raise NotImplementedError("the fake model has no recurrent state")

    def run(self, slices: Sequence[SequenceSlice], ahead: RunAhead | None = None) -> npt.NDArray[np.float32]:
        """Tokens ahead are the greedy ones, whatever the choice."""
        logits = self._run(slices)
        for _ in ahead.randoms if ahead is not None else ():
            assert ahead is not None
            token_id = int(logits[0].argmax())
            if np.isnan(logits[0, 0]) or token_id in ahead.end_token_ids:
                break
            ahead.token_ids.append(token_id)
            start = slices[0].start + 1
            slices = [SequenceSlice([token_id], start, slices[0].block_table)]
            logits = self._run(slices)
        return logits

    def _run(self, slices: Sequence[SequenceSlice]) -> npt.NDArray[np.float32]:
        assert not self.is_closed.is_set(), "closed"
        assert slices, "an empty batch"
        assert sum(len(part.token_ids) for part in slices) <= self.max_batch_tokens
        self.before_run(slices)
        self._end_if_interrupted(slices)
        written: set[tuple[int, int]] = set()
        rows = []
        for part in slices:
            for offset, token_id in enumerate(part.token_ids):
                position = part.start + offset
                slot = (int(part.block_table[position // BLOCK_SIZE]), position % BLOCK_SIZE)
                assert slot not in written, "two sequences write one slot"
                written.add(slot)
                self._stored[slot] = token_id
            self.num_computed_tokens += len(part.token_ids)
        for part in slices:
            if part.logits == "none":
                continue
            length = part.start + len(part.token_ids)
            seen = self._stored[part.block_table].reshape(-1)[:length].tolist()
            assert -1 not in seen, "a position was never computed"
            first = part.start if part.logits == "all" else length - 1
            rows += [self._row(seen[: end + 1]) for end in range(first, length)]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.vocab_size)

    def _row(self, seen: list[int]) -> npt.NDArray[np.float32]:
        row = np.full(self.vocab_size, np.nan if seen[-1] == self.poison else -5.0, dtype=np.float32)
        if seen[-1] != self.poison:
            row[next_token(seen, self.vocab_size)] = 5.0
        return row

    def interrupt(self) -> None:
        self.is_interrupted.set()

    def lend_core(self, is_lent: bool) -> None:
        self.lends_core = is_lent

    def _end_if_interrupted(self, slices: Sequence[SequenceSlice]) -> None:
        """As a real step that ends early, leave anything in the slots that it was to write."""
        if self.is_interrupted.is_set():
            self.is_interrupted.clear()
            for part in slices:
                positions = part.start + np.arange(len(part.token_ids))
                blocks = np.array(part.block_table)[positions // BLOCK_SIZE]
                self._stored[blocks, positions % BLOCK_SIZE] = -1
            raise StepInterruptedError

    def copy_block(self, source: int, target: int) -> None:
        self._stored[target] = self._stored[source]
        self.num_copied_blocks += 1

    def read_blocks(self, block_ids: npt.NDArray[np.int32], out: npt.NDArray[np.uint8]) -> None:
        out[...] = self._stored[block_ids].view(np.uint8)

    def write_blocks(self, block_ids: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> None:
        self._stored[block_ids] = np.ascontiguousarray(data).view(np.int32)
        self.num_written_blocks += len(block_ids)

    def close(self) -> None:
        self.is_closed.set()
