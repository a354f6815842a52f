"""The scheduler: gives each step's token budget to the running sequences and lets waiting ones in.

A sequence has tokens and computed tokens; the scheduler closes the gap. A step either generates, one token or a few
for every stream, or reads prompts in a chunk; beside streams a pace says when. Kernels that generate a few tokens
round otherwise than those that read, which are the same for any number, so that what is kept of a prompt does not
depend on where it was cut; if a step did both, an answer would depend on what is read beside it. Nothing would be
gained by that: on two cores, with 135 M and 1 B parameters, 64 tokens of a prompt and one of a stream take as long
in one step as in two. It owns the states of sequences and their block tables, and knows nothing of logits or text.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable

from engine.cache.kv_cache import KVCache
from engine.cache.prompt_logits import PromptLogits
from engine.model.plan import BLOCK_SIZE
from engine.protocol import FinishReason, Priority
from engine.scheduler.batch import Batch, ScheduledSequence
from engine.scheduler.chunk_size import ChunkSize
from engine.scheduler.pace import RATIO, SHORT_PROMPT, URGENT_RATIO, Pace
from engine.scheduler.prompt_lookup import NOTHING, Draft, PromptLookup
from engine.scheduler.recurrent_states import RecurrentStates
from engine.scheduler.sequence import Sequence, SequenceState
from engine.scheduler.speculation import MAX_PROPOSED, MAX_STREAMS, Speculation
from engine.scheduler.step_length import StepLength

TARGET_STEP_S = 0.14  # of a step that reads, for a stream beside it, or a request that comes, waits for its end
ALONE_FACTOR = 4  # as many tokens in a step that reads what the person waits for, with nothing else to do
MIN_CHUNK = 32  # tokens; fewer cost nearly as much, so where these take longer than the target, they take longer
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
        max_ahead_tokens: int = 0,
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
        self._chunk_size = ChunkSize(128, MIN_CHUNK, max_batch_tokens)
        self._pace = Pace()
        self._step_length = StepLength(max_ahead_tokens)
        self._stream_ratio = RATIO  # how much slower streams may be while others read

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
        if self._waiting:
            self._admit()
        streams: list[Sequence] = []
        readers: list[Sequence] = []
        starters: list[Sequence] = []
        for sequence in self._turns():
            group = streams if sequence.is_generating else readers if sequence.num_missing_tokens > 0 else starters
            group.append(sequence)
        self._stream_ratio = _stream_ratio(streams, readers)
        scheduled: list[ScheduledSequence] = []
        if readers and (not streams or self._pace.can_read):
            factor = ALONE_FACTOR if self._reads_alone(readers[0]) else 1
            scheduled = self._read([*starters, *readers], factor * self._chunk_size.num_tokens)
        return Batch(scheduled or self._generate(starters + streams))

    def _reads_alone(self, reader: Sequence) -> bool:
        """Whether nobody waits for the end of a step but for this sequence's sake. (A stop ends most steps.)"""
        is_waited_for = reader.priority >= Priority.VISIBLE
        return is_waited_for and len(self._running) == 1 and not self._waiting and self._states is None

    def _turns(self) -> list[Sequence]:
        """The running sequences whose turn it is, the urgent first."""
        if len(self._running) < 2:
            return self._running
        has_foreground = any(sequence.priority > Priority.BACKGROUND for sequence in self._running)
        turns = [each for each in self._running if each.priority > Priority.BACKGROUND or not has_foreground]
        return sorted(turns, key=_rank)

    def _read(self, readers: list[Sequence], room: int) -> list[ScheduledSequence]:
        """The next chunk: of the first prompt, and of others where it leaves ``room`` for all or much of them."""
        budget = self._max_batch_tokens
        scheduled: list[ScheduledSequence] = []
        for sequence in readers:
            if sequence.state is not SequenceState.RUNNING:
                continue  # it gave way to one before it
            if scheduled and min(room, budget) < min(sequence.num_missing_tokens, MIN_CHUNK):
                break
            count = _chunk(sequence, room, budget)
            if self._reserve(sequence, count, scheduled):
                room, budget = room - count, budget - count
                scheduled.append(ScheduledSequence(sequence, count))
        return scheduled

    def _generate(self, streams: list[Sequence]) -> list[ScheduledSequence]:
        """What each misses: the token chosen last, none, or some that a constraint forced."""
        budget = self._max_batch_tokens
        scheduled: list[ScheduledSequence] = []
        for sequence in streams:
            missing = sequence.num_missing_tokens
            count = min(missing, budget)
            if sequence.state is not SequenceState.RUNNING or (count == 0 and missing > 0):
                continue
            if self._reserve(sequence, count, scheduled):
                budget -= count
                scheduled.append(ScheduledSequence(sequence, count))
        self._add_drafts(scheduled, budget)
        if len(scheduled) == 1:
            self._let_run_ahead(scheduled[0])
        return scheduled

    def _let_run_ahead(self, share: ScheduledSequence) -> None:
        """Let a stream compute some tokens without a word, where nobody else waits and each is chosen by itself."""
        sequence, limit = share.sequence, self._step_length.num_ahead
        is_alone = len(self._running) == 1 and not self._waiting and self._states is None
        is_plain = sequence.constraint is None and sequence.probe is None and not sequence.num_logprobs
        if limit == 0 or not is_alone or not is_plain or not sequence.sampler.can_run_ahead:
            return
        if not share.is_sampled or not sequence.is_generating or share.num_tokens != 1:
            return
        assert sequence.table is not None, "a scheduled sequence has blocks"
        count = min(limit, self._room(sequence))
        if count > 0 and self._kv_cache.reserve(sequence.table, sequence.num_tokens + count):
            share.num_ahead = count

    def _room(self, sequence: Sequence) -> int:
        """Tokens that a step may compute after the last one, when one more is chosen from their logits."""
        in_context = self._context_length - sequence.num_tokens - 1
        return min(in_context, sequence.max_tokens - sequence.num_completion_tokens - 1)

    def _add_drafts(self, scheduled: list[ScheduledSequence], budget: int) -> None:
        """Add proposed tokens where they promise more tokens a second."""
        if self._speculation is None or len(scheduled) > MAX_STREAMS:
            return
        num_tokens = self._max_batch_tokens - budget
        for share in scheduled:
            if (draft := self._draft(share, min(budget, MAX_PROPOSED))) is not NOTHING:
                share.draft = self._speculation.choose(draft, num_tokens, len(scheduled))
                num_tokens += len(share.proposed)
                budget -= len(share.proposed)

    def _draft(self, share: ScheduledSequence, limit: int) -> Draft:
        """What may follow a share's sequence, with blocks for it; nothing where a step brings no token."""
        sequence = share.sequence
        if not share.is_sampled or not sequence.is_generating or share.num_scheduled_tokens == 0:
            return NOTHING
        assert sequence.table is not None, "a scheduled sequence has blocks"
        room = min(limit, self._room(sequence))
        sequence.lookup = sequence.lookup or PromptLookup()
        draft = sequence.lookup.propose(sequence.token_ids, room)
        if draft is NOTHING:
            return NOTHING
        has_room = self._kv_cache.reserve(sequence.table, sequence.num_tokens + len(draft.token_ids))
        return draft if has_room else NOTHING

    def observe(self, batch: Batch, seconds: float) -> None:
        """Learn from the time that ``batch`` took; call it before the batch's tokens are committed."""
        if batch.is_reading:
            self._chunk_size.observe(batch.num_tokens, seconds, TARGET_STEP_S)
            if any(sequence.is_generating for sequence in self._running):
                self._pace.note_reading(seconds)
            return
        self._pace.note_generating(seconds, self._stream_ratio)
        count = 1 + sum(len(share.ahead) for share in batch.scheduled)
        if batch.num_tokens == 1:
            self._step_length.observe(count, seconds)
        if self._speculation is not None:
            self._speculation.observe(batch, seconds / count)

    def commit(self, share: ScheduledSequence, num_accepted: int) -> None:
        """Note that a share's tokens and ``num_accepted`` after them, proposed or ahead, are in the KV cache."""
        sequence = share.sequence
        assert sequence.table is not None, "a computed sequence has blocks"
        start, num_known = (
            sequence.num_computed_tokens,
            max(sequence.num_prompt_tokens, sequence.num_reached_tokens),
        )
        sequence.num_read_tokens += max(0, min(start + share.num_scheduled_tokens, num_known) - start)
        sequence.num_computed_tokens += share.num_scheduled_tokens + num_accepted
        sequence.num_reached_tokens = max(sequence.num_reached_tokens, sequence.num_computed_tokens)
        sequence.num_proposed_tokens += len(share.proposed)
        sequence.num_accepted_tokens += min(num_accepted, len(share.proposed))
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
            sequence.table = self._kv_cache.acquire(sequence.token_ids, _num_unwatched(sequence, limit))
            sequence.num_computed_tokens = sequence.table.num_reused_tokens
            sequence.known_logits = logits if sequence.num_missing_tokens == 0 else None
            sequence.state = SequenceState.RUNNING
            if self._states is not None:
                self._states.enter(sequence)
            self._running.append(sequence)
            is_first = sequence.num_reused_tokens is None
            num_known = min(sequence.num_computed_tokens, sequence.num_prompt_tokens)
            num_gained = max(0, num_known - sequence.num_reached_tokens)
            sequence.num_reused_tokens = (sequence.num_reused_tokens or 0) + num_gained
            sequence.num_reached_tokens += num_gained
            if is_first:
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


