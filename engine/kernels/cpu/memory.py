"""The arrays that a program's operands point to: buffers, activations, vectors, rope tables, counters.

Owns them and hands out addresses, which are valid as long as the object. It knows nothing of kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.formats import ActivationFormat, activation_bytes
from engine.kernels.cpu.threads import aligned_zeros
from engine.model.plan import BLOCK_SIZE, Buffer, RopeTable, Tensor

FINE_POSITIONS = 64  # positions of the fine table, see ``rope``
_CHUNK_ROWS = 32  # of the coarse table that are made at once
CHUNK_POSITIONS = _CHUNK_ROWS * FINE_POSITIONS


class Place(NamedTuple):
    """A piece of the shared memory, in bytes."""

    start: int
    end: int

    def overlaps(self, other: Place) -> bool:
        """Whether some bytes are in both."""
        return self.start < other.end and other.start < self.end


class Memory:
    """Arrays by what they are for; the same question gets the same address."""

    def __init__(
        self,
        *,
        max_batch_tokens: int,
        max_logit_rows: int,
        num_blocks: int,
        num_counters: int,
        num_experts_used: int = 0,
        num_states: int = 0,
    ) -> None:
        self.max_batch_tokens = max_batch_tokens
        self.max_logit_rows = max_logit_rows
        self.num_counters = num_counters
        self.num_states = num_states
        self.max_pairs = max_batch_tokens * num_experts_used
        self.max_positions = num_blocks * BLOCK_SIZE
        self._counters = aligned_zeros(num_counters * 8).data
        self._no_counts = bytes(num_counters * 8)
        self._arrays: dict[object, npt.NDArray[np.uint8]] = {}
        self._shared = aligned_zeros(0)
        self._places: Mapping[Any, Place] = {}
        self._addresses: dict[Buffer, int] = {}
        self._vectors: dict[int, npt.NDArray[np.float32]] = {}
        self._tensors: list[Tensor] = []
        self._tables: dict[int, _AngleTable] = {}

    def bytes_for(self, key: object, num_bytes: int) -> npt.NDArray[np.uint8]:
        """The array of a key, zeros at first, aligned to 64 bytes."""
        if key not in self._arrays:
            self._arrays[key] = aligned_zeros(num_bytes)
        return self._arrays[key]

    def share(self, places: Mapping[Any, Place]) -> None:
        """Let buffers, and their quantised forms as (buffer, format), lie in one piece of memory.

        Before they are asked for; the places must be multiples of 64 and large enough. Those that overlap must
        never be needed at the same time.
        """
        if not self._places:
            self._places = places
            self._shared = aligned_zeros(max((place.end for place in places.values()), default=0))

    def _array(self, key: object, num_bytes: int) -> npt.NDArray[np.uint8]:
        """As ``bytes_for``, of a buffer or a quantised form."""
        if key in self._places:
            start = self._places[key].start
            return self._shared[start : start + num_bytes]
        return self.bytes_for(key, num_bytes)

    def states(self, num_values: int) -> npt.NDArray[np.float32]:
        """Recurrent states of all sequences, (states, values of one) float32."""
        array = self.bytes_for("states", self.num_states * num_values * 4).view(np.float32)
        return array.reshape(self.num_states, num_values)

    def rows_of(self, buffer: Buffer) -> int:
        """Rows a buffer has room for."""
        rows = {"tokens": self.max_batch_tokens, "logits": self.max_logit_rows, "pairs": self.max_pairs}
        return rows[buffer.rows]

    def buffer(self, buffer: Buffer) -> int:
        """Address of a buffer."""
        if buffer not in self._addresses:
            self._addresses[buffer] = self._buffer_bytes(buffer).ctypes.data
        return self._addresses[buffer]

    def _buffer_bytes(self, buffer: Buffer) -> npt.NDArray[np.uint8]:
        return self._array(buffer, self.rows_of(buffer) * buffer.width * 4)

    def rows(self, buffer: Buffer, num_rows: int) -> npt.NDArray[np.float32]:
        """The first rows of a buffer."""
        return self._buffer_bytes(buffer).view(np.float32).reshape(-1, buffer.width)[:num_rows]

    def activation(self, buffer: Buffer, activation: ActivationFormat) -> int:
        """Address of a buffer's quantised rows."""
        num_bytes = activation_bytes(activation, buffer.width, self.rows_of(buffer))
        return self._array((buffer, activation), num_bytes).ctypes.data

    def counter(self, index: int) -> int:
        """Address of an int64 that ``clear_counters`` sets to 0."""
        assert index < self.num_counters, "an op has one counter at most"
        return self.counters + index * 8

    @property
    def counters(self) -> int:
        """Address of all counters, one after the other."""
        return np.asarray(self._counters).ctypes.data

    def clear_counters(self) -> None:
        """Set all counters to 0, before each step."""
        self._counters[:] = self._no_counts

    def set_logit_rows(self, max_logit_rows: int) -> None:
        """Make room for more logit rows; the addresses of buffers with ``rows="logits"`` change."""
        self.max_logit_rows = max_logit_rows
        for key in list(self._arrays):
            buffer = key[0] if isinstance(key, tuple) else key
            if isinstance(buffer, Buffer) and buffer.rows == "logits":
                del self._arrays[key]
                self._addresses.pop(buffer, None)

    def clear(self) -> None:
        """Free everything."""
        self._arrays.clear()
        self._shared = aligned_zeros(0)
        self._addresses.clear()
        self._vectors.clear()
        self._tensors.clear()
        self._tables.clear()

    def weight(self, tensor: Tensor) -> int:
        """Address of a tensor's mapped bytes, which stay mapped as long as this object lives."""
        self._tensors.append(tensor)
        return tensor.data.ctypes.data

    def vector(self, tensor: Tensor) -> int:
        """Address of a vector's values as float32."""
        if id(tensor) not in self._vectors:
            self._tensors.append(tensor)
            self._vectors[id(tensor)] = _float_values(tensor)
        return self._vectors[id(tensor)].ctypes.data

    def angle_tables(self, table: RopeTable) -> tuple[int, int]:
        """Addresses of a rope table's coarse and fine angles: (positions, pairs, 2) cosine and sine, float64.

        They are there as far as ``prepare_positions`` was asked for.
        """
        if id(table) not in self._tables:
            self._tables[id(table)] = _AngleTable(table, self.max_positions)
        found = self._tables[id(table)]
        return found.coarse.ctypes.data, found.fine.ctypes.data

    def prepare_positions(self, num_positions: int) -> None:
        """Make the angles of the positions below ``num_positions``, before a step that has them."""
        for table in self._tables.values():
            table.prepare(num_positions)


