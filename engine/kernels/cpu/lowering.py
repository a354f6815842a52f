"""From a plan to a program: which kernels run in which order on which addresses.

Fuses where it saves a pass: a residual add goes into the matmul or the norm before it, and rows are quantised
once for all matmuls that read them. Threads wait for each other only where an op touches what another thread
wrote: ops that share out rows in the same way (``shares_rows``) follow each other without a wait. It knows the
meaning of operands and nothing of architectures or threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.kernels.cpu import layouts as slots
from engine.kernels.cpu import operands as weights
from engine.kernels.cpu.control import NUM_OPERANDS, ROW_KERNEL, ROW_OPERANDS, ROW_SLOTS, ROW_WAITS
from engine.kernels.cpu.formats import ActivationFormat, activation_format
from engine.kernels.cpu.jit import Kernel, KernelSource
from engine.kernels.cpu.kv_store import KVStore
from engine.kernels.cpu.memory import Memory
from engine.kernels.cpu.step_state import ROWS_LOGITS, ROWS_TOKENS
from engine.model.plan import (
    Activation,
    Add,
    Attention,
    Buffer,
    Embed,
    GatedActivation,
    MatMul,
    Op,
    Plan,
    RmsNorm,
    Rope,
    RopeTable,
    SelectRows,
    SoftCap,
    WriteKV,
)

_GATED = {Activation.SILU: "silu_gated", Activation.GELU: "gelu_gated"}


@dataclass(frozen=True)
class LoweredOp:
    """One row of a program.

    Attributes:
        source: its kernel. operands: by slot; a float stands for the bits of a float32. reads, writes: what it
        touches that other ops touch. shares_rows: the rows that threads share out by ``rows.first_row``, "tokens"
        or "logits"; None for other ways.
    """

    source: KernelSource
    operands: dict[int, int | float]
    reads: frozenset[object]
    writes: frozenset[object]
    shares_rows: str | None = None


def lower(plan: Plan, memory: Memory, kv_store: KVStore) -> list[LoweredOp]:
    """The plan's ops as rows; buffers and tables are made in ``memory``."""
    return _Lowering(plan, memory, kv_store).lower()


def assemble(ops: list[LoweredOp], kernels: dict[KernelSource, Kernel]) -> npt.NDArray[np.int64]:
    """The program, (ops, ROW_SLOTS) int64."""
    program = np.zeros((len(ops), ROW_SLOTS), np.int64)
    since_wait: list[LoweredOp] = []
    for row, op in zip(program, ops):
        row[ROW_KERNEL] = kernels[op.source].address
        if any(_must_wait(op, earlier) for earlier in since_wait):
            row[ROW_WAITS] = 1
            since_wait.clear()
        since_wait.append(op)
        for slot, value in op.operands.items():
            if slot >= NUM_OPERANDS:
                raise ValueError(f"{op.source.name} has more operands than a row holds")
            row[ROW_OPERANDS + slot] = np.float32(value).view(np.int32) if isinstance(value, float) else value
    return program


def _must_wait(op: LoweredOp, earlier: LoweredOp) -> bool:
    if op.shares_rows is not None and op.shares_rows == earlier.shares_rows:
        return False
    return bool(earlier.writes & (op.reads | op.writes) or earlier.reads & op.writes)


