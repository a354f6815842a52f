"""Hands out the tensors of one file, checked, and remembers which were asked for.

Names, shapes and types are checked before any byte of a matrix is read. A fused matrix becomes row slices of the
same bytes, vectors become float32. A tensor that no part of the layout asks for means a layout this version does
not know.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.errors import UnsupportedModelError
from engine.gguf import GGUFFile, TensorType
from engine.model.header.limits import MAX_WIDTH
from engine.model.plan import Tensor
from engine.model.rope import RopeParameters
from engine.model.weights.parts import Linear, NormWeights

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
    TensorType.Q1_0,
}
# Left over from conversion, or of parts that are computed without them; no computation uses them. The scale of an
# input is for activations of four bits.
_IGNORED = re.compile(
    r"(\.attn_rot_embd\.weight|\.attn\.rotary_emb\.inv_freq|\.indexer\.[a-z_]+\.weight|\.input_scale)$"
)
_LAYER_NAME = re.compile(r"blk\.(\d{1,9})\.")


class Binder:
    """The tensors of one file."""

    def __init__(self, file: GGUFFile, architecture: str) -> None:
        self._file = file
        self._architecture = architecture
        self._used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors

    def num_rows(self, name: str) -> int:
        """Rows of a matrix whose height the header does not state."""
        info = self._file.tensors.get(name)
        if info is None:
            raise self.unsupported(f"the tensor {name} is absent")
        if len(info.shape) < 2 or not 0 < info.shape[-2] <= MAX_WIDTH:
            raise self.unsupported(f"the tensor {name} has the shape {_shown(info.shape)}, which is no matrix")
        return info.shape[-2]

    def matrix(self, name: str, *shape: int) -> Tensor:
        """A matrix, or several in one tensor, of that shape in a type that can be multiplied."""
        tensor = self._take(name, shape)
        if tensor.type not in MATRIX_TYPES:
            raise self.unsupported(f"the tensor type {tensor.type.name} of {name} cannot be computed with")
        return tensor

    def vector(self, name: str, *shape: int) -> Tensor:
        """A vector, or an array of that shape, as float32."""
        tensor = self._take(name, shape)
        if tensor.type is TensorType.F32:
            return tensor
        if tensor.type is TensorType.F16:
            return float_tensor(name, tensor.data.view(np.float16).astype(np.float32).reshape(shape))
        if tensor.type is TensorType.BF16:
            values = (tensor.data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            return float_tensor(name, values.reshape(shape))
        raise self.unsupported(f"the tensor type {tensor.type.name} of {name} cannot be computed with")

    def optional_vector(self, name: str, *shape: int) -> Tensor | None:
        """The vector, if the file has it."""
        return self.vector(name, *shape) if name in self else None

    def flat_vector(self, name: str, width: int) -> Tensor:
        """A vector that some files store with a second dimension of 1."""
        info = self._file.tensors.get(name)
        shape = (width, 1) if info is not None and info.shape == (width, 1) else (width,)
        return float_tensor(name, self.vector(name, *shape).data.view(np.float32))

    def taps(self, name: str, channels: int, num_taps: int) -> Tensor:
        """Weights of a convolution as (taps, channels)."""
        weight = self.vector(name, channels, num_taps)
        return float_tensor(name, weight.data.view(np.float32).reshape(channels, num_taps).T)

    def number(self, name: str) -> float:
        """A tensor of one finite value."""
        value = float(self.vector(name, 1).data.view(np.float32)[0])
        if not math.isfinite(value):
            raise self.unsupported(f"the value of {name} is no number to multiply with")
        return value

    def norm(self, name: str, width: int) -> NormWeights:
        """A norm's weight, whose name may lack the usual ending, and its bias, if it has one."""
        full_name = name if f"{name}.weight" not in self and name in self else f"{name}.weight"
        return NormWeights(self.vector(full_name, width), self.optional_vector(f"{name}.bias", width))

    def linear(self, name: str, num_rows: int, num_columns: int) -> Linear:
        """A matrix with its bias and its factor, if the file has them."""
        bias = self.optional_vector(f"{name}.bias", num_rows)
        scale = self.number(f"{name}.scale") if f"{name}.scale" in self else 1.0
        if bias is not None and scale != 1.0:
            if scale == 0.0:
                raise self.unsupported(f"the value of {name}.scale is 0")
            bias = scaled(bias, 1.0 / scale)
        return Linear(self.matrix(f"{name}.weight", num_rows, num_columns), bias, scale)

    def row(self, name: str, width: int) -> Linear:
        """A vector as a matrix of one row."""
        tensor = self._take(name, (width,))
        if tensor.type not in _FLOAT_TYPES:
            raise self.unsupported(f"the tensor type {tensor.type.name} of {name} cannot be computed with")
        return Linear(Tensor(name, tensor.type, (1, width), tensor.data))

    def split(self, name: str, heights: tuple[int, ...], num_columns: int) -> tuple[Linear, ...]:
        """The parts of a fused matrix, as views of its bytes."""
        fused = self.linear(name, sum(heights), num_columns)
        parts, start = [], 0
        for height in heights:
            stop = start + height
            bias = None if fused.bias is None else rows(fused.bias, start, stop)
            parts.append(Linear(rows(fused.weight, start, stop), bias, fused.scale))
            start = stop
        return tuple(parts)

    def rope_factors(self, name: str, ropes: Sequence[RopeParameters]) -> npt.NDArray[np.float32] | None:
        """Divisors of the rope frequencies, if the file has them.

        As many as the widest rotation has pairs, or as the widest that they divide: the two differ where sliding
        layers turn more values than full ones and follow no factors.
        """
        info = self._file.tensors.get(name)
        if info is None or not ropes:
            return None
        widest = max(rope.rotated_dims // 2 for rope in ropes)
        widest_divided = max((rope.rotated_dims // 2 for rope in ropes if rope.has_factors), default=widest)
        num_pairs = widest_divided if info.shape == (widest_divided,) else widest
        factors: npt.NDArray[np.float32] = self.vector(name, num_pairs).data.view(np.float32)
        if not (np.isfinite(factors).all() and (factors > 0.0).all()):
            raise self.unsupported(f"the values of {name} cannot divide frequencies")
        return factors

    def leave(self, *names: str) -> None:
        """Tensors that the file may have and the computation does without."""
        self._used.update(names)

    def check_all_used(self, num_layers: int) -> None:
        """Refuse a file with tensors that this layout has no use for, save blocks from ``num_layers`` on."""
        for name in self._file.tensors:
            layer = _LAYER_NAME.match(name)
            is_extra = layer is not None and int(layer.group(1)) >= num_layers
            if name not in self._used and not is_extra and not _IGNORED.search(name):
                raise self.unsupported(f"the tensor {name[:80]!r} is no part of it")

    def unsupported(self, reason: str) -> UnsupportedModelError:
        """The error that names a layout as unknown."""
        return UnsupportedModelError(
            self._file.path,
            f"its layout is not one this version knows for the architecture {self._architecture!r}: {reason}. "
            "Choose another model or a newer version.",
        )

    def _take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        info = self._file.tensors.get(name)
        if info is None:
            raise self.unsupported(f"the tensor {name} is absent")
        if info.shape != shape:
            raise self.unsupported(f"the tensor {name} has the shape {_shown(info.shape)}, not {_shown(shape)}")
        self._used.add(name)
        return Tensor(name=name, type=info.type, shape=shape, data=self._file.tensor_data(name))


def rows(tensor: Tensor, start: int, stop: int) -> Tensor:
    """Rows ``start`` to ``stop`` of a matrix (values, of a vector) as a view of the same bytes."""
    row_bytes = tensor.type.row_bytes(math.prod(tensor.shape[1:]))
    return Tensor(
        name=f"{tensor.name}[{start}:{stop}]",
        type=tensor.type,
        shape=(stop - start, *tensor.shape[1:]),
        data=tensor.data[start * row_bytes : stop * row_bytes],
    )


def float_tensor(name: str, values: npt.NDArray[np.float32]) -> Tensor:
    """A float32 tensor of our own."""
    values = np.ascontiguousarray(values, np.float32)
    return Tensor(name=name, type=TensorType.F32, shape=values.shape, data=values.view(np.uint8).reshape(-1))


def scaled(tensor: Tensor, factor: float) -> Tensor:
    """A float32 vector times ``factor``."""
    if factor == 1.0:
        return tensor
    with np.errstate(over="ignore", invalid="ignore"):  # the sampler finds out what a damaged weight does
        values = tensor.data.view(np.float32) * np.float32(factor)
    return float_tensor(tensor.name, values.reshape(tensor.shape))


def _shown(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)
