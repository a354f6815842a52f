"""The scheduler: gives each step's token budget to the running sequences and lets waiting ones in.

A sequence has tokens and computed tokens; the scheduler closes the gap. Those that miss few tokens are served
first, so an answer that streams goes on streaming, and what is left of the budget reads prompts in chunks. It owns
the states of sequences and their block tables, and knows nothing of logits or text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from engine.cache.kv_cache import KVCache
from engine.cache.prompt_logits import PromptLogits
from engine.model.plan import BLOCK_SIZE
from engine.protocol import FinishReason, Priority
from engine.scheduler.batch import Batch, ScheduledSequence
from engine.scheduler.chunk_size import ChunkSize
from engine.scheduler.prompt_lookup import NOTHING, Draft, PromptLookup
from engine.scheduler.recurrent_states import RecurrentStates
from engine.scheduler.sequence import Sequence, SequenceState
from engine.scheduler.speculation import MAX_PROPOSED, MAX_STREAMS, Speculation

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
        context_length: int,
        on_admitted: Callable[[Sequence], None],
        prompt_logits: PromptLogits,
        speculation: Speculation | None,
        states: RecurrentStates | None = None,
    ) -> None:
        self._kv_cache = kv_cache
        self._max_batch_tokens = max_batch_tokens
        self._context_length = context_length
        self._on_admitted = on_admitted
        self._prompt_logits = prompt_logits
        self._speculation = speculation
        self._states = states
        self._arrivals = itertools.count()
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._alone = ChunkSize(128, 8, max_batch_tokens)
        self._mixed = ChunkSize(16, 2, max_batch_tokens)
        self._generating_s = 0.0  # moving average of a step that only generates

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running)

    def add(self, sequence: Sequence) -> None:
        """Put ``sequence`` behind the waiting ones of its priority."""
        sequence.arrival = next(self._arrivals)
        self._waiting.append(sequence)

    def schedule(self) -> Batch:
        """Choose the work of the next step and reserve its blocks.

        Lets waiting sequences in while there is room, by priority and then first come first served; preempts the
        last in this order when others need their blocks. The batch is empty only when nothing waits or runs.
        """
        self._admit()
        turns = self._turns()
        prompt_budget = self._chunk_size(turns).num_tokens
        budget = self._max_batch_tokens
        scheduled: list[ScheduledSequence] = []
        for sequence in turns:
            if sequence.state is not SequenceState.RUNNING:
                continue
            missing, is_reading = sequence.num_missing_tokens, _is_reading(sequence)
            count = self._chunk(sequence, min(budget, prompt_budget)) if is_reading else min(missing, budget)
            if (count == 0 and missing > 0) or not self._reserve(sequence, count, scheduled):
                continue
            prompt_budget -= count if is_reading else 0
            budget -= count
            scheduled.append(ScheduledSequence(sequence, count))
        if not any(_is_reading(share.sequence) for share in scheduled):
            scheduled = self._with_drafts(scheduled, budget)
        return Batch(tuple(scheduled))

    def _turns(self) -> list[Sequence]:
        """The running sequences in the order in which they take of the budget: first those that generate."""
        has_foreground = any(sequence.priority > Priority.BACKGROUND for sequence in self._running)
        turns = [each for each in self._running if each.priority > Priority.BACKGROUND or not has_foreground]
        return sorted(turns, key=lambda sequence: (_is_reading(sequence), _rank(sequence)))

    def _chunk_size(self, turns: list[Sequence]) -> ChunkSize:
        """A step that reads beside a stream is short, unless what it reads is more urgent than the stream."""
        streams = [sequence.priority for sequence in turns if sequence.is_generating]
        readers = [sequence.priority for sequence in turns if _is_reading(sequence)]
        return self._mixed if streams and max(streams) >= max(readers, default=0) else self._alone

    def _with_drafts(self, scheduled: list[ScheduledSequence], budget: int) -> list[ScheduledSequence]:
        """Add proposed tokens where they promise more tokens a second; only to steps that read no prompt."""
        if self._speculation is None or len(scheduled) > MAX_STREAMS:
            return scheduled
        num_tokens = sum(share.num_tokens for share in scheduled)
        shares = []
        for share in scheduled:
            draft = self._draft(share, min(budget, MAX_PROPOSED))
            draft = self._speculation.choose(draft, num_tokens, len(scheduled))
            num_tokens += len(draft.token_ids)
            budget -= len(draft.token_ids)
            shares.append(replace(share, draft=draft) if draft.token_ids else share)
        return shares

    def _draft(self, share: ScheduledSequence, limit: int) -> Draft:
        """What may follow a share's sequence, with blocks for it; nothing where a step brings no token."""
        sequence = share.sequence
        if not share.is_sampled or not sequence.is_generating:
            return NOTHING
        assert sequence.table is not None, "a scheduled sequence has blocks"
        room = min(
            limit,
            self._context_length - sequence.num_tokens - 1,
            sequence.max_tokens - sequence.num_completion_tokens - 1,
        )
        sequence.lookup = sequence.lookup or PromptLookup()
        draft = sequence.lookup.propose(sequence.token_ids, room)
        has_room = self._kv_cache.reserve(sequence.table, sequence.num_tokens + len(draft.token_ids))
        return draft if has_room else NOTHING

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
            if self._speculation is not None:
                self._speculation.observe(batch, seconds)
            if batch.num_tokens == num_generating or self._generating_s == 0:
                previous = self._generating_s or seconds
                self._generating_s = 0.8 * previous + 0.2 * seconds
        elif self._chunk_size([share.sequence for share in batch.scheduled]) is self._alone:
            self._alone.observe(num_prompt_tokens, seconds, TARGET_STEP_S)
        elif self._generating_s > 0:
            target_s = min(MIXED_STEP_RATIO * self._generating_s, TARGET_STEP_S + self._generating_s)
            self._mixed.observe(num_prompt_tokens, seconds, target_s)

    def commit(self, share: ScheduledSequence, num_accepted: int) -> None:
        """Note that a share's tokens and the first ``num_accepted`` of its proposed ones are in the KV cache."""
        sequence = share.sequence
        assert sequence.table is not None, "a computed sequence has blocks"
        sequence.num_computed_tokens += share.num_scheduled_tokens + num_accepted
        sequence.num_read_tokens += 0 if share.is_generating else share.num_scheduled_tokens
        sequence.num_proposed_tokens += len(share.proposed)
        sequence.num_accepted_tokens += num_accepted
        if self._speculation is not None:
            self._speculation.judge(share, num_accepted)
        self._kv_cache.commit(sequence.table, sequence.token_ids, sequence.num_computed_tokens)
        if self._states is not None:
            self._states.note(sequence)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End ``sequence``; what it computed stays in the KV cache. Does nothing when it has ended already."""
        if sequence.state is not SequenceState.FINISHED:
            sequence.finish_reason = reason
            self._leave(sequence, SequenceState.FINISHED)

    def fail(self, sequence: Sequence) -> None:
        """End ``sequence`` without trusting what it computed."""
        if sequence.table is not None:
            if self._states is not None:
                self._states.leave(sequence, is_trusted=False)
            self._kv_cache.discard(sequence.table)
            sequence.table = None
        self._leave(sequence, SequenceState.FINISHED)

    def _admit(self) -> None:
        """Let waiting sequences in, in their order, while blocks for all their tokens are to be had."""
        for sequence in sorted(self._waiting, key=_rank):
            if self._waits_for_reader(sequence):
                continue
            if not self._make_room(sequence):
                return
            self._waiting.remove(sequence)
            logits = self._prompt_logits.get(sequence.token_ids)
            needs_last = logits is None and sequence.max_tokens > 0
            limit = sequence.num_tokens - 1 if needs_last else sequence.num_tokens
            sequence.table = self._kv_cache.acquire(sequence.token_ids, limit)
            sequence.num_computed_tokens = sequence.table.num_reused_tokens
            sequence.known_logits = logits if sequence.num_missing_tokens == 0 else None
            sequence.state = SequenceState.RUNNING
            if self._states is not None:
                self._states.enter(sequence)
            self._running.append(sequence)
            if sequence.num_reused_tokens is None:
                sequence.num_reused_tokens = sequence.table.num_reused_tokens
                self._on_admitted(sequence)

    def _waits_for_reader(self, sequence: Sequence) -> bool:
        """Whether a running sequence is about to read what ``sequence`` would have to read, too.

        A reader that is less urgent gives way instead: this one reads, and the other goes on from there.
        """
        num_known = None
        for reader in [other for other in self._running if _is_reading(other)]:
            num_shared = num_common_tokens(reader.token_ids, sequence.token_ids)
            if num_shared - reader.num_computed_tokens <= 0:
                continue
            if num_known is None:
                num_known = self._kv_cache.num_matching_tokens(sequence.token_ids)
            if num_shared - num_known < BLOCK_SIZE:  # a part of a block is not shared while its reader runs
                continue
            if reader.priority >= sequence.priority:
                return True
            self._preempt(reader)
        return False

    def _make_room(self, sequence: Sequence) -> bool:
        """Preempt less urgent sequences until ``sequence`` can be let in; False when it has to wait."""
        while self._running and (
            len(self._running) >= MAX_RUNNING
            or (self._states is not None and not self._states.has_room)
            or not self._kv_cache.can_hold(sequence.num_tokens + ADMISSION_MARGIN)
        ):
            last = max(self._running, key=_rank)
            if last.priority >= sequence.priority:
                return False
            self._preempt(last)
        return True

    def _reserve(self, sequence: Sequence, count: int, scheduled: list[ScheduledSequence]) -> bool:
        """Get blocks for the next ``count`` tokens, preempting the last sequences that this step has not chosen.

        False when ``sequence`` itself had to give way.
        """
        assert sequence.table is not None, "a running sequence has blocks"
        while not self._kv_cache.reserve(sequence.table, sequence.num_computed_tokens + count):
            chosen = {share.sequence.request_id for share in scheduled}
            victim = max((each for each in self._running if each.request_id not in chosen), key=_rank)
            if victim is sequence and len(self._running) == 1:
                raise MemoryError(f"{self._kv_cache.num_blocks} blocks cannot hold one sequence")
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        """Take the blocks of ``sequence``; it waits at its old place and goes on later without loss."""
        self._leave(sequence, SequenceState.WAITING)
        sequence.num_computed_tokens = 0
        self._waiting.append(sequence)

    def _leave(self, sequence: Sequence, state: SequenceState) -> None:
        if sequence.state is SequenceState.WAITING:
            if sequence in self._waiting:
                self._waiting.remove(sequence)
        elif sequence in self._running:
            self._running.remove(sequence)
        if sequence.table is not None:
            if self._states is not None:
                self._states.leave(sequence, is_trusted=True)
            self._kv_cache.release(sequence.table, sequence.token_ids, sequence.num_computed_tokens)
            sequence.table = None
        sequence.state = state


def _is_reading(sequence: Sequence) -> bool:
    """Whether its missing tokens are read in chunks, after those that generate have got their share."""
    return sequence.num_missing_tokens > 1 and not sequence.is_generating


def _rank(sequence: Sequence) -> tuple[int, int]:
    """Sorts the urgent first, and among these those that came first."""
    return -sequence.priority, sequence.arrival


def num_common_tokens(first: list[int], second: list[int]) -> int:
    """Length of the longest common prefix."""
    low, high = 0, min(len(first), len(second))
    while low < high:  # comparing slices is much faster than comparing items
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
