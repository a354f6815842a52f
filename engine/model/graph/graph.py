"""Collects the ops of a plan and the buffers they name."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.model.architectures.vocabulary import RopePairs
from engine.model.hyperparameters import Hyperparameters
from engine.model.plan import Add, Buffer, KVLayer, MatMul, Norm, Op, RopeTable, Scale, Tensor
from engine.model.rope import RopeParameters, rope_table
from engine.model.weights.binder import float_tensor
from engine.model.weights.parts import Linear, NormWeights, Weights

Rows = Literal["tokens", "logits", "pairs"]


class Graph:
    """A plan under construction.

    With every part of a layer scaled by s, the stream x behaves as the stream x / s with parts unscaled, an
    embedding divided by s, and norms whose epsilon is divided by s squared: no op needs to know of the scale.

    Attributes:
        model, row, weights: what the plan is made of.
        ops: in order of execution.
        buffers: by name.
        kv_layers: what each layer that writes keys and values stores.
        kv_of_layer: index into ``kv_layers`` by index of the layer, for layers that others borrow from.
        state_sizes: float32 values of each recurrent state.
        stream_scale: s. stream_eps: epsilon of norms that read the stream.
    """

    def __init__(self, model: Hyperparameters, weights: Weights, context_length: int) -> None:
        self.model = model
        self.row = model.row
        self.weights = weights
        self.ops: list[Op] = []
        self.buffers: dict[str, Buffer] = {}
        self.kv_layers: list[KVLayer] = []
        self.state_sizes: list[int] = []
        self.kv_of_layer: dict[int, int] = {}
        self.stream_scale = model.residual_scale
        self.stream_eps = model.norm_eps / self.stream_scale**2
        self._context_length = context_length
        self._tables: dict[RopeParameters, RopeTable] = {}

    def emit(self, *ops: Op) -> None:
        """Append ops."""
        self.ops += ops

    def buffer(self, name: str, width: int, rows: Rows = "tokens") -> Buffer:
        """The buffer of that role; layers of another width get one of their own."""
        buffer = self.buffers.setdefault(name, Buffer(name, width, rows))
        if buffer.width == width:
            return buffer
        wide = f"{name}_{width}"
        return self.buffers.setdefault(wide, Buffer(wide, width, rows))

    def state(self, size: int) -> int:
        """Number of a new recurrent state of ``size`` values."""
        self.state_sizes.append(size)
        return len(self.state_sizes) - 1

    def matmul(self, x: Buffer, linear: Linear, name: str) -> Buffer:
        """x times a matrix, with its bias and factor, in a buffer of its own."""
        out = self.buffer(name, linear.weight.shape[0], x.rows)
        self.emit(MatMul(x, linear.weight, out, linear.bias))
        if linear.scale != 1.0:
            self.emit(Scale(out, out, linear.scale))
        return out

    def norm(self, x: Buffer, weights: NormWeights, out: Buffer, eps: float | None = None, groups: int = 1) -> None:
        """A norm of the model's kind; ``eps`` None is the model's."""
        eps = self.model.norm_eps if eps is None else eps
        centered = self.model.has_centered_norms
        self.emit(Norm(x, weights.weight, out, eps, groups, weights.bias, centered))

    def normed_stream(self, stream: Buffer, weights: NormWeights | None, name: str = "normed") -> Buffer:
        """The stream after a norm, or itself where there is none."""
        if weights is None:
            return stream
        out = self.buffer(name, stream.width)
        self.norm(stream, weights, out, self.stream_eps)
        return out

    def add_part(self, stream: Buffer, part: Buffer, post_norm: NormWeights | None) -> None:
        """Add the result of a part, after its norm, to the stream."""
        if post_norm is not None:
            self.norm(part, post_norm, part, self.row.post_norm_eps)
        self.emit(Add(stream, part, stream))

    def table(self, rope: RopeParameters) -> RopeTable:
        """The rope table of those parameters."""
        if rope not in self._tables:
            # A rotation in several dimensions always pairs halves.
            is_interleaved = self.row.rope is RopePairs.ADJACENT and not rope.sections
            self._tables[rope] = rope_table(rope, is_interleaved=is_interleaved, factors=self._rope_factors(rope))
        return self._tables[rope]

    def _rope_factors(self, rope: RopeParameters) -> npt.NDArray[np.float32] | None:
        weights = self.weights
        if not rope.has_factors:
            return None
        factors = weights.rope_factors
        if factors is None:
            is_long = self._context_length > rope.scaling.original_context_length
            factors = weights.long_rope_factors if is_long else weights.short_rope_factors
        return None if factors is None else factors[: rope.rotated_dims // 2]


def alibi_slopes(num_heads: int, bias: float) -> Tensor:
    """Slope of each head of a bias by distance (Press et al. 2022), whose exponents reach ``bias``.

    A head count that is no power of two takes every second slope of twice the next lower power for the rest.
    """
    power = 1 << (num_heads.bit_length() - 1)
    heads = np.arange(num_heads)
    exponents = np.where(heads < power, (heads + 1) / power, (2 * (heads - power) + 1) / (2 * power))
    return float_tensor("alibi_slopes", (2.0 ** (-bias * exponents)).astype(np.float32))