class _Lowering:
    """One pass over a plan."""

    def __init__(self, plan: Plan, memory: Memory, kv_store: KVStore) -> None:
        self._plan = plan
        self._memory = memory
        self._kv_store = kv_store
        self._rows: list[LoweredOp] = []
        self._quantized: set[tuple[Buffer, ActivationFormat]] = set()
        self._angles: dict[int, int] = {}
        self._num_counters = 0

    def lower(self) -> list[LoweredOp]:
        for op in self._plan.ops:
            if isinstance(op, Rope):
                self._prepare_angles(op.table)
        ops = list(self._plan.ops)
        index = 0
        while index < len(ops):
            op = ops[index]
            residual = _residual(op, ops, index)
            if residual is not None:
                index += 1
            self._lower_op(op, residual)
            index += 1
        return self._rows

    def _lower_op(self, op: Op, residual: Buffer | None) -> None:
        match op:
            case Embed():
                self._embed(op)
            case RmsNorm():
                self._norm(op, residual)
            case MatMul():
                self._matmul(op, residual)
            case Rope():
                self._rope(op)
            case WriteKV():
                self._write_kv(op)
            case Attention():
                self._attention(op)
            case GatedActivation():
                self._gated(op)
            case Add():
                self._add(op)
            case SelectRows():
                self._select(op)
            case SoftCap():
                self._soft_cap(op)
            case _:
                raise NotImplementedError(f"the CPU backend has no op {type(op).__name__}")

    def _emit(
        self,
        source: KernelSource,
        operands: dict[int, int | float],
        reads: tuple[object, ...],
        writes: tuple[object, ...],
        shares_rows: str | None = None,
    ) -> None:
        self._rows.append(LoweredOp(source, operands, frozenset(reads), frozenset(writes), shares_rows))
        self._quantized = {(buffer, form) for buffer, form in self._quantized if buffer not in writes}

    def _counter(self) -> int:
        """Address of an int64 of its own, which is 0 when a step begins."""
        self._num_counters += 1
        return self._memory.counter(self._num_counters - 1)

    def _embed(self, op: Embed) -> None:
        operands: dict[int, int | float] = {
            weights.EMBED_WEIGHT: self._memory.weight(op.weight),
            weights.EMBED_ROW_BYTES: op.weight.type.row_bytes(op.weight.shape[1]),
            weights.EMBED_WIDTH: op.weight.shape[1],
            weights.EMBED_OUT: self._memory.buffer(op.out),
            weights.EMBED_SCALE: float(op.scale),
        }
        self._emit(KernelSource("matmul", "embed_kernel", (op.weight.type,)), operands, (), (op.out,))

    def _norm(self, op: RmsNorm, residual: Buffer | None) -> None:
        out = residual or op.out
        operands: dict[int, int | float] = {
            slots.NORM_X: self._memory.buffer(op.x),
            slots.NORM_WEIGHT: self._memory.vector(op.weight),
            slots.NORM_OUT: self._memory.buffer(out),
            slots.NORM_WIDTH: op.x.width,
            slots.NORM_GROUPS: op.num_groups,
            slots.NORM_EPS: float(op.eps),
            slots.NORM_ROWS: _kind(op.x),
            slots.NORM_ACCUMULATE: int(residual is not None),
        }
        self._emit(KernelSource("norm", "rms_norm"), operands, (op.x, out), (out,), op.x.rows)

    def _matmul(self, op: MatMul, residual: Buffer | None) -> None:
        form = activation_format(op.weight.type)
        activation = self._memory.activation(op.x, form)
        out = residual or op.out
        if (op.x, form) not in self._quantized:
            quantize: dict[int, int | float] = {
                weights.QUANTIZE_X: self._memory.buffer(op.x),
                weights.QUANTIZE_ACTIVATION: activation,
                weights.QUANTIZE_WIDTH: op.x.width,
                weights.QUANTIZE_ROWS_KIND: _kind(op.x),
            }
            self._emit(KernelSource("matmul", "quantize_kernel", (form,)), quantize, (op.x,), ((op.x, form),))
            self._quantized.add((op.x, form))
        operands: dict[int, int | float] = {
            weights.MATMUL_ACTIVATION: activation,
            weights.MATMUL_WEIGHT: self._memory.weight(op.weight),
            weights.MATMUL_OUT: self._memory.buffer(out),
            weights.MATMUL_ROWS: op.weight.shape[0],
            weights.MATMUL_WIDTH: op.weight.shape[1],
            weights.MATMUL_ROW_BYTES: op.weight.type.row_bytes(op.weight.shape[1]),
            weights.MATMUL_OUT_STRIDE: out.width,
            weights.MATMUL_BIAS: self._memory.vector(op.bias) if op.bias is not None else 0,
            weights.MATMUL_ACCUMULATE: int(residual is not None),
            weights.MATMUL_ROWS_KIND: _kind(op.x),
            weights.MATMUL_CAPACITY: self._memory.rows_of(op.x),
            weights.MATMUL_COUNTER: self._counter(),
        }
        source = KernelSource("matmul", "matmul_kernel", (op.weight.type,))
        self._emit(source, operands, ((op.x, form), out), (out,))

    def _prepare_angles(self, table: RopeTable) -> None:
        """Angles of the step's tokens, once a table, at the start of the program."""
        if id(table) in self._angles:
            return
        pairs = len(table.inv_freq)
        num_bytes = self._memory.max_batch_tokens * pairs * (16 if table.interleaved else 8)
        address = self._memory.bytes_for(("angles", id(table)), num_bytes).ctypes.data
        self._angles[id(table)] = address
        coarse, fine = self._memory.angle_tables(table)
        operands: dict[int, int | float] = {
            slots.ANGLES_COARSE: coarse,
            slots.ANGLES_FINE: fine,
            slots.ANGLES_OUT: address,
            slots.ANGLES_PAIRS: pairs,
        }
        name = "angles_of_pairs" if table.interleaved else "angles_of_halves"
        self._emit(KernelSource("rope", name), operands, (), (("angles", id(table)),), "tokens")

    def _rope(self, op: Rope) -> None:
        operands: dict[int, int | float] = {
            slots.ROPE_X: self._memory.buffer(op.x),
            slots.ROPE_HEADS: op.num_heads,
            slots.ROPE_HEAD_DIM: op.head_dim,
            slots.ROPE_PAIRS: len(op.table.inv_freq),
            slots.ROPE_ANGLES: self._angles[id(op.table)],
        }
        name = "rotate_pairs" if op.table.interleaved else "rotate_halves"
        reads = (op.x, ("angles", id(op.table)))
        self._emit(KernelSource("rope", name), operands, reads, (op.x,), "tokens")

    def _write_kv(self, op: WriteKV) -> None:
        layer = self._plan.kv_layers[op.kv_layer]
        keys, values = self._kv_store.keys[op.kv_layer], self._kv_store.values[op.kv_layer]
        operands: dict[int, int | float] = {
            slots.WRITE_KEY: self._memory.buffer(op.key),
            slots.WRITE_VALUE: self._memory.buffer(op.value),
            slots.WRITE_KEYS: keys.ctypes.data,
            slots.WRITE_VALUES: values.ctypes.data,
            slots.WRITE_KEY_HEAD_BYTES: keys.strides[0],
            slots.WRITE_VALUE_HEAD_BYTES: values.strides[0],
            slots.WRITE_HEADS: layer.num_kv_heads,
            slots.WRITE_KEY_DIM: layer.key_dim,
            slots.WRITE_VALUE_DIM: layer.value_dim,
        }
        writes = (("kv", op.kv_layer),)
        self._emit(KernelSource("write_kv", "write_kv"), operands, (op.key, op.value), writes, "tokens")

    def _attention(self, op: Attention) -> None:
        layer = self._plan.kv_layers[op.kv_layer]
        keys, values = self._kv_store.keys[op.kv_layer], self._kv_store.values[op.kv_layer]
        group = op.num_heads // layer.num_kv_heads
        decode_rows = min(group, slots.PREFILL_ROWS)
        num_partials = slots.MAX_SPLIT_SLICES * slots.MAX_SPLIT_ITEMS
        partial_bytes = slots.partial_bytes(slots.PREFILL_ROWS, layer.value_dim)
        operands: dict[int, int | float] = {
            slots.ATTENTION_QUERY: self._memory.buffer(op.query),
            slots.ATTENTION_OUT: self._memory.buffer(op.out),
            slots.ATTENTION_KEYS: keys.ctypes.data,
            slots.ATTENTION_VALUES: values.ctypes.data,
            slots.ATTENTION_KEY_HEAD_BYTES: keys.strides[0],
            slots.ATTENTION_VALUE_HEAD_BYTES: values.strides[0],
            slots.ATTENTION_KV_HEADS: layer.num_kv_heads,
            slots.ATTENTION_GROUP: group,
            slots.ATTENTION_KEY_DIM: layer.key_dim,
            slots.ATTENTION_VALUE_DIM: layer.value_dim,
            slots.ATTENTION_SCALE: float(op.scale),
            slots.ATTENTION_WINDOW: op.window or 0,
            slots.ATTENTION_SOFT_CAP: float(op.soft_cap or 0.0),
            slots.ATTENTION_SINKS: self._memory.vector(op.sinks) if op.sinks is not None else 0,
            slots.ATTENTION_COUNTER: self._counter(),
            slots.ATTENTION_PARTIALS: self._memory.bytes_for(
                ("partials", layer.value_dim), num_partials * partial_bytes
            ).ctypes.data,
            slots.ATTENTION_ARRIVALS: self._memory.bytes_for("arrivals", num_partials * 8).ctypes.data,
        }
        source = KernelSource("attention", "attention_kernel", (decode_rows,))
        self._emit(source, operands, (op.query, ("kv", op.kv_layer)), (op.out, "partials"))

    def _gated(self, op: GatedActivation) -> None:
        operands: dict[int, int | float] = {
            slots.GATED_GATE: self._memory.buffer(op.gate),
            slots.GATED_UP: self._memory.buffer(op.up),
            slots.GATED_OUT: self._memory.buffer(op.out),
            slots.GATED_WIDTH: op.out.width,
            slots.GATED_ROWS: _kind(op.out),
        }
        source = KernelSource("activation", _GATED[op.activation])
        self._emit(source, operands, (op.gate, op.up), (op.out,), op.out.rows)

    def _add(self, op: Add) -> None:
        operands: dict[int, int | float] = {
            slots.ADD_X: self._memory.buffer(op.x),
            slots.ADD_Y: self._memory.buffer(op.y),
            slots.ADD_OUT: self._memory.buffer(op.out),
            slots.ADD_WIDTH: op.out.width,
            slots.ADD_ROWS: _kind(op.out),
        }
        self._emit(KernelSource("elementwise", "add"), operands, (op.x, op.y), (op.out,), op.out.rows)

    def _select(self, op: SelectRows) -> None:
        operands: dict[int, int | float] = {
            slots.SELECT_X: self._memory.buffer(op.x),
            slots.SELECT_OUT: self._memory.buffer(op.out),
            slots.SELECT_WIDTH: op.x.width,
        }
        self._emit(KernelSource("elementwise", "select_rows"), operands, (op.x,), (op.out,), "logits")

    def _soft_cap(self, op: SoftCap) -> None:
        operands: dict[int, int | float] = {
            slots.CAP_X: self._memory.buffer(op.x),
            slots.CAP_OUT: self._memory.buffer(op.out),
            slots.CAP_WIDTH: op.x.width,
            slots.CAP_ROWS: _kind(op.x),
            slots.CAP_CAP: float(op.cap),
        }
        self._emit(KernelSource("elementwise", "soft_cap"), operands, (op.x,), (op.out,))


