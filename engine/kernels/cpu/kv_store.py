"""The bytes of the KV cache: keys and values of all layers, in the layout that ``kv_layout`` draws.

Owns the arrays; which block belongs to whom is the cache manager's affair.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from engine.config import KVType
from engine.kernels.cpu.kv_layout import key_block_bytes, value_block_bytes
from engine.kernels.cpu.threads import sparse_zeros
from engine.model.plan import Plan


class KVStore:
    """Keys and values of ``num_blocks`` blocks in all layers of a plan; memory is touched as blocks are written.

    Attributes:
        kv_type: how a value is stored.
        keys, values: for each layer (kv heads, blocks, bytes of a block) uint8, aligned to 64 bytes.
    """

    def __init__(self, plan: Plan, num_blocks: int, kv_type: KVType = "f16") -> None:
        def allocate(num_heads: int, block_bytes: int) -> npt.NDArray[np.uint8]:
            return sparse_zeros(num_heads * num_blocks * block_bytes).reshape(num_heads, num_blocks, block_bytes)

        self.kv_type: KVType = kv_type
        self.keys = [allocate(kv.num_kv_heads, key_block_bytes(kv, kv_type)) for kv in plan.kv_layers]
        self.values = [allocate(kv.num_kv_heads, value_block_bytes(kv, kv_type)) for kv in plan.kv_layers]

    @property
    def num_bytes(self) -> int:
        """Bytes of all blocks."""
        return sum(array.nbytes for array in (*self.keys, *self.values))

    def copy_block(self, source: int, target: int) -> None:
        """Copy block ``source`` to block ``target`` in all layers."""
        for array in (*self.keys, *self.values):
            array[:, target] = array[:, source]

    def read_blocks(self, block_ids: npt.NDArray[np.int32], out: npt.NDArray[np.uint8]) -> None:
        """Copy blocks to ``out``, (blocks, bytes of a block in all layers) uint8."""
        for stored, flat in self._pieces(block_ids, out):
            flat[...] = stored

    def write_blocks(self, block_ids: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> None:
        """Copy what ``read_blocks`` gave to blocks."""
        for stored, flat in self._pieces(block_ids, data):
            stored[...] = flat

    def _pieces(
        self, block_ids: npt.NDArray[np.int32], flat: npt.NDArray[np.uint8]
    ) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]:
        """Views (blocks, kv heads, bytes) that belong together: one array's blocks, their place in ``flat``.

        Blocks whose ids follow each other make one piece.
        """
        starts = np.flatnonzero(np.diff(block_ids, prepend=block_ids[:1] - 2) != 1)
        for start, end in zip(starts, [*starts[1:], len(block_ids)]):
            first, offset = int(block_ids[start]), 0
            for array in (*self.keys, *self.values):
                num_heads, _, num_bytes = array.shape
                part = flat[start:end, offset : offset + num_heads * num_bytes]
                offset += num_heads * num_bytes
                stored = array[:, first : first + end - start].transpose(1, 0, 2)
                yield stored, part.reshape(end - start, num_heads, num_bytes)

    def clear(self) -> None:
        """Free the memory."""
        self.keys.clear()
        self.values.clear()
