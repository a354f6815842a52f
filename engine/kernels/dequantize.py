"""Weights as float32, for the reference backend: any tensor type, bounded memory, nothing fast.

The arithmetic of the block formats is the ``gguf`` package's, the one place of the product that uses it, but for
Q1_0, which it does not know.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from engine.gguf.tensor_types import TensorType
from engine.model.plan import Tensor

PANEL_BYTES = 64 << 20  # float32 bytes of the rows dequantised at once where a matrix is too large to keep


def dequantize_rows(tensor: Tensor, rows: npt.NDArray[np.int32] | slice) -> npt.NDArray[np.float32]:
    """Chosen rows of a matrix, (rows, columns) float32."""
    row_bytes = tensor.type.row_bytes(tensor.shape[-1])
    stored = tensor.data.reshape(-1, row_bytes)[rows]
    if tensor.type is TensorType.Q1_0:
        return dequantize_q1_0(stored)
    return np.asarray(dequantize(stored, GGMLQuantizationType(int(tensor.type))), dtype=np.float32)


def dequantize_q1_0(stored: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Rows of Q1_0, (rows, row bytes): a block is a float16 and the signs of 128 values of that size."""
    blocks = stored.reshape(len(stored), -1, TensorType.Q1_0.block_bytes)
    scales = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float32)
    signs = np.unpackbits(blocks[..., 2:], axis=-1, bitorder="little").astype(np.float32) * 2 - 1
    return (scales * signs).reshape(len(stored), -1)


def dequantize_vector(tensor: Tensor) -> npt.NDArray[np.float32]:
    """All values of a tensor in one dimension."""
    return dequantize_rows(tensor, slice(None)).reshape(-1)


class DequantizedWeights:
    """Keeps dequantised matrices up to a number of bytes; the least recently used goes first.

    Attributes:
        max_bytes: most bytes of float32 values that are kept.
        kept_bytes: how many are kept now.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept: OrderedDict[int, tuple[Tensor, npt.NDArray[np.float32]]] = OrderedDict()
        self.kept_bytes = 0

    def panels(self, tensor: Tensor) -> Iterator[tuple[slice, npt.NDArray[np.float32]]]:
        """The rows of a matrix: at once where it may be kept, else in panels that are made anew each time."""
        num_rows, num_columns = tensor.shape
        if num_rows * num_columns * 4 <= self.max_bytes:
            yield slice(0, num_rows), self._matrix(tensor)
            return
        height = max(1, PANEL_BYTES // (4 * num_columns))
        for start in range(0, num_rows, height):
            rows = slice(start, min(start + height, num_rows))
            yield rows, dequantize_rows(tensor, rows)

    def clear(self) -> None:
        """Drop everything that is kept."""
        self._kept.clear()
        self.kept_bytes = 0

    def _matrix(self, tensor: Tensor) -> npt.NDArray[np.float32]:
        # The tensor is kept with its values, so that its id stays its own.
        if id(tensor) in self._kept:
            self._kept.move_to_end(id(tensor))
            return self._kept[id(tensor)][1]
        values = dequantize_rows(tensor, slice(None))
        self._kept[id(tensor)] = (tensor, values)
        self.kept_bytes += values.nbytes
        while self.kept_bytes > self.max_bytes:
            _, (_, dropped) = self._kept.popitem(last=False)
            self.kept_bytes -= dropped.nbytes
        return values
