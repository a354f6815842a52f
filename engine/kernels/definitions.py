"""The NumPy definition of what the ops of a plan compute: slow, short, and right.

Other backends are tested against it. It knows values and nothing of buffers or architectures.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from engine.kernels.dequantize import dequantize_vector
from engine.model.plan import (
    Activation,
    Attention,
    CausalConv,
    DeltaRule,
    Gating,
    KeepLargest,
    MatchLength,
    MixStreams,
    Norm,
    RopeTable,
    Route,
    SelectiveScan,
)

Floats = npt.NDArray[np.float32]

LEAST_WEIGHT_SUM = 2.0**-14  # of chosen experts, when their weights are divided by it


def norm(x: Floats, op: Norm) -> Floats:
    """``x`` is (rows, width); each of the op's groups of a row is divided by its root mean square or deviation."""
    groups = x.reshape(len(x), op.num_groups, x.shape[1] // op.num_groups).astype(np.float64)
    if op.is_centered:
        groups = groups - groups.mean(axis=-1, keepdims=True)
    groups = groups / np.sqrt(np.mean(np.square(groups), axis=-1, keepdims=True) + op.eps)
    if op.weight is not None:
        groups = groups * _of_groups(dequantize_vector(op.weight), groups.shape)
    if op.bias is not None:
        groups = groups + _of_groups(dequantize_vector(op.bias), groups.shape)
    result: Floats = groups.reshape(x.shape).astype(np.float32)
    return result


def _of_groups(vector: Floats, shape: tuple[int, ...]) -> Floats:
    """A vector for one group, or for all of them side by side."""
    return vector.reshape(-1, shape[-1])


def rotate(x: Floats, positions: npt.NDArray[np.int64], table: RopeTable, head_dim: int, first: int = 0) -> Floats:
    """``x`` is (tokens, heads * head_dim); each head turns from value ``first`` on by position times frequency."""
    num_pairs = len(table.inv_freq)
    angles = positions[:, None, None] * table.inv_freq  # (tokens, 1, pairs) float64
    cos, sin = np.cos(angles) * table.magnitude, np.sin(angles) * table.magnitude
    heads = x.reshape(len(x), -1, head_dim)
    if table.interleaved:
        even, odd = slice(first, first + 2 * num_pairs, 2), slice(first + 1, first + 2 * num_pairs, 2)
    else:
        even, odd = slice(first, first + num_pairs), slice(first + num_pairs, first + 2 * num_pairs)
    rotated = heads.copy()
    rotated[..., even] = heads[..., even] * cos - heads[..., odd] * sin
    rotated[..., odd] = heads[..., even] * sin + heads[..., odd] * cos
    return rotated.reshape(x.shape)


def activate(
    x: Floats, activation: Activation, parameters: tuple[float, float, float, float] | None = None
) -> Floats:
    """One activation of single values; GELU by its tanh approximation."""
    match activation:
        case Activation.SILU:
            return x * _sigmoid(x)
        case Activation.GELU:  # 0.5 (1 + tanh y) = sigmoid(2 y)
            return x * _sigmoid(2.0 * np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3))
        case Activation.QUICK_GELU:
            return x * _sigmoid(np.float32(1.702) * x)
        case Activation.RELU:
            return np.maximum(x, 0)
        case Activation.RELU_SQUARED:
            return cast(Floats, np.maximum(x, 0) ** 2)
        case Activation.SIGMOID:
            return _sigmoid(x)
        case Activation.TANH:
            return np.tanh(x)
        case Activation.SOFTPLUS:
            return cast(Floats, np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))
        case Activation.IDENTITY:
            return x
        case Activation.XIELU:
            assert parameters is not None, "xIELU has parameters"
            negative, positive, beta, eps = (np.float32(value) for value in parameters)
            below = (np.expm1(np.minimum(x, eps)) - x) * negative + beta * x
            return cast(Floats, np.where(x > 0, positive * x * x + beta * x, below).astype(np.float32))


