"""A backend made of the NumPy definitions of ops: slow, short, and right.

Other backends are tested against it. It knows ops, buffers and tensors, and nothing of architectures. A row of a
buffer with ``rows="pairs"`` is token * experts used + rank of the expert.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.config import KVType
from engine.kernels import definitions
from engine.kernels.backend import RunAhead, SequenceSlice, StepInterruptedError, check_block_table, check_slice
from engine.kernels.definitions import Floats
from engine.kernels.dequantize import DequantizedWeights, dequantize_rows, dequantize_vector
from engine.model.plan import (
    BLOCK_SIZE,
    Activate,
    Add,
    Attention,
    Buffer,
    CausalConv,
    Clamp,
    Combine,
    Copy,
    DeltaRule,
    Dispatch,
    Embed,
    ExpertMatMul,
    GatedActivation,
    HeadMatMul,
    KeepLargest,
    MatchLength,
    MatMul,
    MixStreams,
    Norm,
    Op,
    Plan,
    Rope,
    Route,
    Scale,
    ScaleByPosition,
    ScaleColumns,
    SelectiveScan,
    SelectRows,
    SoftCap,
    Tensor,
    WriteKV,
)

ReferenceKVType = Literal["f32"] | KVType

_KV_DTYPES: dict[ReferenceKVType, type[np.generic]] = {
    "f32": np.float32,
    "f16": np.float16,
    "q8_0": np.float32,  # what is left after rounding
}
DEFAULT_WEIGHT_BYTES = 2 << 30
DEFAULT_STATES = 16  # sequences with recurrent states


@dataclass(eq=False)
class _Step:
    """What the ops of one step work on.

    Attributes:
        slices: with their rows in the token buffers.
        token_ids, positions: (tokens,).
        wanted: rows of the token buffers whose logits are wanted.
        buffers: values by buffer name.
        experts, expert_weights: of the last choice, (tokens, experts used).
    """

    slices: list[tuple[SequenceSlice, slice]]
    token_ids: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.int64]
    buffers: dict[str, Floats]
    experts: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    expert_weights: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))


class ReferenceBackend:
    """Executes a plan with the functions of this module.

    Attributes:
        max_batch_tokens: most tokens of one step.
        num_blocks: blocks of the KV cache.
        kv_bytes: bytes of the KV cache.
        block_bytes: of one block in all layers.
        kv_format: changes with what the KV cache holds.
        num_states, state_bytes: recurrent states of sequences, and bytes of one.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        num_blocks: int,
        max_batch_tokens: int = 512,
        kv_type: ReferenceKVType = "f32",
        max_weight_bytes: int = DEFAULT_WEIGHT_BYTES,
        num_states: int = DEFAULT_STATES,
        guard_weights: Callable[[], None] = lambda: None,
        check_weights: Callable[[], None] = lambda: None,
    ) -> None:
        """``kv_type`` is what the KV cache rounds to; ``max_weight_bytes`` bounds the dequantised matrices kept."""
        self.max_batch_tokens = max_batch_tokens
        self.max_ahead_tokens = 0
        self.vocab_size = plan.vocab_size
        self.num_blocks = num_blocks
        self.num_states = num_states if plan.state_sizes else 0
        self.state_bytes = plan.state_bytes
        self._states = np.zeros((self.num_states, sum(plan.state_sizes)), np.float32)
        self._state_starts = np.cumsum((0, *plan.state_sizes))
        self._plan = plan
        self._guard_weights, self._check_weights = guard_weights, check_weights
        self._weights = DequantizedWeights(max_weight_bytes)
        shapes = [(num_blocks, BLOCK_SIZE, layer.num_kv_heads) for layer in plan.kv_layers]
        self._kv_type: ReferenceKVType = kv_type
        self._is_interrupted = threading.Event()
        dtype = _KV_DTYPES[kv_type]
        self._keys = [np.zeros((*shape, kv.key_dim), dtype) for shape, kv in zip(shapes, plan.kv_layers)]
        self._values = [np.zeros((*shape, kv.value_dim), dtype) for shape, kv in zip(shapes, plan.kv_layers)]
        self.kv_bytes = sum(array.nbytes for array in (*self._keys, *self._values))
        self.block_bytes = kv_bytes_per_block(plan, kv_type)
        self.kv_format = f"reference {kv_type} {plan.kv_layers}"

    def run(self, slices: Sequence[SequenceSlice], ahead: RunAhead | None = None) -> Floats:
        """See ``Backend.run``; it goes on with no token by itself.

        Raises ValueError for slices that do not fit the backend or its cache.
        """
        step = self._prepare(slices)
        self._guard_weights()
        with np.errstate(all="ignore"):  # weights of a damaged file may be NaN or huge; the sampler finds it out
            for op in self._plan.ops:
                if self._is_interrupted.is_set():
                    self._is_interrupted.clear()
                    raise StepInterruptedError
                self._execute(op, step)
        self._check_weights()
        return step.buffers[self._plan.logits.name]

    def interrupt(self) -> None:
        """See ``Backend.interrupt``."""
        self._is_interrupted.set()

    def lend_core(self, is_lent: bool) -> None:
        """See ``Backend.lend_core``: it has one thread, and leaves the others."""

    def copy_block(self, source: int, target: int) -> None:
        """Copy a block's keys and values in all layers."""
        for array in (*self._keys, *self._values):
            array[target] = array[source]

    def read_blocks(self, block_ids: npt.NDArray[np.int32], out: npt.NDArray[np.uint8]) -> None:
        """Copy blocks to ``out``, (blocks, block_bytes) uint8."""
        layers = [array[block_ids] for array in (*self._keys, *self._values)]
        out[...] = np.concatenate([layer.reshape(len(block_ids), -1).view(np.uint8) for layer in layers], axis=1)

    def write_blocks(self, block_ids: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> None:
        """Copy what ``read_blocks`` gave to blocks."""
        offset = 0
        for array in (*self._keys, *self._values):
            end = offset + array[0].nbytes
            part = np.ascontiguousarray(data[:, offset:end]).view(array.dtype)
            array[block_ids] = part.reshape(len(block_ids), *array.shape[1:])
            offset = end

    def read_state(self, slot: int) -> npt.NDArray[np.uint8]:
        """See ``Backend.read_state``."""
        copied: npt.NDArray[np.uint8] = self._states[slot].copy().view(np.uint8)
        return copied

    def write_state(self, slot: int, state: npt.NDArray[np.uint8] | None) -> None:
        """See ``Backend.write_state``."""
        self._states[slot] = 0.0 if state is None else state.view(np.float32)

    def close(self) -> None:
        """Free the cache and the weights."""
        self._weights.clear()
        self._keys.clear()
        self._values.clear()

    def _prepare(self, slices: Sequence[SequenceSlice]) -> _Step:
        placed: list[tuple[SequenceSlice, slice]] = []
        wanted: list[int] = []
        row = 0
        for part in slices:
            stop = row + len(part.token_ids)
            check_slice(part, self._plan, self.num_states)
            check_block_table(part.block_table, self.num_blocks)
            placed.append((part, slice(row, stop)))
            if part.logits == "all":
                wanted.extend(range(row, stop))
            elif part.logits == "last":
                wanted.append(stop - 1)
            row = stop
        if row > self.max_batch_tokens:
            raise ValueError(f"{row} tokens in a step of at most {self.max_batch_tokens}")
        return _Step(
            slices=placed,
            token_ids=np.concatenate([np.asarray(part.token_ids, np.int32) for part in slices]),
            positions=np.concatenate([np.arange(part.start, part.start + len(part.token_ids)) for part in slices]),
            wanted=np.array(wanted, dtype=np.int64),
            buffers={},
        )

    def _execute(self, op: Op, step: _Step) -> None:
        buffers = step.buffers
        match op:
            case Embed():
                rows = step.positions.astype(np.int32) if op.by_position else step.token_ids
                buffers[op.out.name] = dequantize_rows(op.weight, rows) * np.float32(op.scale)
            case Norm():
                buffers[op.out.name] = definitions.norm(buffers[op.x.name], op)
            case MatMul():
                buffers[op.out.name] = self._matmul(buffers[op.x.name], op)
            case HeadMatMul():
                self._head_matmul(op, step)
            case Copy():
                self._copy(op, step)
            case Rope():
                x = buffers[op.x.name]
                buffers[op.x.name] = definitions.rotate(x, step.positions, op.table, op.head_dim, op.first)
            case WriteKV():
                self._write_kv(op, step)
            case Attention():
                buffers[op.out.name] = self._attention(op, step)
            case SelectRows():
                buffers[op.out.name] = buffers[op.x.name][step.wanted]
            case Route():
                step.experts, step.expert_weights = definitions.route(
                    buffers[op.logits.name], op, self._plan.num_experts_used
                )
            case CausalConv() | SelectiveScan() | DeltaRule():
                self._recur(op, step)
            case Dispatch() | ExpertMatMul() | Combine():
                buffers[op.out.name] = self._on_pairs(op, step)
            case _:
                _execute_on_values(op, step)

    def _matmul(self, x: Floats, op: MatMul) -> Floats:
        out = np.empty((len(x), op.out.width), np.float32)
        for rows, panel in self._weights.panels(op.weight):
            np.matmul(x, panel.T, out=out[:, rows])
        return out if op.bias is None else out + dequantize_vector(op.bias)

    def _recur(self, op: CausalConv | SelectiveScan | DeltaRule, step: _Step) -> None:
        """A recurrence over each sequence's tokens, from its state to its next."""
        buffers, start = step.buffers, self._state_starts[op.state]
        out = np.empty((len(step.token_ids), op.out.width), np.float32)
        for part, rows in step.slices:
            state = self._states[part.state, start : self._state_starts[op.state + 1]]
            x = buffers[op.x.name][rows]
            match op:
                case CausalConv():
                    out[rows], after = definitions.convolve(x, state, op)
                case SelectiveScan():
                    out[rows], after = definitions.scan(x, buffers[op.step.name][rows], state, op)
                case DeltaRule():
                    steps, rates = buffers[op.step.name][rows], buffers[op.rate.name][rows]
                    out[rows], after = definitions.delta_rule(x, steps, rates, state, op)
            state[:] = after.reshape(-1)
        buffers[op.out.name] = out

    def _head_matmul(self, op: HeadMatMul, step: _Step) -> None:
        _, num_rows, num_columns = op.weight.shape
        heads = _heads(step.buffers[op.x.name], op.num_heads)
        out = _heads(_writable(op.out, len(heads), step), op.num_heads)
        for head, matrix in enumerate(self._matrices(op.weight)):
            out[:, head, :num_rows] = heads[:, head, :num_columns] @ matrix.T

    def _copy(self, op: Copy, step: _Step) -> None:
        x = step.buffers[op.x.name]
        source = x[:, None] if op.is_shared else _heads(x, op.num_heads)
        target = _heads(_writable(op.out, len(x), step), op.num_heads)
        target[..., op.out_first : op.out_first + op.count] = source[..., op.first : op.first + op.count]

    def _on_pairs(self, op: Dispatch | ExpertMatMul | Combine, step: _Step) -> Floats:
        x, num_tokens = step.buffers[op.x.name], len(step.token_ids)
        weights = step.expert_weights[..., None]
        match op:
            case Dispatch():
                pairs = np.repeat(x[:, None], step.experts.shape[1], axis=1)
                result = pairs * weights if op.is_weighted else pairs
                return result.reshape(-1, x.shape[1])
            case Combine():
                pairs = x.reshape(num_tokens, -1, x.shape[1])
                total: Floats = (pairs * weights if op.is_weighted else pairs).sum(axis=1)
                return total
            case ExpertMatMul():
                return self._expert_matmul(x, op, step.experts.reshape(-1))

    def _expert_matmul(self, x: Floats, op: ExpertMatMul, experts: npt.NDArray[np.int64]) -> Floats:
        out = np.empty((len(x), op.out.width), np.float32)
        matrices = self._matrices(op.weight)
        biases = None if op.bias is None else dequantize_vector(op.bias).reshape(len(matrices), -1)
        for expert in np.unique(experts):
            rows = experts == expert
            matrix = matrices[expert][op.first_row : op.first_row + op.out.width]
            out[rows] = x[rows] @ matrix.T + (0.0 if biases is None else biases[expert])
        return out

    def _matrices(self, weight: Tensor) -> Floats:
        """A tensor of several matrices, (matrices, rows, columns)."""
        count, num_rows, num_columns = weight.shape
        flat = Tensor(weight.name, weight.type, (count * num_rows, num_columns), weight.data)
        return np.asarray(dequantize_rows(flat, slice(None))).reshape(weight.shape)

    def _write_kv(self, op: WriteKV, step: _Step) -> None:
        for part, rows in step.slices:
            positions = step.positions[rows]
            blocks, slots = np.asarray(part.block_table)[positions // BLOCK_SIZE], positions % BLOCK_SIZE
            for cache, buffer in ((self._keys, op.key), (self._values, op.value)):
                layer = cache[op.kv_layer]
                written = step.buffers[buffer.name][rows].reshape(len(positions), *layer.shape[2:])
                layer[blocks, slots] = definitions.round_q8_0(written) if self._kv_type == "q8_0" else written

    def _attention(self, op: Attention, step: _Step) -> Floats:
        out = np.empty((len(step.token_ids), op.out.width), np.float32)
        for part, rows in step.slices:
            num_positions = part.start + len(part.token_ids)
            blocks = part.block_table[: -(-num_positions // BLOCK_SIZE)]
            keys, values = (
                layer[blocks].reshape(-1, *layer.shape[2:])[:num_positions].astype(np.float32)
                for layer in (self._keys[op.kv_layer], self._values[op.kv_layer])
            )
            out[rows] = definitions.attend(step.buffers[op.query.name][rows], keys, values, part.start, op)
        return out


def _heads(x: Floats, num_heads: int) -> Floats:
    """(rows, heads, head_dim), a view."""
    return x.reshape(len(x), num_heads, -1)


def _writable(buffer: Buffer, num_rows: int, step: _Step) -> Floats:
    """The buffer's values to be written in part."""
    return step.buffers.setdefault(buffer.name, np.zeros((num_rows, buffer.width), np.float32))


def _execute_on_values(op: Op, step: _Step) -> None:
    """The ops that work on single values of rows."""
    buffers = step.buffers
    match op:
        case GatedActivation():
            buffers[op.out.name] = _gated(buffers[op.gate.name], buffers[op.up.name], op)
        case Activate():
            buffers[op.out.name] = definitions.activate(buffers[op.x.name], op.activation, op.parameters)
        case Add():
            buffers[op.out.name] = buffers[op.x.name] + buffers[op.y.name]
        case Scale():
            buffers[op.out.name] = buffers[op.x.name] * np.float32(op.factor)
        case ScaleByPosition():
            steps = np.floor((step.positions + op.offset) / op.length)
            factors = (1.0 + op.scale * np.log(steps + 1.0)).astype(np.float32)
            buffers[op.x.name] = buffers[op.x.name] * factors[:, None]
        case Clamp():
            buffers[op.out.name] = np.clip(buffers[op.x.name], -op.limit, op.limit)
        case SoftCap():
            buffers[op.out.name] = definitions.soft_cap(buffers[op.x.name], op.cap)
        case MixStreams():
            buffers[op.out.name] = definitions.mix_streams(buffers[op.x.name], buffers[op.weights.name], op)
        case MatchLength():
            buffers[op.out.name] = definitions.match_length(buffers[op.x.name], buffers[op.like.name], op)
        case ScaleColumns():
            buffers[op.out.name] = buffers[op.x.name] * dequantize_vector(op.weight)
        case KeepLargest():
            buffers[op.out.name] = definitions.keep_largest(buffers[op.x.name], op)
        case _:
            raise NotImplementedError(f"the reference backend has no op {type(op).__name__}")


def _gated(gate: Floats, up: Floats, op: GatedActivation) -> Floats:
    if op.limit is not None:
        up = np.clip(up, -op.limit, op.limit)
        gate = np.minimum(gate, op.limit) if op.is_limit_early else gate
    factor = definitions.activate(gate, op.activation)
    if op.limit is not None and not op.is_limit_early:
        factor = np.minimum(factor, op.limit)
    product = _heads(up + np.float32(op.up_offset), gate.shape[1]) * factor[..., None]
    result: Floats = product.reshape(up.shape)
    return result


def kv_bytes_per_block(plan: Plan, kv_type: ReferenceKVType = "f32") -> int:
    """Bytes that one block of the KV cache takes in all layers."""
    values = sum(layer.num_kv_heads * (layer.key_dim + layer.value_dim) for layer in plan.kv_layers)
    return values * BLOCK_SIZE * np.dtype(_KV_DTYPES[kv_type]).itemsize


def work_bytes(plan: Plan, max_batch_tokens: int) -> int:
    """Bytes of the buffers of a step."""
    rows = {"tokens": max_batch_tokens, "logits": 1, "pairs": max_batch_tokens * plan.num_experts_used}
    return sum(rows[buffer.rows] * buffer.width * 4 for buffer in plan.buffers)
