"""The engine: token ids in, token ids out, one step at a time.

It owns a backend, its KV cache and the scheduler, and knows nothing of text, templates, files, threads or events.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Shares
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.cache.checkpoints import DEFAULT_MAX_BYTES
from engine.cache.kv_cache import KVCache
from engine.cache.prompt_logits import PromptLogits
from engine.decoding import Extension, Ranking, extend
from engine.errors import ContextOverflowError, GenerationError, InvalidParameterError, ModelFileError
from engine.kernels.backend import Backend, RunAhead, SequenceSlice, StepInterruptedError
from engine.protocol import FinishReason
from engine.scheduler.batch import Batch, ScheduledSequence
from engine.scheduler.recurrent_states import RecurrentStates
from engine.scheduler.scheduler import Scheduler
from engine.scheduler.sequence import Sequence, SequenceState
from engine.scheduler.speculation import Speculation


@dataclass(frozen=True)
class StepOutput:
    """What a step brought one sequence.

    Attributes:
        sequence: after the step; finished when it has a ``finish_reason`` or there is an ``error``.
        token_ids: the new tokens, none while its prompt is being read.
        num_forced: how many of them a constraint forced.
        error: why it ended after them.
        rankings: of each token, where the sequence wants them; see ``Extension``.
    """

    sequence: Sequence
    token_ids: tuple[int, ...] = ()
    num_forced: int = 0
    error: GenerationError | None = None
    rankings: tuple[Ranking | None, ...] = ()


class Engine:
    """Generates tokens for any number of sequences at once.

    ``on_admitted`` is called with a sequence when it first gets room in the KV cache. With ``speculates`` steps
    verify proposed tokens where that makes more tokens a second; the tokens are the same. ``checkpoint_bytes``
    bounds the recurrent states that are kept. Not thread-safe.

    Attributes:
        context_length: tokens of a sequence at most, prompt and completion.
        kv_cache: its counters and its integrity check.
        prompt_logits: of the last few prompts.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        num_blocks: int,
        context_length: int,
        on_admitted: Callable[[Sequence], None] = lambda sequence: None,
        speculates: bool = False,
        checkpoint_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self._backend = backend
        self._running: Shares[ScheduledSequence] = ()  # of the step
        self._stops: deque[str | None] = deque(maxlen=8)  # that are to interrupt a step, or the next one
        self.context_length = context_length
        has_states = backend.state_bytes > 0
        self.kv_cache = KVCache(
            num_blocks,
            backend.copy_block,
            needs_checkpoints=has_states,
            max_checkpoint_bytes=checkpoint_bytes,
        )
        self.prompt_logits = PromptLogits()
        self._scheduler = Scheduler(
            self.kv_cache,
            backend.max_batch_tokens,
            context_length,
            on_admitted,
            self.prompt_logits,
            # A state that has seen a wrong token cannot be taken back.
            Speculation() if speculates and not has_states else None,
            RecurrentStates(backend, self.kv_cache) if has_states else None,
            backend.max_ahead_tokens,
        )

    @property
    def has_work(self) -> bool:
        return self._scheduler.has_work

    def add(self, sequence: Sequence) -> None:
        """Queue ``sequence``.

        Raises ContextOverflowError when its prompt leaves no room for an answer, InvalidParameterError when the
        prompt is empty.
        """
        if sequence.num_prompt_tokens == 0:
            raise InvalidParameterError("The prompt is empty; write something first.")
        if sequence.num_tokens >= self.context_length:
            raise ContextOverflowError(sequence.num_tokens + 1, self.context_length)
        self._scheduler.add(sequence)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End ``sequence`` between steps, keeping what it computed; nothing happens when it has ended."""
        self._scheduler.finish(sequence, reason)

    def interrupt(self, request_id: str | None = None) -> None:
        """End the step early in which that request is computed, or any; from any thread.

        For a request that is about to be ended, or all of them. Its sequences have its id, or one that begins with
        it and a NUL. Recurrent states cannot be taken back, so a step that changes some is not interrupted.
        """
        self._stops.append(request_id)
        if self._is_interrupted:
            self._backend.interrupt()

    def lend_core(self, is_lent: bool) -> None:
        """See ``Backend.lend_core``."""
        self._backend.lend_core(is_lent)

    @property
    def _is_interrupted(self) -> bool:
        stops, running = list(self._stops), self._running
        if not stops or not running or self._backend.state_bytes > 0:
            return False
        running_ids = {share.sequence.request_id.partition("\0")[0] for share in running}
        return any(stop is None or stop in running_ids for stop in stops)

    def step(self) -> list[StepOutput]:
        """Advance the sequences by one batch; one output for each sequence that took part.

        No output comes from a step that was interrupted: the next one computes the same again. Raises
        ModelFileError where the weights could not be read, or not for sure; the engine is then of no use.
        """
        batch = self._scheduler.schedule()
        try:
            logits = self._run(batch)
        except StepInterruptedError:
            self._stops.clear()
            return []
        except ModelFileError:  # concerns more than this batch: nothing can be computed any more
            raise
        except Exception as error:
            return self._fail(batch, error)
        extensions = self._sample(batch, logits)
        return self._commit(batch, extensions)

    def close(self) -> None:
        """Free the backend; the engine is of no use afterwards."""
        self._backend.close()

    def _run(self, batch: Batch) -> npt.NDArray[np.float32]:
        """Logits of the shares that are computed and sampled, (rows, vocab_size)."""
        slices: list[SequenceSlice] = []
        for share in batch.scheduled:
            if share.is_sampled and share.sequence.constraint is not None:
                share.sequence.constraint.prepare()
            slices += share.slices()
        if not slices:
            return np.empty((0, 0), dtype=np.float32)
        started = time.perf_counter()
        self._running = batch.scheduled
        try:
            if self._is_interrupted:  # since the last look at the commands
                raise StepInterruptedError
            ahead = self._ahead_of(batch.scheduled[0])
            logits = self._backend.run(slices, ahead)
        finally:
            self._running = ()
        if ahead is not None:
            batch.scheduled[0].ahead = ahead.token_ids
            batch.scheduled[0].sequence.sampler.note_ahead(ahead)
        self._scheduler.observe(batch, time.perf_counter() - started)
        return logits

    def _ahead_of(self, share: ScheduledSequence) -> RunAhead | None:
        """What the backend may go on with by itself after a share."""
        if share.num_ahead == 0:
            return None
        sequence = share.sequence
        return sequence.sampler.run_ahead(share.num_ahead, sequence.end_token_ids, self._backend.vocab_size)

    def _sample(self, batch: Batch, logits: npt.NDArray[np.float32]) -> list[Extension]:
        """The tokens that follow in each share's sequence, none where its prompt is not read to the end yet."""
        extensions = []
        end = 0
        for share in batch.scheduled:
            start, end = end, end + share.num_logits
            sequence, rows = share.sequence, logits[start:end]
            if sequence.known_logits is not None:
                rows, sequence.known_logits = sequence.known_logits[np.newaxis], None
            elif share.is_sampled and sequence.num_completion_tokens == 0:
                self.prompt_logits.put(sequence.token_ids, rows[-1 - len(share.proposed)])
            if share.is_sampled:
                choosing = rows[-1 - len(share.proposed) :]
                extensions.append(extend(sequence, choosing, share.proposed, self.context_length, share.ahead))
            else:
                extensions.append(Extension())
            if sequence.probe is not None and len(rows) > 0:
                num_wrong = len(share.proposed) - extensions[-1].num_accepted
                first = sequence.num_computed_tokens + share.num_tokens - len(rows)
                sequence.probe.see(sequence.token_ids, first, rows[: len(rows) - num_wrong])
        return extensions

    def _commit(self, batch: Batch, extensions: list[Extension]) -> list[StepOutput]:
        """Keep what was computed of each sequence, and end those that are complete."""
        outputs = []
        for share, new in zip(batch.scheduled, extensions, strict=True):
            if new.error is not None:
                self._scheduler.fail(share.sequence)
            else:
                self._scheduler.commit(share, new.num_accepted)
                share.sequence.num_forced_tokens += new.num_forced
                if share.sequence.max_tokens == 0 and share.sequence.num_missing_tokens == 0:
                    new.reason = FinishReason.LENGTH
                if new.reason is not None:
                    self._scheduler.finish(share.sequence, new.reason)
            token_ids, rankings = tuple(new.token_ids), tuple(new.rankings[: len(new.token_ids)])
            outputs.append(StepOutput(share.sequence, token_ids, new.num_forced, new.error, rankings))
        return outputs

    def _fail(self, batch: Batch, cause: Exception) -> list[StepOutput]:
        """End every sequence of a batch that the backend could not run."""
        error = GenerationError(f"The model could not be run ({cause}); try again, or load the model anew.")
        error.__cause__ = cause
        for share in batch.scheduled:
            self._scheduler.fail(share.sequence)
        return [StepOutput(share.sequence, error=error) for share in batch.scheduled]


__all__ = ["Engine", "Sequence", "SequenceState", "StepOutput"]
