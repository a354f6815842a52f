"""The NumPy definition of every op of a plan, and a backend made of them: slow, short, and right.

Other backends are tested against it. It knows ops, buffers and tensors, and nothing of architectures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.kernels.backend import SequenceSlice
from engine.kernels.dequantize import DequantizedWeights, dequantize_rows, dequantize_vector
from engine.model.plan import (
    BLOCK_SIZE,
    Activation,
    Add,
    Attention,
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

Floats = npt.NDArray[np.float32]

DEFAULT_WEIGHT_BYTES = 2 << 30


def rms_norm(x: Floats, weight: Floats, eps: float, num_groups: int = 1) -> Floats:
    """``x`` is (rows, width); each of ``num_groups`` parts of a row is divided by its root mean square."""
    groups = x.reshape(len(x), num_groups, x.shape[1] // num_groups)
    mean_square = np.mean(np.square(groups, dtype=np.float64), axis=-1, keepdims=True)
    normed = groups / np.sqrt(mean_square + eps) * weight
    result: Floats = normed.reshape(x.shape).astype(np.float32)
    return result


def rotate(x: Floats, positions: npt.NDArray[np.int64], table: RopeTable, head_dim: int) -> Floats:
    """``x`` is (tokens, heads * head_dim); the leading values of each head turn by position times frequency."""
    num_pairs = len(table.inv_freq)
    angles = positions[:, None, None] * table.inv_freq  # (tokens, 1, pairs) float64
    cos, sin = np.cos(angles) * table.magnitude, np.sin(angles) * table.magnitude
    heads = x.reshape(len(x), -1, head_dim)
    if table.interleaved:
        first, second = slice(0, 2 * num_pairs, 2), slice(1, 2 * num_pairs, 2)
    else:
        first, second = slice(0, num_pairs), slice(num_pairs, 2 * num_pairs)
    rotated = heads.copy()
    rotated[..., first] = heads[..., first] * cos - heads[..., second] * sin
    rotated[..., second] = heads[..., first] * sin + heads[..., second] * cos
    return rotated.reshape(x.shape)


def activate(x: Floats, activation: Activation) -> Floats:
    """SiLU, or GELU by its tanh approximation."""
    if activation is Activation.SILU:
        return x * _sigmoid(x)
    # 0.5 (1 + tanh y) = sigmoid(2 y)
    return x * _sigmoid(2.0 * np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3))


def _sigmoid(x: Floats) -> Floats:
    """Without overflow: only exp of numbers up to 0."""
    small = np.exp(-np.abs(x))
    result: Floats = (np.where(x >= 0, 1.0, small) / (1.0 + small)).astype(np.float32)
    return result


def soft_cap(x: Floats, cap: float) -> Floats:
    """Squeeze into (-cap, cap)."""
    result: Floats = np.tanh(x / np.float32(cap)) * np.float32(cap)
    return result


def attend(query: Floats, keys: Floats, values: Floats, start: int, op: Attention) -> Floats:
    """Attention of one sequence.

    ``query`` is (tokens, num_heads * key_dim) for positions from ``start``; ``keys`` and ``values`` are
    (start + tokens, num_kv_heads, dim). Returns (tokens, num_heads * value_dim).
    """
    num_tokens, num_kv_heads = len(query), keys.shape[1]
    num_grouped = op.num_heads // num_kv_heads
    grouped = query.reshape(num_tokens, num_kv_heads, num_grouped, -1).transpose(1, 2, 0, 3)
    # (kv heads, heads of each, tokens, positions)
    scores = grouped @ keys.transpose(1, 2, 0)[:, None] * np.float32(op.scale)
    if op.soft_cap is not None:
        scores = soft_cap(scores, op.soft_cap)
    distance = np.arange(start, start + num_tokens)[:, None] - np.arange(start + num_tokens)
    is_visible = distance >= 0
    if op.window is not None:
        is_visible &= distance < op.window
    scores = np.where(is_visible, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    if op.sinks is not None:
        sinks = dequantize_vector(op.sinks).reshape(num_kv_heads, num_grouped, 1, 1)
        top = np.maximum(top, sinks)
    shares = np.exp(scores - top)
    total = shares.sum(axis=-1, keepdims=True)
    if op.sinks is not None:
        total = total + np.exp(sinks - top)
    attended = shares / total @ values.transpose(1, 0, 2)[:, None]
    result: Floats = attended.transpose(2, 0, 1, 3).reshape(num_tokens, -1).astype(np.float32)
    return result


@dataclass(eq=False)
class _Step:
    """What the ops of one step work on.

    Attributes:
        slices: with their rows in the token buffers.
        token_ids, positions: (tokens,).
        wanted: rows of the token buffers whose logits are wanted.
        buffers: values by buffer name.
    """

    slices: list[tuple[SequenceSlice, slice]]
    token_ids: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.int64]
    buffers: dict[str, Floats]


class ReferenceBackend:
    """Executes a plan with the functions of this module.

    Attributes:
        max_batch_tokens: most tokens of one step.
        num_blocks: blocks of the KV cache.
        kv_bytes: bytes of the KV cache.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        num_blocks: int,
        max_batch_tokens: int = 512,
        kv_type: npt.DTypeLike = np.float32,
        max_weight_bytes: int = DEFAULT_WEIGHT_BYTES,
    ) -> None:
        """``kv_type`` is float32 or float16; ``max_weight_bytes`` bounds the dequantised matrices that are kept."""
        self.max_batch_tokens = max_batch_tokens
        self.num_blocks = num_blocks
        self._plan = plan
        self._weights = DequantizedWeights(max_weight_bytes)
        shapes = [(num_blocks, BLOCK_SIZE, layer.num_kv_heads) for layer in plan.kv_layers]
        self._keys = [np.zeros((*shape, kv.key_dim), kv_type) for shape, kv in zip(shapes, plan.kv_layers)]
        self._values = [np.zeros((*shape, kv.value_dim), kv_type) for shape, kv in zip(shapes, plan.kv_layers)]
        self.kv_bytes = sum(array.nbytes for array in (*self._keys, *self._values))

    def run(self, slices: Sequence[SequenceSlice]) -> Floats:
        """See ``Backend.run``. Raises ValueError for slices that do not fit the backend or its cache."""
        step = self._prepare(slices)
        with np.errstate(all="ignore"):  # weights of a damaged file may be NaN or huge; the sampler finds it out
            for op in self._plan.ops:
                self._execute(op, step)
        return step.buffers[self._plan.logits.name]

    def copy_block(self, source: int, target: int) -> None:
        """Copy a block's keys and values in all layers."""
        for array in (*self._keys, *self._values):
            array[target] = array[source]

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
            self._check(part)
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
            token_ids=np.concatenate([part.token_ids for part in slices]),
            positions=np.concatenate([np.arange(part.start, part.start + len(part.token_ids)) for part in slices]),
            wanted=np.array(wanted, dtype=np.int64),
            buffers={},
        )

    def _check(self, part: SequenceSlice) -> None:
        num_positions = part.start + len(part.token_ids)
        if part.logits not in {"none", "last", "all"}:
            raise ValueError(f"logits must be none, last or all, not {part.logits!r}")
        if not len(part.token_ids) or part.start < 0:
            raise ValueError("a slice needs at least one token and a position from 0")
        if part.token_ids.min() < 0 or part.token_ids.max() >= self._plan.vocab_size:
            raise ValueError(f"token ids must lie below {self._plan.vocab_size}")
        blocks = part.block_table[: -(-num_positions // BLOCK_SIZE)]
        if len(blocks) * BLOCK_SIZE < num_positions:
            raise ValueError(f"the block table does not cover {num_positions} positions")
        if blocks.min() < 0 or blocks.max() >= self.num_blocks:
            raise ValueError(f"block ids must lie below {self.num_blocks}")

    def _execute(self, op: Op, step: _Step) -> None:
        buffers = step.buffers
        match op:
            case Embed():
                rows = dequantize_rows(op.weight, step.token_ids)
                buffers[op.out.name] = rows * np.float32(op.scale)
            case RmsNorm():
                weight = dequantize_vector(op.weight)
                buffers[op.out.name] = rms_norm(buffers[op.x.name], weight, op.eps, op.num_groups)
            case MatMul():
                buffers[op.out.name] = self._matmul(buffers[op.x.name], op)
            case Rope():
                buffers[op.x.name] = rotate(buffers[op.x.name], step.positions, op.table, op.head_dim)
            case WriteKV():
                self._write_kv(op, step)
            case Attention():
                buffers[op.out.name] = self._attention(op, step)
            case GatedActivation():
                gate = activate(buffers[op.gate.name], op.activation)
                buffers[op.out.name] = gate * buffers[op.up.name]
            case Add():
                buffers[op.out.name] = buffers[op.x.name] + buffers[op.y.name]
            case SelectRows():
                buffers[op.out.name] = buffers[op.x.name][step.wanted]
            case SoftCap():
                buffers[op.out.name] = soft_cap(buffers[op.x.name], op.cap)
            case _:
                raise NotImplementedError(f"the reference backend has no op {type(op).__name__}")

    def _matmul(self, x: Floats, op: MatMul) -> Floats:
        out = np.empty((len(x), op.out.width), np.float32)
        for rows, panel in self._weights.panels(op.weight):
            np.matmul(x, panel.T, out=out[:, rows])
        return out if op.bias is None else out + dequantize_vector(op.bias)

    def _write_kv(self, op: WriteKV, step: _Step) -> None:
        for part, rows in step.slices:
            positions = step.positions[rows]
            blocks, slots = part.block_table[positions // BLOCK_SIZE], positions % BLOCK_SIZE
            for cache, buffer in ((self._keys, op.key), (self._values, op.value)):
                layer = cache[op.kv_layer]
                layer[blocks, slots] = step.buffers[buffer.name][rows].reshape(len(positions), *layer.shape[2:])

    def _attention(self, op: Attention, step: _Step) -> Floats:
        out = np.empty((len(step.token_ids), op.out.width), np.float32)
        for part, rows in step.slices:
            num_positions = part.start + len(part.token_ids)
            blocks = part.block_table[: -(-num_positions // BLOCK_SIZE)]
            keys, values = (
                layer[blocks].reshape(-1, *layer.shape[2:])[:num_positions].astype(np.float32)
                for layer in (self._keys[op.kv_layer], self._values[op.kv_layer])
            )
            out[rows] = attend(step.buffers[op.query.name][rows], keys, values, part.start, op)
        return out


def kv_bytes_per_block(plan: Plan, kv_type: npt.DTypeLike = np.float32) -> int:
    """Bytes that one block of the KV cache takes in all layers."""
    values = sum(layer.num_kv_heads * (layer.key_dim + layer.value_dim) for layer in plan.kv_layers)
    return values * BLOCK_SIZE * np.dtype(kv_type).itemsize