def _num_unwatched(sequence: Sequence, limit: int) -> int:
    """Of the first ``limit`` tokens those that may come from the cache, since nobody wants their logits."""
    probe = sequence.probe
    if probe is None:
        return limit
    return bisect_left(range(1, limit + 1), True, key=lambda end: probe.wants(0, end))


def _is_reading(sequence: Sequence) -> bool:
    """Whether its missing tokens are read in chunks."""
    return sequence.num_missing_tokens > 0 and not sequence.is_generating


def _chunk(sequence: Sequence, room: int, budget: int) -> int:
    """How many of its missing tokens a sequence reads in a chunk that has ``room`` for so many.

    All of them, also where that is a quarter too many but in the ``budget``; else its part of equal ones, which end
    where blocks do, so that not just a few are left.
    """
    start, missing = sequence.num_computed_tokens, sequence.num_missing_tokens
    if missing <= min(room + room // 4, budget):
        return missing
    end = start + min(room, budget)
    part_end = start - (-missing // -(-missing // room))
    for aligned in (part_end + -part_end % BLOCK_SIZE, end - end % BLOCK_SIZE):
        if start < aligned <= end:
            return aligned - start
    return end - start


def _stream_ratio(streams: list[Sequence], readers: list[Sequence]) -> float:
    """How much slower ``streams`` may be for the first of ``readers``."""
    if not streams or not readers or readers[0].priority <= max(each.priority for each in streams):
        return RATIO
    num_to_read = readers[0].num_prompt_tokens - (readers[0].num_reused_tokens or 0)
    return URGENT_RATIO if num_to_read <= SHORT_PROMPT else RATIO


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
