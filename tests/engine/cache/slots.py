"""Stands for the backend's bytes: which token is in each slot of each block."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cache.kv_cache import BlockTable, KVCache
from engine.model.plan import BLOCK_SIZE


class Slots:
    def __init__(self, num_blocks: int) -> None:
        self.blocks = [[-1] * BLOCK_SIZE for _ in range(num_blocks)]
        self.num_copies = 0

    def copy_block(self, source: int, target: int) -> None:
        self.blocks[target] = list(self.blocks[source])
        self.num_copies += 1

    def write(self, table: BlockTable, token_ids: Sequence[int], start: int, end: int) -> None:
        for position in range(start, end):
            self.blocks[int(table.block_ids[position // BLOCK_SIZE])][position % BLOCK_SIZE] = token_ids[position]

    def read(self, table: BlockTable, num_tokens: int) -> list[int]:
        return [
            self.blocks[int(table.block_ids[position // BLOCK_SIZE])][position % BLOCK_SIZE]
            for position in range(num_tokens)
        ]


def make_cache(num_blocks: int, **options: int) -> tuple[KVCache, Slots]:
    slots = Slots(num_blocks)
    return KVCache(num_blocks, slots.copy_block, **options), slots
