"""The engine's view of a grammar: which tokens may follow an answer so far, and which must.

One object a request. The mask of the next choice is computed on a thread of its own while the model runs.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.grammar.certainty import MAX_ALLOWED, CertaintyTrace
from engine.grammar.library import Matcher

Mask = npt.NDArray[np.uint32]


class Gate(Protocol):
    """Where the answer begins; see ``answer_gate``."""

    is_open: bool
    opening_ids: frozenset[int]

    def push(self, token_id: int, /) -> None: ...


@cache
def _mask_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "grammar mask")


class GrammarConstraint:
    """A ``TokenConstraint`` over a matcher.

    Attributes:
        num_forced_tokens: tokens so far that the grammar left no choice about.
        first_index: of the answer's first token in the completion; None while the model thinks.
    """

    def __init__(
        self,
        matcher: Matcher,
        vocab_size: int,
        end_token_ids: Collection[int],
        gate: Gate | None = None,
        trace: CertaintyTrace | None = None,
    ) -> None:
        """``gate`` None: the answer begins with the first token. ``trace`` is told of choices among few tokens."""
        self._matcher = matcher
        self._vocab_size = vocab_size
        self._end_token_ids = end_token_ids
        self._gate = gate
        self._next: Future[Mask | None] | None = None
        self._forced: list[int] | None = None  # of this place, where they are known
        self._mask: Mask | None = None  # likewise
        self._trace = trace
        self._num_tokens = 0
        self.num_forced_tokens = 0
        self.first_index: int | None = None if gate is not None and not gate.is_open else 0

    def prepare(self) -> None:
        if self._is_answering and self._mask is None and self._next is None:
            self._next = _mask_thread().submit(self._compute)

    def forced_tokens(self) -> list[int]:
        if not self._is_answering or (self._gate is not None and self._gate.opening_ids):
            return []
        self._wait()
        if self._forced is None:
            self._forced = self._matcher.forced_tokens()
        self.num_forced_tokens += len(self._forced)
        return list(self._forced)

    def mask(self) -> Mask | None:
        """See ``TokenConstraint``; while the model thinks, everything but the end of the answer.

        Raises GenerationError where the grammar has become too much to follow.
        """
        if not self._is_answering:
            return self._thinking_mask()
        self._wait()
        if self._mask is None:  # not prepared; or something is forced, but the model may think first
            self._mask = self._matcher.mask()
        mask = self._mask
        if self._gate is not None and self._gate.opening_ids:
            mask = mask.copy()
            for token_id in self._gate.opening_ids:
                mask[token_id // 32] |= np.uint32(1 << token_id % 32)
        if self._trace is not None:
            self._note_choice(self._trace, mask)
        return mask

    def advance(self, token_id: int) -> None:
        """Raises GenerationError for a token that may not follow."""
        self._wait()
        self._forced = self._mask = None
        self._num_tokens += 1
        was_answering = self._is_answering
        if self._gate is not None and (not was_answering or self._gate.opening_ids):
            self._gate.push(token_id)
            if was_answering != self._is_answering:
                self.first_index = None if was_answering else self._num_tokens
        if was_answering and self._is_answering:
            if self._trace is not None:
                self._trace.note_token(self._num_tokens - 1, token_id)
            self._matcher.consume(token_id)

    @property
    def is_complete(self) -> bool:
        """Whether nothing more may follow."""
        self._wait()
        return self._is_answering and self._matcher.is_stopped and not self._matcher.error()

    @property
    def is_accepting(self) -> bool:
        """Whether the answer may end here."""
        self._wait()
        return self._is_answering and self._matcher.is_accepting

    @property
    def _is_answering(self) -> bool:
        return self._gate is None or self._gate.is_open

    def _compute(self) -> Mask | None:
        """The mask of this place; none where something is forced."""
        if self._forced is None:
            self._forced = self._matcher.forced_tokens()
        return None if self._forced else self._matcher.mask()

    def _wait(self) -> None:
        """Let the thread be done with the matcher, and take what it found."""
        if self._next is not None:
            self._mask = self._next.result()
            self._next = None

    def _note_choice(self, trace: CertaintyTrace, mask: Mask) -> None:
        if int(np.bitwise_count(mask).sum()) <= MAX_ALLOWED:
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little", count=self._vocab_size)
            trace.note_choice(self._num_tokens, np.flatnonzero(bits))

    def _thinking_mask(self) -> Mask:
        mask = np.full(-(-self._vocab_size // 32), 0xFFFFFFFF, np.uint32)
        for token_id in self._end_token_ids:
            mask[token_id // 32] &= np.uint32(~(1 << token_id % 32) & 0xFFFFFFFF)
        return mask
