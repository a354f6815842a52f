"""The engine: token ids in, token ids out, one step at a time.

It owns a backend, its KV cache and the scheduler, and knows nothing of text, templates, files, threads or events.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.cache.kv_cache import KVCache
from engine.cache.prompt_logits import PromptLogits
from engine.errors import ContextOverflowError, GenerationError, InvalidParameterError
from engine.kernels.backend import Backend
from engine.protocol import FinishReason
from engine.scheduler.batch import Batch
from engine.scheduler.scheduler import Scheduler
from engine.scheduler.sequence import Sequence, SequenceState


@dataclass(frozen=True)
class StepOutput:
    """What a step brought one sequence.

    Attributes:
        sequence: after the step; finished when it has a ``finish_reason`` or there is an ``error``.
        token_id: the new token; None while its prompt is being read, or with an error.
        error: why it ended.
    """

    sequence: Sequence
    token_id: int | None
    error: GenerationError | None = None


class Engine:
    """Generates tokens for any number of sequences at once.

    ``on_admitted`` is called with a sequence when it first gets room in the KV cache. Not thread-safe.

    Attributes:
        context_length: tokens of a sequence at most, prompt and completion.
        kv_cache: its counters and its integrity check.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        num_blocks: int,
        context_length: int,
        on_admitted: Callable[[Sequence], None] = lambda sequence: None,
    ) -> None:
        self._backend = backend
        self.context_length = context_length
        self.kv_cache = KVCache(num_blocks, backend.copy_block)
        self._prompt_logits = PromptLogits()
        self._scheduler = Scheduler(self.kv_cache, backend.max_batch_tokens, on_admitted, self._prompt_logits)

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
        if sequence.num_prompt_tokens >= self.context_length:
            raise ContextOverflowError(sequence.num_prompt_tokens + 1, self.context_length)
        self._scheduler.add(sequence)

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """End ``sequence`` between steps, keeping what it computed; nothing happens when it has ended."""
        self._scheduler.finish(sequence, reason)

    def step(self) -> list[StepOutput]:
        """Advance the sequences by one batch; one output for each sequence that took part."""
        batch = self._scheduler.schedule()
        try:
            logits = self._run(batch)
        except Exception as error:
            return self._fail(batch, error)
        choices = self._sample(batch, logits)
        return self._commit(batch, choices)

    def close(self) -> None:
        """Free the backend; the engine is of no use afterwards."""
        self._backend.close()

    def _run(self, batch: Batch) -> npt.NDArray[np.float32]:
        """Logits of the shares that are computed and sampled, (rows, vocab_size)."""
        slices = [share.slice() for share in batch.scheduled if share.num_scheduled_tokens > 0]
        if not slices:
            return np.empty((0, 0), dtype=np.float32)
        started = time.perf_counter()
        logits = self._backend.run(slices)
        self._scheduler.observe(batch, time.perf_counter() - started)
        return logits

    def _sample(self, batch: Batch, logits: npt.NDArray[np.float32]) -> list[int | GenerationError | None]:
        """The next token of each share, None where its prompt is not read to the end yet."""
        rows = iter(logits)
        choices: list[int | GenerationError | None] = []
        for share in batch.scheduled:
            if not share.is_sampled:
                choices.append(None)
                continue
            sequence = share.sequence
            row = next(rows) if share.num_scheduled_tokens > 0 else sequence.known_logits
            assert row is not None, "a sequence that misses no token has its logits"
            try:
                choices.append(sequence.sampler.sample(row, sequence.token_ids))
            except GenerationError as error:
                choices.append(error)
                continue
            if sequence.num_completion_tokens == 0 and row is not sequence.known_logits:
                self._prompt_logits.put(sequence.token_ids, row)
        return choices

    def _commit(self, batch: Batch, choices: list[int | GenerationError | None]) -> list[StepOutput]:
        """Append the new tokens, and end the sequences that are complete."""
        outputs = []
        for share, choice in zip(batch.scheduled, choices, strict=True):
            sequence = share.sequence
            if isinstance(choice, GenerationError):
                self._scheduler.fail(sequence)
                outputs.append(StepOutput(sequence, None, choice))
                continue
            self._scheduler.commit(sequence, share.num_scheduled_tokens)
            if choice is not None:
                sequence.token_ids.append(choice)
                reason = self._finish_reason(sequence)
                if reason is not None:
                    self._scheduler.finish(sequence, reason)
            outputs.append(StepOutput(sequence, choice))
        return outputs

    def _finish_reason(self, sequence: Sequence) -> FinishReason | None:
        if sequence.token_ids[-1] in sequence.end_token_ids:
            return FinishReason.STOP
        if sequence.num_completion_tokens >= sequence.max_tokens:
            return FinishReason.LENGTH
        return FinishReason.CONTEXT if sequence.num_tokens >= self.context_length else None

    def _fail(self, batch: Batch, cause: Exception) -> list[StepOutput]:
        """End every sequence of a batch that the backend could not run."""
        error = GenerationError(f"The model could not be run ({cause}); try again, or load the model anew.")
        error.__cause__ = cause
        for share in batch.scheduled:
            self._scheduler.fail(share.sequence)
        return [StepOutput(share.sequence, None, error) for share in batch.scheduled]


__all__ = ["Engine", "Sequence", "SequenceState", "StepOutput"]
