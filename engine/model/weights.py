"""A model's tensors under the names the plan uses: bound by name, checked, normalised.

Names, shapes and types are checked against the hyperparameters before any byte of a weight is read. What files
do differently is made the same here: a fused matrix becomes row slices of the same bytes, a tied output matrix
becomes the token embedding, vectors become float32, and scalar factors on the residual stream or the logits go
into norms. A tensor that no part of the layout asks for means a layout this version does not know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.errors import UnsupportedModelError
from engine.gguf import GGUFFile, TensorType
from engine.model.architectures import Architecture, QueryKeyNorm
from engine.model.hyperparameters import Hyperparameters, LayerHyperparameters
from engine.model.plan import Tensor

_FLOAT_TYPES = {TensorType.F32, TensorType.F16, TensorType.BF16}
MATRIX_TYPES = _FLOAT_TYPES | {
    TensorType.Q4_0,
    TensorType.Q4_1,
    TensorType.Q5_0,
    TensorType.Q5_1,
    TensorType.Q8_0,
    TensorType.Q2_K,
    TensorType.Q3_K,
    TensorType.Q4_K,
    TensorType.Q5_K,
    TensorType.Q6_K,
    TensorType.IQ1_S,
    TensorType.IQ1_M,
    TensorType.IQ2_XXS,
    TensorType.IQ2_XS,
    TensorType.IQ2_S,
    TensorType.IQ3_XXS,
    TensorType.IQ3_S,
    TensorType.IQ4_NL,
    TensorType.IQ4_XS,
    TensorType.TQ1_0,
    TensorType.TQ2_0,
    TensorType.MXFP4,
    TensorType.NVFP4,
}
# Left over from conversion; no computation uses them.
_IGNORED_SUFFIXES = ("attn_rot_embd.weight", "attn.rotary_emb.inv_freq")


@dataclass(frozen=True, eq=False)
class Linear:
    """A matrix with its bias, if it has one."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """What makes queries, keys and values; norms and sinks are None where the architecture has none."""

    query: Linear
    key: Linear
    value: Linear
    query_norm: Tensor | None
    key_norm: Tensor | None
    sinks: Tensor | None


@dataclass(frozen=True, eq=False)
class FeedForwardWeights:
    """A gated feed-forward."""

    gate: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Tensors of one layer; a norm is None where the architecture has none.

    Attributes:
        attention: None where ``attention_output`` alone stands for it.
        attention_output: None where the layer has no attention part.
        feed_forward: None where the layer has none.
    """

    attention_norm: Tensor | None
    attention: AttentionWeights | None
    attention_output: Linear | None
    attention_post_norm: Tensor | None
    feed_forward_norm: Tensor | None
    feed_forward: FeedForwardWeights | None
    feed_forward_post_norm: Tensor | None


@dataclass(frozen=True, eq=False)
class Weights:
    """All tensors of a model.

    Attributes:
        token_embedding: (vocab_size, embedding_dim).
        layers: in order.
        output_norm: with factors on the logits already in it.
        output: (vocab_size, embedding_dim); the token embedding itself when tied.
        rope_factors: divide the rope frequencies whatever the context; None is none.
        long_rope_factors, short_rope_factors: the same for contexts above and up to the original length.
    """

    token_embedding: Tensor
    layers: tuple[LayerWeights, ...]
    output_norm: Tensor
    output: Linear
    rope_factors: npt.NDArray[np.float32] | None
    long_rope_factors: npt.NDArray[np.float32] | None
    short_rope_factors: npt.NDArray[np.float32] | None


