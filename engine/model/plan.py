"""The plan: a model as a flat list of ops over named buffers, the same for every architecture and device.

``build_plan`` (in ``builder``) makes it once at load from an architecture's row and the file's hyperparameters.
A backend executes it for one batch at a time; it knows ops, buffers and tensors, and nothing of architectures.

A buffer holds float32 rows, one row a token of the batch (``rows="tokens"``) or one row a wanted logit
(``rows="logits"``). Ops read and write whole buffers; ``out`` may be the same buffer as an input where the
op's docstring says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.gguf.tensor_types import TensorType

BLOCK_SIZE = 16  # tokens in one KV block


@dataclass(frozen=True, eq=False)
class Tensor:
    """A weight where it lies in the mapped file.

    Attributes:
        name: as in the file.
        type: storage type.
        shape: rows first, e.g. ``(out_features, in_features)``; a vector is ``(n,)``.
        data: uint8 view of the mapped bytes, not copied; row-major, each row a whole number of type blocks.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Buffer:
    """Float32 rows of ``width`` values."""

    name: str
    width: int
    rows: Literal["tokens", "logits"] = "tokens"


@dataclass(frozen=True, eq=False)
class RopeTable:
    """Rotary angles of one kind of layer.

    Attributes:
        inv_freq: (rotated_dims / 2,) float64, radians a position, scaling of the file already applied.
        magnitude: factor on cos and sin (YaRN's attention factor; 1 elsewhere).
        interleaved: True rotates pairs (2i, 2i+1), False (i, i + rotated_dims / 2).
    """

    inv_freq: npt.NDArray[np.float64]
    magnitude: float
    interleaved: bool


class Activation(Enum):
    """Activation of a gated feed-forward."""

    SILU = "silu"
    GELU = "gelu"  # tanh approximation


@dataclass(frozen=True, eq=False)
class Embed:
    """out = weight[token_ids] * scale."""

    weight: Tensor
    out: Buffer
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class RmsNorm:
    """out = x / sqrt(mean(x^2) + eps) * weight over each of ``num_groups`` equal parts of a row.

    ``weight`` has width / num_groups values. ``out`` may be ``x``.
    """

    x: Buffer
    weight: Tensor
    out: Buffer
    eps: float
    num_groups: int = 1


@dataclass(frozen=True, eq=False)
class MatMul:
    """out = x @ weight.T (+ bias)."""

    x: Buffer
    weight: Tensor
    out: Buffer
    bias: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotate the first ``2 * len(inv_freq)`` values of each head of ``x`` in place, by each token's position."""

    x: Buffer
    num_heads: int
    head_dim: int
    table: RopeTable


@dataclass(frozen=True, eq=False)
class WriteKV:
    """Store this batch's keys (already rotated) and values in the KV cache of ``kv_layer``."""

    kv_layer: int
    key: Buffer
    value: Buffer


@dataclass(frozen=True, eq=False)
class Attention:
    """Causal grouped-query attention of ``query`` over the cache of ``kv_layer``, which holds the batch itself too.

    Query head h uses KV head h // (num_heads // num_kv_heads). Scores are ``scale * q.k``; then, where given,
    ``soft_cap * tanh(score / soft_cap)``. With ``window`` w a token at p sees positions j with p - j < w.
    ``sinks`` holds one extra logit a head that takes part in the softmax only.
    """

    kv_layer: int
    query: Buffer
    out: Buffer
    num_heads: int
    scale: float
    window: int | None = None
    soft_cap: float | None = None
    sinks: Tensor | None = None


@dataclass(frozen=True, eq=False)
class GatedActivation:
    """out = activation(gate) * up. ``out`` may be ``gate`` or ``up``."""

    gate: Buffer
    up: Buffer
    out: Buffer
    activation: Activation


@dataclass(frozen=True, eq=False)
class Add:
    """out = x + y. ``out`` may be ``x`` or ``y``."""

    x: Buffer
    y: Buffer
    out: Buffer


@dataclass(frozen=True, eq=False)
class SelectRows:
    """out = the rows of ``x`` whose logits are wanted; from here on buffers have ``rows="logits"``."""

    x: Buffer
    out: Buffer


@dataclass(frozen=True, eq=False)
class SoftCap:
    """out = cap * tanh(x / cap). ``out`` may be ``x``."""

    x: Buffer
    out: Buffer
    cap: float


Op = Embed | RmsNorm | MatMul | Rope | WriteKV | Attention | GatedActivation | Add | SelectRows | SoftCap


@dataclass(frozen=True)
class KVLayer:
    """Shape of one layer's keys and values in the cache."""

    num_kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """A model ready to run.

    Attributes:
        ops: in order of execution.
        buffers: every buffer the ops name.
        kv_layers: what each ``kv_layer`` index of the ops stores.
        logits: the buffer that holds the result, (logit rows, vocab_size).
        vocab_size: width of ``logits``.
    """

    ops: tuple[Op, ...]
    buffers: tuple[Buffer, ...]
    kv_layers: tuple[KVLayer, ...]
    logits: Buffer
    vocab_size: int
