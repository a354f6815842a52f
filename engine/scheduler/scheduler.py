"""The scheduler: gives each step's token budget to the running sequences and lets waiting ones in.

A sequence has tokens and computed tokens; the scheduler closes the gap. Those that miss few tokens are served
first, so an answer that streams goes on streaming, and what is left of the budget reads prompts in chunks. It owns
the states of sequences and their block tables, and knows nothing of logits or text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from engine.cache.kv_cache import KVCache
from engine.cache.prompt_logits import PromptLogits
from engine.model.plan import BLOCK_SIZE
from engine.protocol import FinishReason
from engine.scheduler.batch import Batch, ScheduledSequence
from engine.scheduler.chunk_size import ChunkSize
from engine.scheduler.sequence import Sequence, SequenceState

TARGET_STEP_S = 0.14  # of a step that only reads prompts: the longest that keeps a stop below 0.2 s
MIXED_STEP_RATIO = 1.7  # of a step that also reads a prompt, against one that only generates
MAX_RUNNING = 16
ADMISSION_MARGIN = 64  # tokens a new sequence should be able to generate before blocks run out


class Scheduler:
    """Waiting and running sequences over one KV cache.

    ``on_admitted`` is called when a sequence first gets blocks, with ``num_reused_tokens`` set. A sequence whose
    tokens are all in the KV cache and whose logits are in ``prompt_logits`` is scheduled with no token at all.
    """

    def __init__(
        self,
        kv_cache: KVCache,
        max_batch_tokens: int,
        on_admitted: Callable[[Sequence], None],
        prompt_logits: PromptLogits,
    ) -> None:
        self._kv_cache = kv_cache
        self._max_batch_tokens = max_batch_tokens
        self._on_admitted = on_admitted
        self._prompt_logits = prompt_logits
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._alone = ChunkSize(128, 8, max_batch_tokens)
        self._mixed = ChunkSize(16, 2, max_batch_tokens)
        self._generating_s = 0.0  # moving average of a step that only generates

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running)

    def add(self, sequence: Sequence) -> None:
        """Put ``sequence`` at the end of the waiting ones."""
        self._waiting.append(sequence)

    def schedule(self) -> Batch:
        """Choose the work of the next step and reserve its blocks.

        Lets waiting sequences in while there is room, first come first served; preempts the youngest running ones
        when the older need their blocks. The batch is empty only when nothing waits or runs.
        """
        self._admit()
        is_mixed = any(sequence.is_generating for sequence in self._running)
        prompt_budget = (self._mixed if is_mixed else self._alone).num_tokens
        budget = self._max_batch_tokens
        scheduled: list[ScheduledSequence] = []
        for sequence in sorted(self._running, key=_is_reading):
            if sequence.state is not SequenceState.RUNNING:
                continue
            missing, is_reading = sequence.num_missing_tokens, _is_reading(sequence)
            count = self._chunk(sequence, min(budget, prompt_budget)) if is_reading else min(missing, budget)
            if (count == 0 and missing > 0) or not self._reserve(sequence, count, scheduled):
                continue
            prompt_budget -= count if is_reading else 0
            budget -= count
            scheduled.append(ScheduledSequence(sequence, count))
        return Batch(tuple(scheduled))

    def _chunk(self, sequence: Sequence, budget: int) -> int:
        """How many of its missing tokens a sequence reads within ``budget``.

        A chunk that is not the last ends with a block where it can: then a prompt is always cut at the same places,
        and a backend whose rounding depends on the place gives the same numbers each time.
        """
        start = sequence.num_computed_tokens
        end = start + min(sequence.num_missing_tokens, budget)
        aligned = end - end % BLOCK_SIZE
        return (aligned if end < sequence.num_tokens and aligned > start else end) - start

    def observe(self, batch: Batch, seconds: float) -> None:
        """Learn from the time that ``batch`` took; call it before the batch's tokens are committed."""
        num_generating, num_prompt_tokens = batch.num_generating, batch.num_prompt_tokens
        if num_prompt_tokens == 0:
            previous = self._generating_s or seconds
            self._generating_s = 0.8 * previous + 0.2 * seconds
        elif num_generating == 0:
            self._alone.observe(num_prompt_tokens, seconds, TARGET_STEP_S)
        elif self._generating_s > 0:
            target_s = min(MIXED_STEP_RATIO * self._generating_s, TARGET_STEP_S + self._generating_s)
            self._mixed.observe(num_prompt_tokens, seconds, target_s)

    def commit(self, sequence: Sequence, num_tokens: int) -> None:
        """Note that the next ``num_tokens`` tokens of ``sequence`` are in the KV cache."""
        assert sequence.table is not None, "a computed sequence has blocks"
        sequence.num_computed_tokens += num_tokens
        self._kv_cache.commit(sequence.table, sequence.token_ids, sequence.num_computed_tokens)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End ``sequence``; what it computed stays in the KV cache. Does nothing when it has ended already."""
        if sequence.state is not SequenceState.FINISHED:
            sequence.finish_reason = reason
            self._leave(sequence, SequenceState.FINISHED)

    def fail(self, sequence: Sequence) -> None:
        """End ``sequence`` without trusting what it computed."""
        if sequence.table is not None:
            self._kv_cache.discard(sequence.table)
            sequence.table = None
        self._leave(sequence, SequenceState.FINISHED)

    def _admit(self) -> None:
        """Let waiting sequences in, in their order, while blocks for all their tokens are to be had."""
        while self._waiting and len(self._running) < MAX_RUNNING:
            sequence = self._waiting[0]
            if self._running and not self._kv_cache.can_hold(sequence.num_tokens + ADMISSION_MARGIN):
                return
            self._waiting.popleft()
            logits = self._prompt_logits.get(sequence.token_ids)
            limit = sequence.num_tokens if logits is not None else sequence.num_tokens - 1
            sequence.table = self._kv_cache.acquire(sequence.token_ids, limit)
            sequence.num_computed_tokens = sequence.table.num_reused_tokens
            sequence.known_logits = logits if sequence.num_missing_tokens == 0 else None
            sequence.state = SequenceState.RUNNING
            self._running.append(sequence)
            if sequence.num_reused_tokens is None:
                sequence.num_reused_tokens = sequence.table.num_reused_tokens
                self._on_admitted(sequence)

    def _reserve(self, sequence: Sequence, count: int, scheduled: list[ScheduledSequence]) -> bool:
        """Get blocks for the next ``count`` tokens, preempting younger sequences that this step has not chosen yet.

        False when ``sequence`` itself had to give way.
        """
        assert sequence.table is not None, "a running sequence has blocks"
        while not self._kv_cache.reserve(sequence.table, sequence.num_computed_tokens + count):
            chosen = {share.sequence.request_id for share in scheduled}
            victim = next(other for other in reversed(self._running) if other.request_id not in chosen)
            if victim is sequence and len(self._running) == 1:
                raise MemoryError(f"{self._kv_cache.num_blocks} blocks cannot hold one sequence")
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        """Take the blocks of ``sequence``; it waits in front and goes on later without loss."""
        self._leave(sequence, SequenceState.WAITING)
        sequence.num_computed_tokens = 0
        self._waiting.appendleft(sequence)

    def _leave(self, sequence: Sequence, state: SequenceState) -> None:
        if sequence.state is SequenceState.WAITING:
            if sequence in self._waiting:
                self._waiting.remove(sequence)
        elif sequence in self._running:
            self._running.remove(sequence)
        if sequence.table is not None:
            self._kv_cache.release(sequence.table, sequence.token_ids, sequence.num_computed_tokens)
            sequence.table = None
        sequence.state = state


def _is_reading(sequence: Sequence) -> bool:
    """Whether its missing tokens are read in chunks, after those that generate have got their share."""
    return sequence.num_missing_tokens > 1 and not sequence.is_generating
