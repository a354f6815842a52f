"""Our engine in a worker process: the plan, its backend and the sampler, without tokenizer or scheduler."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.bench.token_ids import random_token_ids
from engine.config import KVType
from engine.gguf import open_model
from engine.kernels.backend import Backend, SequenceSlice
from engine.model import load_plan
from engine.model.plan import BLOCK_SIZE, Plan
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.step_length import StepLength

MAX_BATCH_TOKENS = 512
STREAM_PROMPT = 16  # tokens of each of several sequences before it is decoded
_WARM_UP_TOKENS = 33  # more than decode's kernels take, so that prefill's buffers are touched, too


class OwnRunner:
    """One sequence on one backend."""

    def __init__(
        self, path: Path, *, backend: str, num_threads: int, num_tokens: int, kv_type: KVType = "f16"
    ) -> None:
        """``num_tokens`` bounds what the sequence may hold."""
        self._file = open_model(path)
        hyperparameters, plan = load_plan(self._file, num_tokens)
        self._num_blocks = -(-num_tokens // BLOCK_SIZE)
        self._backend = _make_backend(plan, backend, self._num_blocks, num_threads, kv_type)
        self._has_kernels = backend == "cpu"
        self._kv_bytes: int = getattr(self._backend, "kv_bytes", 0)
        self._token_ids: list[int] = random_token_ids(hyperparameters.vocab_size, num_tokens).tolist()
        # Ascending and in one piece, as the block pool gives them to a conversation that starts in an empty cache.
        self._block_table = list(range(self._num_blocks))
        self._sampler = Sampler(SamplingParams(temperature=0))
        self._step_length = StepLength(0 if self._backend.state_bytes else self._backend.max_ahead_tokens)
        self._depth = 0
        self._deepest = 0
        self.prefill(min(_WARM_UP_TOKENS, num_tokens))

    def prefill(self, num_tokens: int) -> float:
        """Seconds to compute ``num_tokens`` from an empty sequence, logits of the last included."""
        self._depth = 0
        started = time.perf_counter()
        self.fill(num_tokens)
        return time.perf_counter() - started

    def fill(self, depth: int) -> None:
        """Compute the sequence up to ``depth`` tokens, keeping what it has."""
        while self._depth < depth:
            self._run(min(self._backend.max_batch_tokens, depth - self._depth))

    def decode(self, num_tokens: int, depth: int) -> float:
        """Seconds to compute ``num_tokens`` greedily one by one, the sequence having ``depth`` tokens or more."""
        if depth == 0:
            self._depth = 0
        self.fill(max(depth, 1))
        self._choose(self._run(1))
        end = self._depth + num_tokens
        started = time.perf_counter()
        while self._depth < end:
            self._choose(self._go_on(end - self._depth))
        return time.perf_counter() - started

    def decode_streams(self, num_tokens: int, num_streams: int) -> float:
        """Seconds to compute ``num_tokens`` of each of ``num_streams`` sequences, one token of each a step."""
        length = self._num_blocks // num_streams
        tables = np.arange(length * num_streams, dtype=np.int32).reshape(num_streams, length)
        ids = np.array(self._token_ids[: num_streams * STREAM_PROMPT], np.int32).reshape(num_streams, STREAM_PROMPT)
        num_states = max(1, self._backend.num_states)

        def step(token_ids: npt.NDArray[np.int32], start: int) -> npt.NDArray[np.int32]:
            parts = [
                SequenceSlice(own, start, table, "last", index % num_states)
                for index, (own, table) in enumerate(zip(token_ids, tables))
            ]
            ids: npt.NDArray[np.int32] = self._backend.run(parts).argmax(axis=1).astype(np.int32)
            return ids

        chosen = step(ids, 0)
        started = time.perf_counter()
        for start in range(STREAM_PROMPT, STREAM_PROMPT + num_tokens):
            chosen = step(chosen[:, None], start)
        seconds = time.perf_counter() - started
        self._depth = 0  # its blocks were overwritten
        self._deepest = max(self._deepest, num_streams * (STREAM_PROMPT + num_tokens))
        return seconds

    def facts(self) -> dict[str, Any]:
        """Bytes of KV cache that have held tokens, and the instruction set of the kernels."""
        num_used = -(-self._deepest // BLOCK_SIZE)
        facts: dict[str, Any] = {"kv_bytes": self._kv_bytes * num_used // self._num_blocks}
        if self._has_kernels:
            from engine.kernels.cpu.isa import ISA

            facts["instruction_set"] = ISA.value
        return facts

    def close(self) -> None:
        """End the backend's threads and let go of the file."""
        self._backend.close()
        self._file.close()

    def _run(self, num_tokens: int) -> npt.NDArray[np.float32]:
        """Logits after the next tokens of the sequence."""
        end = self._depth + num_tokens
        logits = self._backend.run([self._part(num_tokens, end)])
        self._depth = end
        self._deepest = max(self._deepest, end)
        row: npt.NDArray[np.float32] = logits[0]
        return row

    def _go_on(self, limit: int) -> npt.NDArray[np.float32]:
        """As many tokens as the engine lets follow each other, ``limit`` at most; logits after the last."""
        num_ahead = min(self._step_length.num_ahead, limit - 1)
        begun, start = time.perf_counter(), self._depth
        if num_ahead == 0:
            logits = self._run(1)
        else:
            ahead = self._sampler.run_ahead(num_ahead, frozenset(), self._backend.vocab_size)
            logits = self._backend.run([self._part(1, start + 1 + num_ahead)], ahead)[0]
            self._sampler.note_ahead(ahead)
            self._depth += 1 + len(ahead.token_ids)
            self._token_ids[start + 1 : self._depth] = ahead.token_ids
            self._deepest = max(self._deepest, self._depth)
        self._step_length.observe(self._depth - start, time.perf_counter() - begun)
        return logits

    def _part(self, num_tokens: int, end: int) -> SequenceSlice:
        """The next tokens, with blocks for positions below ``end``."""
        own = self._token_ids[self._depth : self._depth + num_tokens]
        return SequenceSlice(own, self._depth, self._block_table[: -(-end // BLOCK_SIZE)], "last")

    def _choose(self, logits: npt.NDArray[np.float32]) -> None:
        """Let the sequence go on with the likeliest token."""
        self._token_ids[self._depth : self._depth + 1] = [self._sampler.sample(logits, ())]


def _make_backend(plan: Plan, backend: str, num_blocks: int, num_threads: int, kv_type: KVType) -> Backend:
    if backend == "reference":
        from engine.kernels.reference import ReferenceBackend, ReferenceKVType

        reference_type: ReferenceKVType = "f32" if kv_type == "f16" else kv_type
        return ReferenceBackend(
            plan, num_blocks=num_blocks, max_batch_tokens=MAX_BATCH_TOKENS, kv_type=reference_type
        )
    from engine.kernels.cpu import CpuBackend

    return CpuBackend(
        plan, num_blocks=num_blocks, max_batch_tokens=MAX_BATCH_TOKENS, num_threads=num_threads, kv_type=kv_type
    )
