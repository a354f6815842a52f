"""The radix tree: every token prefix whose keys and values are in blocks, whoever computed them.

One node is one block: up to 16 tokens that follow those of its parent, so the path to a node is a prefix. A node
with fewer than 16 tokens is a leaf. A match is exact to the token: where the tokens wanted part from a node's in
mid-block, the match names that block as the source to copy the shared slots from.

The tree owns one reference of each of its blocks. A node is *active* while a sequence holds its block too, else
*cached*; a sequence holds all blocks of its path, so below a cached node everything is cached. It knows nothing of
sequences, bytes or text.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.cache.block_pool import BlockPool
from engine.model.plan import BLOCK_SIZE


class Node:
    """One block of the tree.

    Attributes:
        token_ids: the 1 to 16 tokens in the block.
        block_id: where their keys and values are.
        children: by their tokens; empty unless this node is full.
        last_used: the tree's clock when a sequence last used it; a parent's is never before its child's.
    """

    __slots__ = ("block_id", "children", "last_used", "parent", "token_ids")

    def __init__(self, token_ids: tuple[int, ...], block_id: int, parent: Node | None) -> None:
        self.token_ids = token_ids
        self.block_id = block_id
        self.parent = parent
        self.children: dict[tuple[int, ...], Node] = {}
        self.last_used = 0


@dataclass(frozen=True)
class Match:
    """The longest cached prefix of some tokens.

    Attributes:
        nodes: the full blocks of the prefix, in order.
        source: the block whose first ``num_tail_tokens`` slots continue it; the rest of that block differs.
        num_tail_tokens: 0 to 15.
    """

    nodes: tuple[Node, ...]
    source: Node | None
    num_tail_tokens: int

    @property
    def num_tokens(self) -> int:
        return len(self.nodes) * BLOCK_SIZE + self.num_tail_tokens


class RadixTree:
    """Prefixes of blocks from ``pool``, evicted leaf by leaf, the least recently used first."""

    def __init__(self, pool: BlockPool) -> None:
        self.root = Node((), -1, None)
        self._pool = pool
        self._clock = itertools.count(1)
        self.num_nodes = 0

    def match(self, token_ids: Sequence[int], limit: int) -> Match:
        """Longest prefix of ``token_ids[:limit]`` in the tree; marks its path as used.

        The nodes stay valid until the next ``evict`` unless their blocks are retained.
        """
        now, node, nodes = next(self._clock), self.root, []
        position = 0
        while position + BLOCK_SIZE <= limit:
            child = node.children.get(tuple(token_ids[position : position + BLOCK_SIZE]))
            if child is None:
                break
            child.last_used = now
            nodes.append(child)
            node = child
            position += BLOCK_SIZE
        tail = token_ids[position : min(position + BLOCK_SIZE, limit)]
        source, num_tail_tokens = self._longest_overlap(node, tail)
        if source is not None:
            source.last_used = now
        return Match(tuple(nodes), source, num_tail_tokens)

    def insert(self, parent: Node, token_ids: Sequence[int], block_id: int) -> Node:
        """Make ``token_ids`` (1 to 16) known below ``parent``, which must be the root or full.

        Returns the node that holds them from now on. It has ``block_id`` when it is new, and then the tree has
        retained that block; otherwise the tokens were there already, maybe as the beginning of a longer block.
        """
        key = tuple(token_ids)
        now = next(self._clock)
        known = parent.children.get(key)
        if known is None and len(key) < BLOCK_SIZE:
            known, overlap = self._longest_overlap(parent, key)
            known = known if overlap == len(key) else None
        if known is not None:
            self._mark_used(known, now)
            return known
        contained = [child for child in parent.children.values() if key[: len(child.token_ids)] == child.token_ids]
        for child in contained:
            self._remove(child)  # a shorter block: this one holds its tokens too
        node = Node(key, block_id, parent)
        parent.children[key] = node
        self.num_nodes += 1
        self._pool.retain([block_id])
        self._mark_used(node, now)
        return node

    def evict(self, count: int) -> int:
        """Free up to ``count`` cached blocks, leaves first, the least recently used first; returns how many."""
        order = itertools.count()  # breaks ties, since nodes do not compare
        leaves = [(node.last_used, next(order), node) for node in self.nodes() if self._can_evict(node)]
        heapq.heapify(leaves)
        num_freed = 0
        while leaves and num_freed < count:
            node = heapq.heappop(leaves)[2]
            parent = node.parent
            self._remove(node)
            num_freed += 1
            if parent is not None and self._can_evict(parent):
                heapq.heappush(leaves, (parent.last_used, next(order), parent))
        return num_freed

    def forget(self, node: Node) -> None:
        """Remove ``node`` and then its parents as long as they are leaves that at most one sequence holds."""
        while node.parent is not None and not node.children and self._pool.ref_count(node.block_id) <= 2:
            parent = node.parent
            self._remove(node)
            node = parent

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root."""
        pending = list(self.root.children.values())
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.children.values())

    def _longest_overlap(self, parent: Node, token_ids: Sequence[int]) -> tuple[Node | None, int]:
        """The child that shares the most first tokens with ``token_ids``, and how many."""
        best: Node | None = None
        longest = 0
        if not token_ids:
            return None, 0
        for child in parent.children.values():
            if child.token_ids[0] != token_ids[0]:
                continue
            overlap = next(
                (i for i, (a, b) in enumerate(zip(child.token_ids, token_ids, strict=False)) if a != b),
                min(len(child.token_ids), len(token_ids)),
            )
            if overlap > longest:
                best, longest = child, overlap
        return best, longest

    def _can_evict(self, node: Node) -> bool:
        return node.parent is not None and not node.children and self._pool.ref_count(node.block_id) == 1

    def _mark_used(self, node: Node | None, now: int) -> None:
        while node is not None and node.last_used != now:
            node.last_used = now
            node = node.parent

    def _remove(self, node: Node) -> None:
        assert node.parent is not None, "the root stays"
        assert not node.children, "only leaves are removed"
        del node.parent.children[node.token_ids]
        node.parent = None
        self.num_nodes -= 1
        self._pool.release([node.block_id])
