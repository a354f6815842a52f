"""Our engine in a worker process: the plan and its backend, without tokenizer, sampler or scheduler."""

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
        self._token_ids = random_token_ids(hyperparameters.vocab_size, num_tokens)
        # Ascending and in one piece, as the block pool gives them to a conversation that starts in an empty cache.
        self._block_table = np.arange(self._num_blocks, dtype=np.int32)
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
        next_id = self._run(1)
        started = time.perf_counter()
        for _ in range(num_tokens):
            self._token_ids[self._depth] = next_id
            next_id = self._run(1)
        return time.perf_counter() - started

    def decode_streams(self, num_tokens: int, num_streams: int) -> float:
        """Seconds to compute ``num_tokens`` of each of ``num_streams`` sequences, one token of each a step."""
        length = self._num_blocks // num_streams
        tables = self._block_table[: length * num_streams].reshape(num_streams, length)
        ids = self._token_ids[: num_streams * STREAM_PROMPT].reshape(num_streams, STREAM_PROMPT)
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

    def _run(self, num_tokens: int) -> int:
        end = self._depth + num_tokens
        part = SequenceSlice(
            self._token_ids[self._depth : end], self._depth, self._block_table[: -(-end // BLOCK_SIZE)], "last"
        )
        logits = self._backend.run([part])
        self._depth = end
        self._deepest = max(self._deepest, end)
        return int(logits[0].argmax())


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