def bind_weights(file: GGUFFile, hyperparameters: Hyperparameters) -> Weights:
    """Bind the tensors of ``file``; the result refers to its mapped bytes and lives no longer than they.

    Raises UnsupportedModelError, before any matrix is read, for a tensor that is absent, unknown, or of a shape or
    type this version cannot compute with.
    """
    binder = _Binder(file, hyperparameters.architecture)
    embedding_dim, vocab_size = hyperparameters.embedding_dim, hyperparameters.vocab_size
    token_embedding = binder.matrix("token_embd.weight", vocab_size, embedding_dim)
    output = (
        binder.linear("output", vocab_size, embedding_dim)
        if "output.weight" in file.tensors
        else Linear(token_embedding, binder.bias("output", vocab_size))
    )
    output_norm = binder.vector("output_norm.weight", embedding_dim)
    layers = tuple(
        _bind_layer(binder, hyperparameters.row, layer, f"blk.{index}.", embedding_dim)
        for index, layer in enumerate(hyperparameters.layers)
    )
    num_pairs = max((layer.rope.rotated_dims // 2 for layer in hyperparameters.layers if layer.rope), default=0)
    weights = Weights(
        token_embedding=token_embedding,
        layers=layers,
        output_norm=_scaled(output_norm, hyperparameters.logit_scale),
        output=output,
        rope_factors=binder.rope_factors("rope_freqs.weight", num_pairs),
        long_rope_factors=binder.rope_factors("rope_factors_long.weight", num_pairs),
        short_rope_factors=binder.rope_factors("rope_factors_short.weight", num_pairs),
    )
    binder.check_all_used()
    return weights


def _bind_layer(
    binder: _Binder, row: Architecture, layer: LayerHyperparameters, prefix: str, embedding_dim: int
) -> LayerWeights:
    def norm(is_there: bool, name: str) -> Tensor | None:
        return binder.vector(prefix + name, embedding_dim) if is_there else None

    has_attention, has_feed_forward = layer.num_heads > 0, layer.feed_forward_dim > 0
    attended_dim = layer.num_heads * layer.value_dim if layer.num_kv_heads else embedding_dim
    return LayerWeights(
        attention_norm=norm(has_attention and row.has_pre_norms, "attn_norm.weight"),
        attention=_bind_attention(binder, row, layer, prefix, embedding_dim) if layer.num_kv_heads else None,
        attention_output=(
            binder.linear(f"{prefix}attn_output", embedding_dim, attended_dim) if has_attention else None
        ),
        attention_post_norm=norm(
            has_attention and row.has_post_norms, "post_attention_norm" + row.post_norm_suffix
        ),
        feed_forward_norm=norm(has_feed_forward and row.has_pre_norms, row.feed_forward_norm + ".weight"),
        feed_forward=_bind_feed_forward(binder, row, layer, prefix, embedding_dim) if has_feed_forward else None,
        feed_forward_post_norm=norm(
            has_feed_forward and row.has_post_norms, "post_ffw_norm" + row.post_norm_suffix
        ),
    )


def _bind_attention(
    binder: _Binder, row: Architecture, layer: LayerHyperparameters, prefix: str, embedding_dim: int
) -> AttentionWeights:
    query_dim, key_dim = layer.num_heads * layer.key_dim, layer.num_kv_heads * layer.key_dim
    value_dim = layer.num_kv_heads * layer.value_dim
    if f"{prefix}attn_qkv.weight" in binder:
        query, key, value = binder.split(f"{prefix}attn_qkv", (query_dim, key_dim, value_dim), embedding_dim)
    else:
        query = binder.linear(f"{prefix}attn_q", query_dim, embedding_dim)
        key = binder.linear(f"{prefix}attn_k", key_dim, embedding_dim)
        value = binder.linear(f"{prefix}attn_v", value_dim, embedding_dim)

    def norm(name: str, row_dim: int) -> Tensor | None:
        match row.query_key_norm:
            case QueryKeyNorm.NONE:
                return None
            case QueryKeyNorm.HEAD:
                return binder.vector(prefix + name, layer.key_dim)
            case QueryKeyNorm.ROW:
                return binder.vector(prefix + name, row_dim)

    return AttentionWeights(
        query=query,
        key=key,
        value=value,
        query_norm=norm("attn_q_norm.weight", query_dim),
        key_norm=norm("attn_k_norm.weight", key_dim),
        sinks=binder.vector(f"{prefix}attn_sinks.weight", layer.num_heads) if row.has_sinks else None,
    )


def _bind_feed_forward(
    binder: _Binder, row: Architecture, layer: LayerHyperparameters, prefix: str, embedding_dim: int
) -> FeedForwardWeights:
    hidden_dim = layer.feed_forward_dim
    if row.is_gate_up_fused:
        gate, up = binder.split(f"{prefix}ffn_up", (hidden_dim, hidden_dim), embedding_dim)
    else:
        gate = binder.linear(f"{prefix}ffn_gate", hidden_dim, embedding_dim)
        up = binder.linear(f"{prefix}ffn_up", hidden_dim, embedding_dim)
    return FeedForwardWeights(gate, up, down=binder.linear(f"{prefix}ffn_down", embedding_dim, hidden_dim))


class _Binder:
    """Hands out tensors of one file, checked, and remembers which were asked for."""

    def __init__(self, file: GGUFFile, architecture: str) -> None:
        self._file = file
        self._architecture = architecture
        self._used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors

    def matrix(self, name: str, num_rows: int, num_columns: int) -> Tensor:
        """A matrix of that shape in a type that can be multiplied."""
        tensor = self._take(name, (num_rows, num_columns))
        if tensor.type not in MATRIX_TYPES:
            raise self._unsupported(f"the tensor type {tensor.type.name} of {name} cannot be computed with")
        return tensor

    def vector(self, name: str, width: int) -> Tensor:
        """A vector as float32."""
        tensor = self._take(name, (width,))
        if tensor.type is TensorType.F32:
            return tensor
        if tensor.type is TensorType.F16:
            return _float_tensor(name, tensor.data.view(np.float16).astype(np.float32))
        if tensor.type is TensorType.BF16:
            return _float_tensor(name, (tensor.data.view(np.uint16).astype(np.uint32) << 16).view(np.float32))
        raise self._unsupported(f"the tensor type {tensor.type.name} of {name} cannot be computed with")

    def bias(self, name: str, width: int) -> Tensor | None:
        """The bias beside the matrix ``name``, if the file has one."""
        return self.vector(f"{name}.bias", width) if f"{name}.bias" in self else None

    def linear(self, name: str, num_rows: int, num_columns: int) -> Linear:
        """A matrix and its bias."""
        return Linear(self.matrix(f"{name}.weight", num_rows, num_columns), self.bias(name, num_rows))

    def split(self, name: str, heights: tuple[int, ...], num_columns: int) -> tuple[Linear, ...]:
        """The parts of a fused matrix, as views of its bytes."""
        fused = self.linear(name, sum(heights), num_columns)
        parts, start = [], 0
        for height in heights:
            stop = start + height
            bias = None if fused.bias is None else _rows(fused.bias, start, stop)
            parts.append(Linear(_rows(fused.weight, start, stop), bias))
            start = stop
        return tuple(parts)

    def rope_factors(self, name: str, num_pairs: int) -> npt.NDArray[np.float32] | None:
        """Divisors of the rope frequencies, if the file has them."""
        if name not in self or not num_pairs:
            return None
        factors: npt.NDArray[np.float32] = self.vector(name, num_pairs).data.view(np.float32)
        if not (np.isfinite(factors).all() and (factors > 0.0).all()):
            raise self._unsupported(f"the values of {name} cannot divide frequencies")
        return factors

    def check_all_used(self) -> None:
        """Refuse a file with tensors that this layout has no use for."""
        for name in self._file.tensors:
            if name not in self._used and not name.endswith(_IGNORED_SUFFIXES):
                raise self._unsupported(f"the tensor {name[:80]!r} is no part of it")

    def _take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        info = self._file.tensors.get(name)
        if info is None:
            raise self._unsupported(f"the tensor {name} is absent")
        if info.shape != shape:
            raise self._unsupported(f"the tensor {name} has the shape {_shown(info.shape)}, not {_shown(shape)}")
        self._used.add(name)
        return Tensor(name=name, type=info.type, shape=shape, data=self._file.tensor_data(name))

    def _unsupported(self, reason: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            self._file.path,
            f"its layout is not one this version knows for the architecture {self._architecture!r}: {reason}. "
            "Choose another model or a newer version.",
        )


def _rows(tensor: Tensor, start: int, stop: int) -> Tensor:
    """Rows ``start`` to ``stop`` of a matrix (values, of a vector) as a view of the same bytes."""
    row_bytes = tensor.type.row_bytes(math.prod(tensor.shape[1:]))
    return Tensor(
        name=f"{tensor.name}[{start}:{stop}]",
        type=tensor.type,
        shape=(stop - start, *tensor.shape[1:]),
        data=tensor.data[start * row_bytes : stop * row_bytes],
    )


def _float_tensor(name: str, values: npt.NDArray[np.float32]) -> Tensor:
    return Tensor(name=name, type=TensorType.F32, shape=values.shape, data=values.view(np.uint8).reshape(-1))


def _scaled(tensor: Tensor, factor: float) -> Tensor:
    """A float32 vector times ``factor``."""
    if factor == 1.0:
        return tensor
    return _float_tensor(tensor.name, tensor.data.view(np.float32) * np.float32(factor))


def _shown(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
