"""The table of quantised weight types: how each is unpacked, and what its integers mean.

Owns no code of its own; the float types, which have no integers, are in ``matmul_float``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu import unpack_iq, unpack_k, unpack_legacy, unpack_wide

Unpack = Callable[[int, int, int, int, int, int], None]  # the shape is told in unpack_legacy


@dataclass(frozen=True)
class WeightType:
    """How the integers of one tensor type are read.

    Attributes:
        type: the tensor type.
        unpack: from blocks to integers, scales and offsets; inlined into kernels.
        lowest, highest: of the integers.
        is_affine: integers are 0..127 and offsets are written; else they are -128..127 without offsets.
        values_per_scale: 32 or 16.
    """

    type: TensorType
    unpack: Unpack
    lowest: int
    highest: int
    is_affine: bool = False
    values_per_scale: int = 32

    @property
    def block_values(self) -> int:
        """Values in one block of the file."""
        return self.type.block_size

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of the file."""
        return self.type.block_bytes


def weight_type(tensor_type: TensorType) -> WeightType:
    """The row of the table; KeyError for a type that is not quantised or not known."""
    if tensor_type in unpack_iq.GRID_TYPES:
        unpack, values_per_scale = unpack_iq.grid_unpacker(tensor_type)
        largest = unpack_iq.GRID_TYPES[tensor_type]
        return WeightType(tensor_type, unpack, -largest, largest, False, values_per_scale)
    return _TABLE[tensor_type]


_TABLE = {
    row.type: row
    for row in (
        WeightType(TensorType.Q4_0, unpack_legacy.unpack_q4_0, -8, 7),
        WeightType(TensorType.Q4_1, unpack_legacy.unpack_q4_1, 0, 15, is_affine=True),
        WeightType(TensorType.Q5_0, unpack_legacy.unpack_q5_0, -16, 15),
        WeightType(TensorType.Q5_1, unpack_legacy.unpack_q5_1, 0, 31, is_affine=True),
        WeightType(TensorType.Q8_0, unpack_legacy.unpack_q8_0, -128, 127),
        WeightType(TensorType.IQ4_NL, unpack_legacy.unpack_iq4_nl, -127, 113),
        WeightType(TensorType.MXFP4, unpack_legacy.unpack_mxfp4, -12, 12),
        WeightType(TensorType.Q2_K, unpack_k.unpack_q2_k, 0, 3, is_affine=True, values_per_scale=16),
        WeightType(TensorType.Q3_K, unpack_k.unpack_q3_k, -4, 3, values_per_scale=16),
        WeightType(TensorType.Q4_K, unpack_k.unpack_q4_k, 0, 15, is_affine=True),
        WeightType(TensorType.Q5_K, unpack_k.unpack_q5_k, 0, 31, is_affine=True),
        WeightType(TensorType.Q6_K, unpack_k.unpack_q6_k, -32, 31, values_per_scale=16),
        WeightType(TensorType.IQ4_XS, unpack_iq.unpack_iq4_xs, -127, 113),
        WeightType(TensorType.TQ1_0, unpack_iq.unpack_tq1_0, -1, 1),
        WeightType(TensorType.TQ2_0, unpack_iq.unpack_tq2_0, -1, 1),
        WeightType(TensorType.NVFP4, unpack_wide.unpack_nvfp4, -12, 12, values_per_scale=16),
        WeightType(TensorType.Q1_0, unpack_wide.unpack_q1_0, -1, 1),
    )
}