def _sigmoid(x: Floats) -> Floats:
    """Without overflow: only exp of numbers up to 0."""
    small = np.exp(-np.abs(x))
    result: Floats = (np.where(x >= 0, 1.0, small) / (1.0 + small)).astype(np.float32)
    return result


def _softmax(x: Floats) -> Floats:
    shares = np.exp(x - x.max(axis=-1, keepdims=True))
    result: Floats = shares / shares.sum(axis=-1, keepdims=True)
    return result


def soft_cap(x: Floats, cap: float) -> Floats:
    """Squeeze into (-cap, cap)."""
    result: Floats = np.tanh(x / np.float32(cap)) * np.float32(cap)
    return result


def round_q8_0(x: Floats) -> Floats:
    """What a q8_0 KV cache keeps of (..., dim): int8 times a float16 scale, largest / 127, for 32 neighbours."""
    parts = []
    for start in range(0, x.shape[-1], 32):
        group = x[..., start : start + 32]
        largest = np.abs(group).max(-1, keepdims=True)
        scale = (largest * np.float32(1 / 127)).astype(np.float16).astype(np.float32)
        inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
        # A small float16 has few bits: where it is smaller than the scale, what is the largest must still fit.
        inverse = np.minimum(
            inverse, np.divide(np.float32(127.49), largest, out=np.zeros_like(scale), where=scale > 0)
        )
        parts.append(np.rint(group * inverse) * scale)
    return np.concatenate(parts, axis=-1)


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
    positions, own = np.arange(start + num_tokens), np.arange(start, start + num_tokens)[:, None]
    distance = own - positions
    if op.slopes is not None:
        scores = scores - dequantize_vector(op.slopes).reshape(num_kv_heads, num_grouped, 1, 1) * distance
    is_visible = distance >= 0
    if op.window is not None:
        is_visible &= distance < op.window
    if op.chunk is not None:
        is_visible &= own // op.chunk == positions // op.chunk
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