def _kind(buffer: Buffer) -> int:
    return ROWS_TOKENS if buffer.rows == "tokens" else ROWS_LOGITS


def _residual(op: Op, ops: list[Op], index: int) -> Buffer | None:
    """The buffer that ``op`` may add to itself, which makes the Add after it superfluous; None where it may not.

    That is so when the Add's other input is its output too, and nothing reads the result of ``op`` otherwise.
    """
    if not isinstance(op, MatMul | RmsNorm) or index + 1 >= len(ops):
        return None
    add = ops[index + 1]
    if not isinstance(add, Add) or op.out in (op.x, add.out):
        return None
    other = add.y if add.x == op.out else add.x if add.y == op.out else None
    if other is None or other != add.out or other in (op.x, op.out) or _is_read(op.out, ops[index + 2 :]):
        return None
    return other


def _is_read(buffer: Buffer, ops: list[Op]) -> bool:
    """Whether one of the ops reads the buffer before another overwrites it."""
    for op in ops:
        if buffer in _inputs(op):
            return True
        if getattr(op, "out", None) == buffer:
            return False
    return False


def _inputs(op: Op) -> tuple[Buffer, ...]:
    match op:
        case RmsNorm() | MatMul() | Rope() | SelectRows() | SoftCap():
            return (op.x,)
        case Add():
            return (op.x, op.y)
        case GatedActivation():
            return (op.gate, op.up)
        case WriteKV():
            return (op.key, op.value)
        case Attention():
            return (op.query,)
        case Embed():
            return ()
