"""What the ops of a plan work on: tensors, buffers, rope tables, and the functions of single values they name."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.gguf.tensor_types import TensorType
from engine.plain_data import dataclass

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
    rows: Literal["tokens", "logits", "pairs"] = "tokens"


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
    """What a feed-forward, a gate or a router does with single values."""

    SILU = "silu"
    GELU = "gelu"  # tanh approximation
    QUICK_GELU = "quick gelu"  # x sigmoid(1.702 x)
    RELU = "relu"
    RELU_SQUARED = "relu squared"
    SIGMOID = "sigmoid"
    TANH = "tanh"
    SOFTPLUS = "softplus"
    XIELU = "xielu"  # see ``Activate``
    IDENTITY = "identity"  # a gate that is a plain factor


class Gating(Enum):
    """How a router's logits become the weights of the chosen experts."""

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"
    SOFTMAX_OF_CHOSEN = "softmax of the chosen"
