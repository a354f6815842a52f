"""Runs single ops of a plan on the CPU backend, with chosen contents of the buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from engine.gguf.tensor_types import TensorType
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu.backend import CpuBackend
from engine.model.plan import Buffer, KVLayer, Op, Plan, SelectRows, Tensor

Floats = npt.NDArray[np.float32]


def vector(values: Floats, name: str = "vector") -> Tensor:
    return Tensor(
        name, TensorType.F32, values.shape, np.ascontiguousarray(values, np.float32).view(np.uint8).ravel()
    )


def plan_of(ops: Sequence[Op], result: Buffer, kv_layers: Sequence[KVLayer] = ()) -> Plan:
    """A plan of some ops whose logits are the rows of ``result``."""
    logits = Buffer("logits", result.width, "logits") if result.rows == "tokens" else result
    ops = [*ops, SelectRows(result, logits)] if result.rows == "tokens" else list(ops)
    return Plan(tuple(ops), (result, logits), tuple(kv_layers), logits, 1 << 20)


def fill(backend: CpuBackend, values: Mapping[Buffer, Floats]) -> None:
    for buffer, rows in values.items():
        backend._memory.rows(buffer, len(rows))[:] = rows


def tokens(count: int, start: int = 0, table: Sequence[int] = (), logits: str = "all") -> SequenceSlice:
    blocks = table or range(-(-(start + count) // 16))
    return SequenceSlice(np.zeros(count, np.int32), start, np.array(blocks, np.int32), logits)


def run_ops(ops: Sequence[Op], result: Buffer, values: Mapping[Buffer, Floats], num_threads: int = 2) -> Floats:
    """Rows of ``result`` after the ops ran on buffers that held ``values``."""
    count = len(next(iter(values.values())))
    backend = CpuBackend(plan_of(ops, result), num_blocks=16, max_batch_tokens=64, num_threads=num_threads)
    try:
        backend._make_room(64) if result.rows == "logits" else None
        fill(backend, values)
        return backend.run([tokens(count)]).copy()
    finally:
        backend.close()
