"""The KV cache manager: gives sequences their blocks, and keeps what they computed for whoever needs it next.

Owns the block pool and the radix tree. Positions ``[0, num_computed_tokens)`` of a sequence are in its blocks, and
the full ones of them are in the tree as soon as they are computed, so that requests that run together share them.
Every block is free, cached (the tree's alone) or active (a sequence's); ``check_integrity`` proves it.
The bytes behind the blocks are the backend's; all it is asked for is to copy a block.

Models with recurrent or convolutional layers (``needs_checkpoints``): a sequence can only go on from where a state
was kept. ``acquire`` then reuses a prefix up to its deepest checkpoint, which it gives as ``table.checkpoint`` for
the backend to load; without one nothing is reused. Whoever runs the model calls ``add_checkpoint`` with the state
after exactly ``num_tokens`` computed tokens, at the ends of prompts and answers and now and then in long ones; the
place need not be a block's end. Checkpoints are bounded by bytes and go with their nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.cache.block_pool import BlockPool
from engine.cache.checkpoints import DEFAULT_MAX_BYTES, Checkpoint
from engine.cache.radix_tree import Match, Node, RadixTree
from engine.model.plan import BLOCK_SIZE


def num_blocks_for(num_tokens: int) -> int:
    """Blocks that hold ``num_tokens`` positions."""
    return -(-num_tokens // BLOCK_SIZE)


class BlockTable:
    """The blocks of one sequence: position p is in ``block_ids[p // 16]``.

    Attributes:
        block_ids: to be read only, and valid until the cache is asked for something.
        num_reused_tokens: tokens that were in the cache when the table was made.
        checkpoint: the state after them; None where they are none or the model needs no states.
    """

    def __init__(self, node: Node) -> None:
        self.block_ids: list[int] = []
        self.num_reused_tokens = 0
        self.checkpoint: Checkpoint | None = None
        self._num_shared = 0  # blocks [0, num_shared) are in the tree, the last of them as ``_node``
        self._node = node
        self._pending_checkpoints: list[Checkpoint] = []  # of a block that is not in the tree yet


class KVCache:
    """Block tables for sequences over ``num_blocks`` blocks.

    ``copy_block(source, target)`` is the backend's. With ``needs_checkpoints`` a prefix is reused up to a state
    only; the states take up to ``max_checkpoint_bytes``.
    """

    def __init__(
        self,
        num_blocks: int,
        copy_block: Callable[[int, int], None],
        *,
        needs_checkpoints: bool = False,
        max_checkpoint_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self._pool = BlockPool(num_blocks)
        self._tree = RadixTree(self._pool, max_checkpoint_bytes)
        self._copy_block = copy_block
        self._match = self._tree.match_checkpoint if needs_checkpoints else self._tree.match
        self._tables: set[BlockTable] = set()
        self._givers: dict[BlockTable, Callable[[], None]] = {}

    @property
    def num_blocks(self) -> int:
        return self._pool.num_blocks

    @property
    def num_free_blocks(self) -> int:
        return self._pool.num_free

    @property
    def num_cached_blocks(self) -> int:
        """Blocks that only the tree holds; they make room when blocks are needed."""
        return self._pool.num_blocks - self._pool.num_free - self.num_active_blocks

    @property
    def num_active_blocks(self) -> int:
        """Blocks that sequences hold."""
        is_active = np.zeros(self._pool.num_blocks, dtype=bool)  # np.unique would import np.ma, for 20 ms
        for table in self._tables:
            is_active[table.block_ids] = True
        return int(np.count_nonzero(is_active))

    def num_matching_tokens(self, token_ids: Sequence[int]) -> int:
        """Tokens of ``token_ids`` that ``acquire`` would find in the cache now."""
        return self._match(token_ids, len(token_ids) - 1).num_tokens

    def acquire(self, token_ids: Sequence[int], limit: int | None = None) -> BlockTable:
        """Make a table that holds the longest cached prefix of ``token_ids[:limit]``.

        By default one token is left to compute, because its logits are wanted. A divergence in mid-block copies the
        shared slots to a block of the sequence's own; without room for it they are computed again.
        """
        match = self._match(token_ids, len(token_ids) - 1 if limit is None else limit)
        table = BlockTable(self._tree.root)
        self._tables.add(table)
        self._share(table, match.nodes)
        if match.source is not None:
            source = match.source.block_id
            self._pool.retain([source])  # making room must not evict it
            if self._grow(table, 1):
                self._copy_block(source, table.block_ids[-1])
                table.num_reused_tokens += match.num_tail_tokens
            self._pool.release([source])
        if match.checkpoint is not None:
            self._take_state(table, match)
        return table

    def hold(self, token_ids: Sequence[int], give_way: Callable[[], None]) -> BlockTable:
        """Make a table that holds the full blocks of ``token_ids`` that are cached, and no other slots.

        ``give_way`` is called when another table needs room and none can be evicted; it must end this one.
        """
        table = BlockTable(self._tree.root)
        self._tables.add(table)
        self._givers[table] = give_way
        self._share(table, self._tree.match(token_ids, len(token_ids)).nodes)
        return table

    def path(self, token_ids: Sequence[int]) -> list[Node]:
        """The tree's nodes that hold ``token_ids``, as far as they are cached. A node that leaves the tree has no
        parent any more, and until then its block does not change."""
        return self._tree.path(token_ids)

    def reserve(self, table: BlockTable, num_tokens: int) -> bool:
        """Give ``table`` blocks for ``num_tokens`` positions, evicting cached ones; False when there is no room."""
        missing = num_blocks_for(num_tokens) - len(table.block_ids)
        return missing <= 0 or self._grow(table, missing)

    def can_hold(self, num_tokens: int) -> bool:
        """Whether a new sequence of ``num_tokens`` would find room beside the active blocks."""
        return num_blocks_for(num_tokens) <= self._pool.num_blocks - self.num_active_blocks

    def commit(self, table: BlockTable, token_ids: Sequence[int], num_computed_tokens: int) -> None:
        """Put the blocks that are full now into the tree.

        Where another sequence has computed the same block meanwhile, the table takes that one and frees its own.
        """
        for index in range(table._num_shared, num_computed_tokens // BLOCK_SIZE):
            start = index * BLOCK_SIZE
            own = table.block_ids[index]
            node = self._tree.insert(table._node, token_ids[start : start + BLOCK_SIZE], own)
            if node.block_id != own:
                self._pool.retain([node.block_id])
                self._pool.release([own])
                table.block_ids[index] = node.block_id
            table._num_shared = index + 1
            table._node = node
            self._settle_checkpoints(table, node, start + BLOCK_SIZE)

    def add_checkpoint(self, table: BlockTable, num_tokens: int, state: npt.NDArray[np.uint8]) -> None:
        """Keep ``state``, which is that after the first ``num_tokens`` tokens of ``table``, all of them committed.

        ``state`` is (num_bytes,) uint8 and must not be written to afterwards.
        """
        assert num_tokens > 0, "the state before the first token is known"
        checkpoint = Checkpoint(num_tokens, state)
        index = (num_tokens - 1) // BLOCK_SIZE
        if index >= table._num_shared:
            table._pending_checkpoints.append(checkpoint)
            return
        node = table._node
        for _ in range(table._num_shared - 1 - index):
            assert node.parent is not None, "a table's shared blocks are a path of the tree"
            node = node.parent
        self._tree.checkpoints.add(node, checkpoint)

    def release(self, table: BlockTable, token_ids: Sequence[int], num_computed_tokens: int) -> None:
        """End ``table`` and keep its first ``num_computed_tokens`` positions in the tree."""
        self.commit(table, token_ids, num_computed_tokens)
        start = table._num_shared * BLOCK_SIZE
        if num_computed_tokens > start:
            tail = table.block_ids[table._num_shared]
            node = self._tree.insert(table._node, token_ids[start:num_computed_tokens], tail)
            self._settle_checkpoints(table, node, num_computed_tokens)
        self._end(table)

    def discard(self, table: BlockTable) -> None:
        """End ``table`` and forget the part of its path that it alone uses: its numbers are not to be trusted."""
        self._tree.forget(table._node)
        self._end(table)

    def check_integrity(self) -> None:
        """Raise AssertionError unless free + cached + active blocks are all blocks and every owner is counted."""
        owners = np.zeros(self._pool.num_blocks, dtype=np.int32)
        in_tree = []
        self._tree.check_integrity()
        for node in self._tree.nodes():
            owners[node.block_id] += 1
            in_tree.append(node.block_id)
        assert len(in_tree) == len(set(in_tree)) == self._tree.num_nodes, "a block is in the tree twice"
        for table in self._tables:
            np.add.at(owners, table.block_ids, 1)
            node = table._node
            for index in reversed(range(table._num_shared)):
                assert node.block_id == table.block_ids[index], "a table's shared blocks are a path of the tree"
                assert node.parent is not None
                node = node.parent
        self._pool.check_integrity(owners)
        total = self.num_free_blocks + self.num_cached_blocks + self.num_active_blocks
        assert total == self.num_blocks, f"{total} of {self.num_blocks} blocks are accounted for"
        assert self.num_cached_blocks == len(set(in_tree) - {i for t in self._tables for i in t.block_ids})

    def _share(self, table: BlockTable, nodes: Sequence[Node]) -> None:
        """Begin an empty ``table`` with the blocks of a path."""
        block_ids = [node.block_id for node in nodes]
        self._pool.retain(block_ids)
        table.block_ids += block_ids
        table._num_shared = len(nodes)
        table._node = nodes[-1] if nodes else self._tree.root
        table.num_reused_tokens = len(nodes) * BLOCK_SIZE

    def _settle_checkpoints(self, table: BlockTable, node: Node, num_tokens: int) -> None:
        """Hang on ``node`` what waited for it: the checkpoints of ``table`` within its first ``num_tokens``."""
        for checkpoint in table._pending_checkpoints:
            if checkpoint.num_tokens <= num_tokens:
                self._tree.checkpoints.add(node, checkpoint)
        table._pending_checkpoints = [each for each in table._pending_checkpoints if each.num_tokens > num_tokens]

    def _take_state(self, table: BlockTable, match: Match) -> None:
        """Give ``table`` the state of its match; without room for a copied block that state is not its own's."""
        if table.num_reused_tokens == match.num_tokens:
            table.checkpoint = match.checkpoint
            return
        self._pool.release(table.block_ids)
        table.block_ids.clear()
        table._num_shared = table.num_reused_tokens = 0
        table._node = self._tree.root

    def _grow(self, table: BlockTable, count: int) -> bool:
        while (shortage := count - self._pool.num_free) > 0:
            if self._tree.evict(shortage) == shortage:
                continue
            giver = next((each for each in self._givers if each is not table), None)
            if giver is None:
                return False
            self._givers[giver]()
        after = table.block_ids[-1] if table.block_ids else None
        table.block_ids += self._pool.allocate(count, after)
        return True

    def _end(self, table: BlockTable) -> None:
        self._tables.remove(table)
        self._givers.pop(table, None)
        self._pool.release(table.block_ids)
        table.block_ids.clear()
