"""One attention layer on the CPU backend beside the reference, for tests and the fuzzer."""

from __future__ import annotations

import numpy as np

from engine.config import KVType
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import CpuBackend
from engine.kernels.definitions import attend, round_q8_0
from engine.model.plan import Attention, Buffer, KVLayer, WriteKV
from tests.engine.kernels.cpu.support import Floats, fill, plan_of

NUM_BLOCKS = 160
TOLERANCE = 2e-3


class Layer:
    """One attention layer on the CPU backend, and what the reference makes of the same numbers."""

    def __init__(
        self,
        heads: int,
        kv_heads: int,
        key_dim: int,
        value_dim: int,
        num_threads: int = 2,
        kv_type: KVType = "f16",
        **options,
    ) -> None:
        self.heads, self.kv = heads, KVLayer(kv_heads, key_dim, value_dim)
        self.query = Buffer("query", heads * key_dim)
        self.key, self.value = Buffer("key", kv_heads * key_dim), Buffer("value", kv_heads * value_dim)
        self.out = Buffer("out", heads * value_dim)
        self.op = Attention(0, self.query, self.out, heads, 1.7 / key_dim**0.5, **options)
        plan = plan_of([WriteKV(0, self.key, self.value), self.op], self.out, [self.kv])
        self.kv_type = kv_type
        self.backend = CpuBackend(
            plan, num_blocks=NUM_BLOCKS, max_batch_tokens=2048, num_threads=num_threads, kv_type=kv_type
        )
        self.rng = np.random.default_rng(heads * 1000 + key_dim)
        self.keys: dict[int, Floats] = {}
        self.values: dict[int, Floats] = {}

    def step(self, parts: list[tuple[int, int, int, np.ndarray]], is_prompt: bool = False) -> None:
        """Each part is (sequence, start, count, block table): run all in one step, as the reference does."""
        total = sum(count for _, _, count, _ in parts)
        query, key, value = (
            self.rng.standard_normal((total, b.width), np.float32) for b in (self.query, self.key, self.value)
        )
        result = self.run(query, key, value, parts, is_prompt)
        row = 0
        for sequence, start, count, _ in parts:
            rows = slice(row, row + count)
            expected = self.expect(sequence, start, query[rows], key[rows], value[rows])
            np.testing.assert_allclose(result[rows], expected, rtol=TOLERANCE, atol=TOLERANCE)
            row += count

    def run(
        self,
        query: Floats,
        key: Floats,
        value: Floats,
        parts: list[tuple[int, int, int, np.ndarray]],
        is_prompt: bool = False,
    ) -> Floats:
        """What the backend makes of these rows; the array is overwritten by the next call."""
        fill(self.backend, {self.query: query, self.key: key, self.value: value})
        slices = [
            SequenceSlice(np.zeros(n, np.int32), start, table, "all", is_prompt=is_prompt)
            for _, start, n, table in parts
        ]
        return self.backend.run(slices)

    def expect(self, sequence: int, start: int, query: Floats, key: Floats, value: Floats) -> Floats:
        """What the reference makes of a sequence's next rows."""
        return attend(query, *self._extend(sequence, start, key, value), start, self.op)

    def _extend(self, sequence: int, start: int, key: Floats, value: Floats) -> tuple[Floats, Floats]:
        def extend(store: dict[int, Floats], rows: Floats, dim: int) -> Floats:
            rows = rows.reshape(len(rows), -1, dim)
            rows = round_q8_0(rows) if self.kv_type == "q8_0" else rows.astype(np.float16).astype(np.float32)
            old = store.get(sequence, rows[:0])[:start]
            store[sequence] = np.concatenate([old, rows])
            return store[sequence]

        return extend(self.keys, key, self.kv.key_dim), extend(self.values, value, self.kv.value_dim)


def block_table(seed: int, count: int) -> np.ndarray:
    """Different blocks out of order."""
    return np.random.default_rng(seed).permutation(NUM_BLOCKS)[:count].astype(np.int32)
