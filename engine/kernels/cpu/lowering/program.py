"""A program under construction: its rows, what each touches, and where threads must wait for each other.

Threads wait only where an op touches what another thread wrote: ops that share out rows in the same way
(``shares_rows``) follow each other without a wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.kernels.cpu.control import NUM_OPERANDS, ROW_KERNEL, ROW_OPERANDS, ROW_SLOTS, ROW_WAITS
from engine.kernels.cpu.formats import ActivationFormat
from engine.kernels.cpu.jit import Kernel, KernelSource
from engine.kernels.cpu.kv_store import KVStore
from engine.kernels.cpu.memory import Memory
from engine.kernels.cpu.step_state import ROWS_LOGITS, ROWS_PAIRS, ROWS_TOKENS
from engine.model.plan import Buffer, Plan

Operands = dict[int, int | float]


@dataclass(frozen=True)
class LoweredOp:
    """One row of a program.

    Attributes:
        source: its kernel. operands: by slot; a float stands for the bits of a float32. reads, writes: what it
        touches that other ops touch. shares_rows: the rows that threads share out by ``rows.first_row``, "tokens",
        "logits" or "pairs"; None for other ways. replaces: what may lie in the memory that it writes.
    """

    source: KernelSource
    operands: Operands
    reads: frozenset[object]
    writes: frozenset[object]
    shares_rows: str | None = None
    replaces: frozenset[object] = frozenset()


class Program:
    """The rows so far, and what the lowerings of single ops need to make more.

    Attributes:
        plan: what is lowered.
        memory: makes buffers and tables.
        kv_store: keys and values.
        ops: the rows, in order.
        angles: address of a rope table's angles, by the table's ``id``.
        num_experts: of the last choice.
    """

    def __init__(self, plan: Plan, memory: Memory, kv_store: KVStore, others: Mapping[Any, frozenset[Any]]) -> None:
        """``others`` lie in the memory of a buffer, see ``sharing``."""
        self.plan = plan
        self.memory = memory
        self.kv_store = kv_store
        self.ops: list[LoweredOp] = []
        self.angles: dict[int, int] = {}
        self.num_experts = 0
        self._others = others
        self._num_counters = 0
        self._quantized: dict[object, set[ActivationFormat]] = {}  # buffers that are as they are now

    def emit(
        self,
        source: KernelSource,
        operands: Operands,
        reads: Iterable[object],
        writes: Iterable[object],
        shares_rows: str | None = None,
    ) -> None:
        """Append a row; what it writes is no longer quantised."""
        written = frozenset(writes)
        replaces = frozenset(other for each in written for other in self._others.get(each, ()))
        self.ops.append(LoweredOp(source, operands, frozenset(reads), written, shares_rows, replaces))
        for each in written:
            self._quantized.pop(each, None)

    def is_quantized(self, buffer: Buffer, form: ActivationFormat) -> bool:
        """Whether the buffer is quantised in that format as it is now."""
        return form in self._quantized.get(buffer, ())

    def note_quantized(self, buffer: Buffer, form: ActivationFormat) -> None:
        """The last row quantised the buffer."""
        self._quantized.setdefault(buffer, set()).add(form)

    def counter(self) -> int:
        """Address of an int64 of its own, which is 0 when a step begins."""
        self._num_counters += 1
        return self.memory.counter(self._num_counters - 1)


def rows_kind(buffer: Buffer) -> int:
    """The rows-kind operand of an op on that buffer."""
    return {"tokens": ROWS_TOKENS, "logits": ROWS_LOGITS, "pairs": ROWS_PAIRS}[buffer.rows]


def assemble(ops: Sequence[LoweredOp], kernels: dict[KernelSource, Kernel]) -> npt.NDArray[np.int64]:
    """The program as a backend runs it, (ops, ROW_SLOTS) int64."""
    rows = [[0] * ROW_SLOTS for _ in ops]
    since_wait: list[LoweredOp] = []
    for row, op in zip(rows, ops):
        row[ROW_KERNEL] = kernels[op.source].address
        if any(_must_wait(op, earlier) for earlier in since_wait):
            row[ROW_WAITS] = 1
            since_wait.clear()
        since_wait.append(op)
        for slot, value in op.operands.items():
            if slot >= NUM_OPERANDS:
                raise ValueError(f"{op.source.name} has more operands than a row holds")
            row[ROW_OPERANDS + slot] = _float_bits(value) if isinstance(value, float) else int(value)
    return np.array(rows, np.int64).reshape(len(rows), ROW_SLOTS)


def _float_bits(value: float) -> int:
    return int(np.float32(value).view(np.int32))


def _must_wait(op: LoweredOp, earlier: LoweredOp) -> bool:
    if op.replaces & (earlier.reads | earlier.writes):
        return True
    if op.shares_rows is not None and op.shares_rows == earlier.shares_rows:
        return False
    return bool(earlier.writes & (op.reads | op.writes) or earlier.reads & op.writes)
