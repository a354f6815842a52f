"""The radix tree: every token prefix whose keys and values are in blocks, whoever computed them.

One node is one block: up to 16 tokens that follow those of its parent, so the path to a node is a prefix. A node
with fewer than 16 tokens is a leaf. A match is exact to the token: where the tokens wanted part from a node's in
mid-block, the match names that block as the source to copy the shared slots from.

The tree owns one reference of each of its blocks. A node is *active* while a sequence holds its block too, else
*cached*; a sequence holds all blocks of its path, so below a cached node everything is cached. A node can carry
state checkpoints, see ``checkpoints``. It knows nothing of sequences, bytes or text.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.cache.block_pool import BlockPool
from engine.cache.checkpoints import DEFAULT_MAX_BYTES, Checkpoint, Checkpoints
from engine.model.plan import BLOCK_SIZE


class Node:
    """One block of the tree.

    Attributes:
        token_ids: the 1 to 16 tokens in the block.
        block_id: where their keys and values are.
        children: by their tokens; empty unless this node is full.
        last_used: the tree's clock when a sequence last used it; a parent's is never before its child's.
        parent: None at the root, and at a node that has left the tree.
        checkpoints: states after prefixes that end in this block.
        is_queued: whether the tree's queue of leaves has an entry for it.
    """

    __slots__ = ("block_id", "checkpoints", "children", "is_queued", "last_used", "parent", "token_ids")

    def __init__(self, token_ids: tuple[int, ...], block_id: int, parent: Node | None) -> None:
        self.token_ids = token_ids
        self.block_id = block_id
        self.parent = parent
        self.children: dict[tuple[int, ...], Node] = {}
        self.last_used = 0
        self.checkpoints: tuple[Checkpoint, ...] = ()
        self.is_queued = False


@dataclass(frozen=True)
class Match:
    """The longest cached prefix of some tokens.

    Attributes:
        nodes: the full blocks of the prefix, in order.
        source: the block whose first ``num_tail_tokens`` slots continue it; the rest of that block differs.
        num_tail_tokens: 0 to 15.
        checkpoint: where one was asked for, the state after exactly this prefix; None for an empty one.
    """

    nodes: tuple[Node, ...]
    source: Node | None
    num_tail_tokens: int
    checkpoint: Checkpoint | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.nodes) * BLOCK_SIZE + self.num_tail_tokens


class RadixTree:
    """Prefixes of blocks from ``pool``, evicted leaf by leaf, the least recently used first.

    Attributes:
        root: holds no block and no token.
        num_nodes: without the root.
        checkpoints: the states on its nodes.
    """

    def __init__(self, pool: BlockPool, max_checkpoint_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.root = Node((), -1, None)
        self._pool = pool
        self._clock = itertools.count(1)
        self.num_nodes = 0
        self.checkpoints = Checkpoints(max_checkpoint_bytes)
        # One entry a leaf, ordered by ``last_used`` at the time of entry; brought up to date when its turn comes,
        # so that neither using a node nor evicting one looks at all the others.
        self._queue: list[tuple[int, int, Node]] = []
        self._order = itertools.count()  # breaks ties, since nodes do not compare

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

    def path(self, token_ids: Sequence[int]) -> list[Node]:
        """The nodes that hold ``token_ids`` as far as the tree has them whole; does not count as use."""
        node, nodes = self.root, []
        for start in range(0, len(token_ids), BLOCK_SIZE):
            tail = tuple(token_ids[start : start + BLOCK_SIZE])
            child = node.children.get(tail)
            if child is None:
                child, overlap = self._longest_overlap(node, tail)
                if child is not None and overlap == len(tail):
                    nodes.append(child)
                break
            nodes.append(child)
            node = child
        return nodes

    def match_checkpoint(self, token_ids: Sequence[int], limit: int) -> Match:
        """As ``match``, but of the longest prefix after which a state is kept; empty where there is none."""
        nodes = self.match(token_ids, limit).nodes
        for depth in range(len(nodes), -1, -1):
            parent = nodes[depth - 1] if depth else self.root
            start = depth * BLOCK_SIZE
            tail = token_ids[start : min(start + BLOCK_SIZE, limit)]
            holder, checkpoint = self._deepest_checkpoint(parent, tail, start)
            if checkpoint is None or holder is None:
                continue
            self.checkpoints.mark_used(checkpoint)
            self._mark_used(holder, next(self._clock))
            num_tail_tokens = checkpoint.num_tokens - start
            if num_tail_tokens == BLOCK_SIZE:
                return Match((*nodes[:depth], holder), None, 0, checkpoint)
            return Match(nodes[:depth], holder, num_tail_tokens, checkpoint)
        return Match((), None, 0)

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
        node = Node(key, block_id, parent)
        contained = [child for child in parent.children.values() if key[: len(child.token_ids)] == child.token_ids]
        for child in contained:
            self.checkpoints.move(child, node)
            self._remove(child)  # a shorter block: this one holds its tokens too
        parent.children[key] = node
        self.num_nodes += 1
        self._pool.retain([block_id])
        self._mark_used(node, now)
        self._enqueue(node)
        return node

    def evict(self, count: int) -> int:
        """Free up to ``count`` cached blocks, leaves first, the least recently used first; returns how many."""
        num_freed = 0
        active = []
        while self._queue and num_freed < count:
            last_used, _, node = heapq.heappop(self._queue)
            node.is_queued = False
            if node.parent is None or node.children:
                continue  # it left the tree, or is no leaf any more
            if node.last_used != last_used:
                self._enqueue(node)
            elif self._pool.ref_count(node.block_id) > 1:
                active.append(node)
            else:
                self._remove(node)
                num_freed += 1
        for node in active:
            self._enqueue(node)
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
        for child, overlap in self._overlaps(parent, token_ids):
            if overlap > longest:
                best, longest = child, overlap
        return best, longest

    def _deepest_checkpoint(
        self, parent: Node, token_ids: Sequence[int], start: int
    ) -> tuple[Node | None, Checkpoint | None]:
        """The longest checkpoint of a child within the tokens, from ``start``, that it shares with these."""
        holder: Node | None = None
        best: Checkpoint | None = None
        for child, overlap in self._overlaps(parent, token_ids):
            for checkpoint in child.checkpoints:
                longest = best.num_tokens if best is not None else 0
                if longest < checkpoint.num_tokens <= start + overlap:
                    holder, best = child, checkpoint
        return holder, best

    def _overlaps(self, parent: Node, token_ids: Sequence[int]) -> Iterator[tuple[Node, int]]:
        """The children that share first tokens with ``token_ids``, and how many each."""
        if not token_ids:
            return
        for child in parent.children.values():
            if child.token_ids[0] != token_ids[0]:
                continue
            yield (
                child,
                next(
                    (i for i, (a, b) in enumerate(zip(child.token_ids, token_ids, strict=False)) if a != b),
                    min(len(child.token_ids), len(token_ids)),
                ),
            )

    def _enqueue(self, node: Node) -> None:
        """Note that ``node`` is a leaf."""
        if not node.is_queued and node.parent is not None and not node.children:
            node.is_queued = True
            heapq.heappush(self._queue, (node.last_used, next(self._order), node))

    def _mark_used(self, node: Node | None, now: int) -> None:
        while node is not None and node.last_used != now:
            node.last_used = now
            node = node.parent

    def _remove(self, node: Node) -> None:
        assert node.parent is not None, "the root stays"
        assert not node.children, "only leaves are removed"
        parent, node.parent = node.parent, None
        del parent.children[node.token_ids]
        self.num_nodes -= 1
        self._pool.release([node.block_id])
        self.checkpoints.drop(node)
        self._enqueue(parent)

    def check_integrity(self) -> None:
        """Raise AssertionError unless the nodes, their order of use, the queue and the checkpoints fit together."""
        num_nodes = 0
        for node in self.nodes():
            num_nodes += 1
            assert node.parent is not None
            assert node.parent.children[node.token_ids] is node
            assert node.last_used <= node.parent.last_used or node.parent is self.root
            assert len(node.token_ids) == BLOCK_SIZE or (node.token_ids and not node.children)
            assert node.children or node.is_queued, "a leaf that could never be evicted"
        assert num_nodes == self.num_nodes
        queued = [node for _, _, node in self._queue]
        assert len(queued) == len(set(queued)), "a node has two entries in the queue"
        assert all(node.is_queued for node in queued)
        self.checkpoints.check_integrity(self.nodes())