def route(logits: Floats, op: Route, num_used: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """Experts of each token, best first, and their weights, both (tokens, num_used)."""
    gated = _sigmoid(logits) if op.gating is Gating.SIGMOID else _softmax(logits)
    scores = gated if op.bias is None else gated + dequantize_vector(op.bias)
    if op.num_groups > 1:
        groups = scores.reshape(len(scores), op.num_groups, -1)
        best_two = np.sort(groups, axis=-1)[..., -2:].sum(axis=-1)
        left_out = np.argsort(-best_two, axis=-1, kind="stable")[:, op.num_used_groups :]
        groups = groups.copy()
        np.put_along_axis(groups, left_out[..., None], np.float32(-np.inf), axis=1)
        scores = groups.reshape(scores.shape)
    elif op.bias is None:
        scores = logits  # the same order, and no ties where a gate saturates
    chosen = np.argsort(-scores, axis=-1, kind="stable")[:, :num_used]
    if op.gating is Gating.SOFTMAX_OF_CHOSEN:
        weights = _softmax(np.take_along_axis(logits, chosen, axis=-1))
    else:
        weights = np.take_along_axis(gated, chosen // op.divisor, axis=-1)
    if op.is_normalized:
        weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.float32(LEAST_WEIGHT_SUM))
    return chosen // op.divisor, weights * np.float32(op.scale)


def convolve(x: Floats, state: Floats, op: CausalConv) -> tuple[Floats, Floats]:
    """``x`` is (tokens, channels), ``state`` (taps - 1, channels); returns the result and the next state."""
    weight = dequantize_vector(op.weight).reshape(op.weight.shape)
    num_taps = len(weight)
    rows = np.concatenate([state.reshape(num_taps - 1, -1), x])
    total = sum(rows[tap : tap + len(x)] * weight[tap] for tap in range(num_taps))
    if op.bias is not None:
        total = total + dequantize_vector(op.bias)
    return activate(np.asarray(total, np.float32), op.activation), rows[len(x) :]


def scan(x: Floats, steps: Floats, state: Floats, op: SelectiveScan) -> tuple[Floats, Floats]:
    """One sequence's rows of ``op.x`` and ``op.step``, and its state; returns the result and the next state."""
    num_heads = steps.shape[1]
    decay, skip = dequantize_vector(op.decay), dequantize_vector(op.skip)
    inner = x.shape[1] - 2 * op.num_groups * op.state_dim
    inputs = x[:, :inner].reshape(len(x), num_heads, -1)
    repeated = num_heads // op.num_groups
    both = x[:, inner:].reshape(len(x), 2, op.num_groups, op.state_dim).repeat(repeated, axis=2)
    hidden = state.reshape(num_heads, -1, op.state_dim).astype(np.float64)
    out = np.empty(inputs.shape, np.float64)
    for token, step in enumerate(steps):
        added = (step[:, None] * inputs[token])[..., None] * both[token, 0][:, None]
        hidden = hidden * np.exp(step * decay)[:, None, None] + added
        out[token] = np.einsum("hdn,hn->hd", hidden, both[token, 1]) + skip[:, None] * inputs[token]
    return out.reshape(len(x), -1).astype(np.float32), hidden.astype(np.float32)


def delta_rule(x: Floats, steps: Floats, rates: Floats, state: Floats, op: DeltaRule) -> tuple[Floats, Floats]:
    """One sequence's rows of ``op.x``, ``op.step`` and ``op.rate``, and its state; as ``scan``."""
    num_values, key_width = steps.shape[1], op.num_key_heads * op.dim
    decay = dequantize_vector(op.decay)
    keys = x[:, : 2 * key_width].reshape(len(x), 2, op.num_key_heads, op.dim).astype(np.float64)
    keys = keys / np.sqrt(np.square(keys).sum(axis=-1, keepdims=True) + op.eps)
    heads = np.arange(num_values)
    heads = heads // (num_values // op.num_key_heads) if op.has_grouped_heads else heads % op.num_key_heads
    values = x[:, 2 * key_width :].reshape(len(x), num_values, op.dim)
    hidden = state.reshape(num_values, op.dim, op.dim).astype(np.float64)
    out = np.empty(values.shape, np.float64)
    for token in range(len(x)):
        query, key = keys[token, 0, heads], keys[token, 1, heads]
        hidden = hidden * np.exp(steps[token] * decay)[:, None, None]
        error = (values[token] - np.einsum("hvk,hk->hv", hidden, key)) * rates[token][:, None]
        hidden = hidden + error[..., None] * key[:, None]
        out[token] = np.einsum("hvk,hk->hv", hidden, query) * op.dim**-0.5
    return out.reshape(len(x), -1).astype(np.float32), hidden.astype(np.float32)


def mix_streams(x: Floats, weights: Floats, op: MixStreams) -> Floats:
    """``x`` is (rows, num_inputs * width), ``weights`` (rows, outputs * num_inputs)."""
    streams = x.reshape(len(x), op.num_inputs, -1)
    mixed = weights.reshape(len(x), -1, op.num_inputs) @ streams
    return np.asarray(mixed, np.float32).reshape(len(x), op.out.width)


def match_length(x: Floats, like: Floats, op: MatchLength) -> Floats:
    """``x`` is (rows, num_groups * width), ``like`` (rows, width)."""
    parts = x.reshape(len(x), op.num_groups, -1)
    lengths = np.maximum(np.linalg.norm(parts, axis=-1, keepdims=True), np.float32(1e-15))
    result: Floats = parts * (np.linalg.norm(like, axis=-1)[:, None, None] / lengths)
    return result.reshape(x.shape)


def keep_largest(x: Floats, op: KeepLargest) -> Floats:
    """``x`` is (rows, width)."""
    deviation = x.std(axis=-1, keepdims=True, ddof=1)
    result: Floats = np.maximum(x - (x.mean(axis=-1, keepdims=True) + np.float32(op.factor) * deviation), 0)
    return result
