"""The plan: a model as a flat list of ops over named buffers, the same for every architecture and device.

``graph.build_plan`` makes it once at load from an architecture's row and the file's hyperparameters.
A backend executes it for one batch at a time; it knows ops, buffers and tensors, and nothing of architectures.

A buffer holds float32 rows, one row a token of the batch (``rows="tokens"``), one row a wanted logit
(``rows="logits"``), or one row a pair of a token and an expert (``rows="pairs"``). Ops read and write whole
buffers; ``out`` may be the same buffer as an input where the op's docstring says so.
"""

from __future__ import annotations

from engine.model.plan_experts import Combine, Dispatch, ExpertMatMul, Route
from engine.model.plan_states import CausalConv, DeltaRule, SelectiveScan
from engine.model.plan_streams import KeepLargest, MatchLength, MixStreams, ScaleColumns
from engine.model.plan_values import BLOCK_SIZE, Activation, Buffer, Gating, RopeTable, Tensor
from engine.plain_data import dataclass

__all__ = [
    "BLOCK_SIZE",
    "Activate",
    "Activation",
    "Add",
    "Attention",
    "Buffer",
    "CausalConv",
    "Clamp",
    "Combine",
    "Copy",
    "DeltaRule",
    "Dispatch",
    "Embed",
    "ExpertMatMul",
    "GatedActivation",
    "Gating",
    "HeadMatMul",
    "KVLayer",
    "KeepLargest",
    "MatMul",
    "MatchLength",
    "MixStreams",
    "Norm",
    "Op",
    "Plan",
    "Rope",
    "RopeTable",
    "Route",
    "Scale",
    "ScaleByPosition",
    "ScaleColumns",
    "SelectRows",
    "SelectiveScan",
    "SoftCap",
    "Tensor",
    "WriteKV",
]


@dataclass(frozen=True, eq=False)
class Embed:
    """out = weight[token_ids] * scale; with ``by_position`` the rows of the tokens' positions."""

    weight: Tensor
    out: Buffer
    scale: float = 1.0
    by_position: bool = False


@dataclass(frozen=True, eq=False)
class Norm:
    """out = x / sqrt(mean(x^2) + eps) * weight + bias over each of ``num_groups`` equal parts of a row.

    With ``is_centered`` the mean of each part is taken off first (layer norm). ``weight`` has width / num_groups
    values, or width values where the parts have weights of their own; ``bias`` the same; None is none. ``out`` may
    be ``x``.
    """

    x: Buffer
    weight: Tensor | None
    out: Buffer
    eps: float
    num_groups: int = 1
    bias: Tensor | None = None
    is_centered: bool = False


@dataclass(frozen=True, eq=False)
class MatMul:
    """out = x @ weight.T (+ bias)."""

    x: Buffer
    weight: Tensor
    out: Buffer
    bias: Tensor | None = None


@dataclass(frozen=True, eq=False)
class HeadMatMul:
    """Each head of ``x`` times a matrix of its own: the first values of ``x``'s head to the first of ``out``'s.

    ``weight`` is (num_heads, rows, columns). A head has width / num_heads values, of which ``columns`` are read
    and ``rows`` written; the rest of ``out`` stays as it is.
    """

    x: Buffer
    weight: Tensor
    out: Buffer
    num_heads: int


@dataclass(frozen=True, eq=False)
class Copy:
    """Values ``first`` to ``first + count`` of each head of ``x`` to ``out_first`` on in each head of ``out``.

    A head has width / num_heads values; with ``is_shared`` all of ``x`` is one head, which all of ``out`` get.
    """

    x: Buffer
    out: Buffer
    count: int
    num_heads: int = 1
    first: int = 0
    out_first: int = 0
    is_shared: bool = False


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotate ``2 * len(inv_freq)`` values of each head of ``x`` from ``first`` on, by each token's position.

    In place.
    """

    x: Buffer
    num_heads: int
    head_dim: int
    table: RopeTable
    first: int = 0


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
    ``soft_cap * tanh(score / soft_cap)``; then less ``slopes[h]`` times the distance. With ``window`` w a token at
    p sees positions j with p - j < w; with ``chunk`` c those with j // c = p // c. ``sinks`` holds one extra logit
    a head that takes part in the softmax only.
    """

    kv_layer: int
    query: Buffer
    out: Buffer
    num_heads: int
    scale: float
    window: int | None = None
    soft_cap: float | None = None
    sinks: Tensor | None = None
    chunk: int | None = None
    slopes: Tensor | None = None


@dataclass(frozen=True, eq=False)
class GatedActivation:
    """out = activation(gate) * (up + up_offset). ``out`` may be ``up``, or ``gate`` where that has its width.

    A gate of fewer values serves equal runs of ``up``. With ``limit`` c the second factor is clamped to -c..c
    before the offset, and the first to at most c: before the activation with ``is_limit_early``, else after it.
    """

    gate: Buffer
    up: Buffer
    out: Buffer
    activation: Activation
    limit: float | None = None
    is_limit_early: bool = False
    up_offset: float = 0.0


@dataclass(frozen=True, eq=False)
class Activate:
    """out = activation(x). ``out`` may be ``x``.

    XIELU has ``parameters`` (n, p, beta, eps): p x^2 + beta x above 0, else (expm1(min(x, eps)) - x) n + beta x.
    """

    x: Buffer
    out: Buffer
    activation: Activation
    parameters: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, eq=False)
class Add:
    """out = x + y. ``out`` may be ``x`` or ``y``."""

    x: Buffer
    y: Buffer
    out: Buffer


@dataclass(frozen=True, eq=False)
class Scale:
    """out = x * factor. ``out`` may be ``x``."""

    x: Buffer
    out: Buffer
    factor: float


@dataclass(frozen=True, eq=False)
class ScaleByPosition:
    """x *= 1 + scale * ln(floor((position + offset) / length) + 1), in place."""

    x: Buffer
    scale: float
    length: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Clamp:
    """out = x held within -limit..limit. ``out`` may be ``x``."""

    x: Buffer
    out: Buffer
    limit: float


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


Op = (
    Embed
    | Norm
    | MatMul
    | HeadMatMul
    | Copy
    | Rope
    | WriteKV
    | Attention
    | GatedActivation
    | Activate
    | Add
    | Scale
    | ScaleByPosition
    | Clamp
    | SelectRows
    | SoftCap
    | CausalConv
    | SelectiveScan
    | DeltaRule
    | Route
    | Dispatch
    | ExpertMatMul
    | Combine
    | MixStreams
    | MatchLength
    | ScaleColumns
    | KeepLargest
)


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
        num_experts_used: pairs of each token in buffers with ``rows="pairs"``.
        state_sizes: float32 values of each state of a sequence.
        max_positions: positions that the ops can tell apart; None is any number.
    """

    ops: tuple[Op, ...]
    buffers: tuple[Buffer, ...]
    kv_layers: tuple[KVLayer, ...]
    logits: Buffer
    vocab_size: int
    num_experts_used: int = 0
    state_sizes: tuple[int, ...] = ()
    max_positions: int | None = None

    @property
    def state_bytes(self) -> int:
        """Bytes of the recurrent state of one sequence; 0 where the model has none."""
        return 4 * sum(self.state_sizes)