class _AngleTable:
    """The angles of one rope table, made in chunks as positions come up: those of 32,768 take 40 ms.

    What is in a chunk does not depend on when it is made.

    Attributes:
        coarse: (max_positions / FINE_POSITIONS, pairs, 2) float64, of every FINE_POSITIONS-th position.
        fine: (FINE_POSITIONS, pairs, 2) float64.
    """

    def __init__(self, table: RopeTable, max_positions: int) -> None:
        self._table = table  # whose id is the key: it must live as long
        self._frequencies = np.asarray(table.inv_freq, np.float64)
        self._num_rows = 0
        self.coarse = np.empty((-(-max_positions // FINE_POSITIONS), self._frequencies.size, 2))
        self.fine = _cos_sin(np.arange(FINE_POSITIONS), self._frequencies)

    def prepare(self, num_positions: int) -> None:
        while self._num_rows * FINE_POSITIONS < num_positions and self._num_rows < len(self.coarse):
            begin, end = self._num_rows, min(self._num_rows + _CHUNK_ROWS, len(self.coarse))
            positions = np.arange(begin, end) * FINE_POSITIONS
            self.coarse[begin:end] = _cos_sin(positions, self._frequencies) * self._table.magnitude
            self._num_rows = end


def _cos_sin(positions: npt.NDArray[np.int64], frequencies: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    angles = positions[:, None] * frequencies
    return np.ascontiguousarray(np.stack([np.cos(angles), np.sin(angles)], axis=-1))


def _float_values(tensor: Tensor) -> npt.NDArray[np.float32]:
    match tensor.type:
        case TensorType.F32:
            return tensor.data.view(np.uint8).copy().view(np.float32)
        case TensorType.F16:
            return tensor.data.copy().view(np.float16).astype(np.float32)
        case TensorType.BF16:
            return (tensor.data.copy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        case _:
            from engine.kernels.dequantize import dequantize_vector  # rare, and slow to import

            return np.ascontiguousarray(dequantize_vector(tensor))
