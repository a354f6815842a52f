"""Brings a prefix from a snapshot back into the KV cache, some milliseconds at a time.

It works like a sequence that computes: its table holds the path, so that nothing of it is evicted, and what has
arrived enters the tree at the end. The first block that is damaged ends it, and so does a sequence that runs and
needs the room; what came before stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.cache.kv_cache import KVCache
from engine.cache.prompt_logits import PromptLogits
from engine.cache.snapshot_file import (
    ROOT_NAME,
    AttachmentKind,
    AttachmentRecord,
    BlockRecord,
    DamagedSnapshotError,
    SnapshotFile,
)
from engine.kernels.backend import Backend
from engine.model.plan import BLOCK_SIZE

CHUNK_BYTES = 4 << 20  # through one buffer, whose pages stay warm
ADVANCE_S = 0.02  # of one ``advance``


@dataclass(frozen=True)
class StoredBlock:
    """Where a block lies: ``file.blocks[index]``."""

    file: SnapshotFile
    index: int

    @property
    def record(self) -> BlockRecord:
        return self.file.blocks[self.index]


def find_path(files: Iterable[SnapshotFile], token_ids: Sequence[int]) -> tuple[list[StoredBlock], int]:
    """The blocks of ``files`` that follow ``token_ids`` furthest, and how many tokens they share with them.

    The last block may go on differently.
    """
    children: dict[bytes, list[StoredBlock]] = {}
    for file in files:
        for index, record in enumerate(file.blocks):
            children.setdefault(record.parent, []).append(StoredBlock(file, index))
    path: list[StoredBlock] = []
    parent = ROOT_NAME
    while True:
        start = len(path) * BLOCK_SIZE
        wanted = tuple(token_ids[start : start + BLOCK_SIZE])
        best = max(children.get(parent, []), key=lambda block: _overlap(block.record, wanted), default=None)
        overlap = _overlap(best.record, wanted) if best is not None else 0
        if best is None or overlap == 0:
            return path, start
        path.append(best)
        if overlap < BLOCK_SIZE:
            return path, start + overlap
        parent = best.record.name


def _overlap(record: BlockRecord, wanted: tuple[int, ...]) -> int:
    length = min(len(record.token_ids), len(wanted))
    return next((i for i in range(length) if record.token_ids[i] != wanted[i]), length)


class Restoration:
    """A path of stored blocks on its way into the KV cache.

    ``files`` are all of the conversation: any may hold what is attached to a prefix of ``path``. ``wanted`` are
    lengths of prefixes: what the KV cache has without this, and how far the path follows the prompt. Of the states
    after prefixes between these, which may be many and large, only the last one comes back.

    Attributes:
        num_tokens_before: of the path, what the KV cache had already, in full blocks.
        num_tokens: of the path, what it has now, as far as this brought it.
        is_done: nothing is left to do.
        is_damaged: it ended at a block that is not what was written.
    """

    def __init__(
        self,
        kv_cache: KVCache,
        backend: Backend,
        prompt_logits: PromptLogits,
        path: Sequence[StoredBlock],
        files: Sequence[SnapshotFile],
        wanted: tuple[int, int],
        on_damaged: Callable[[SnapshotFile], None],
    ) -> None:
        self._kv_cache = kv_cache
        self._backend = backend
        self._prompt_logits = prompt_logits
        self._path = path
        self._files = files
        self._wanted = wanted
        self._on_damaged = on_damaged
        self._token_ids = [token_id for block in path for token_id in block.record.token_ids]
        self._table = kv_cache.hold(self._token_ids, self.cancel)
        self._next = len(self._table.block_ids)
        self._end = min(len(path), self._next + kv_cache.num_blocks - kv_cache.num_active_blocks)
        num_buffered = max(1, CHUNK_BYTES // max(1, backend.block_bytes))
        self._buffer = np.empty((num_buffered, backend.block_bytes), np.uint8)
        self.num_tokens_before = self.num_tokens = self._next * BLOCK_SIZE
        self.is_done = False
        self.is_damaged = False
        if not kv_cache.reserve(self._table, self._end * BLOCK_SIZE):
            self._end = self._next

    def advance(self) -> None:
        """Bring the next blocks; afterwards the KV cache may have evicted others."""
        if self.is_done:
            return
        deadline = time.perf_counter() + ADVANCE_S
        while self._next < self._end and not self.is_damaged:
            self._bring_run()
            if time.perf_counter() >= deadline:
                break
        if self.is_damaged or self._next == self._end:
            self._finish()

    def cancel(self) -> None:
        """Stop here; what has arrived stays."""
        if not self.is_done:
            self._finish()

    def _bring_run(self) -> None:
        """Bring the next blocks that follow each other in one file."""
        first = self._path[self._next]
        data = self._buffer[: self._run_length(len(self._buffer))]
        num_sound = first.file.read_blocks(first.index, data)
        if num_sound:
            block_ids = self._table.block_ids[self._next : self._next + num_sound]
            self._backend.write_blocks(np.array(block_ids, np.int32), data[:num_sound])
        self._next += num_sound
        self.is_damaged = num_sound < len(data)
        if self.is_damaged:
            self._on_damaged(first.file)

    def _run_length(self, most: int) -> int:
        """How many of the next blocks, at least one, follow each other in one file."""
        first = self._path[self._next]
        count = 0
        while count < most and self._next + count < self._end:
            block = self._path[self._next + count]
            if block.file is not first.file or block.index != first.index + count:
                break
            count += 1
        return count

    def _finish(self) -> None:
        self.is_done = True
        self.num_tokens = sum(len(block.record.token_ids) for block in self._path[: self._next])
        self._kv_cache.commit(self._table, self._token_ids, self.num_tokens)
        try:
            self._attach()
        finally:
            self._kv_cache.release(self._table, self._token_ids, self.num_tokens)

    def _attach(self) -> None:
        """Take over the last wanted state, and the logits, after prefixes that are here now."""
        blocks = {block.name: block for file in self._files for block in file.blocks}
        states = []
        for file in self._files:
            for record in file.attachments:
                if not self._is_here(record, blocks):
                    continue
                if record.kind is AttachmentKind.STATE:
                    states.append((record.num_tokens, file, record))
                elif (row := self._read(file, record)) is not None:
                    self._prompt_logits.put(self._token_ids[: record.num_tokens], row.view(np.float32))
        states = [each for each in states if self._wanted[0] < each[0] <= self._wanted[1]]
        if states:
            num_tokens, file, record = max(states, key=lambda each: each[0])
            if (state := self._read(file, record)) is not None:
                self._kv_cache.add_checkpoint(self._table, num_tokens, state)

    def _is_here(self, record: AttachmentRecord, blocks: Mapping[bytes, BlockRecord]) -> bool:
        """Whether it is attached to a prefix that has arrived; its block may go on differently after that."""
        holder = blocks.get(record.name)
        if holder is None or not 0 < record.num_tokens <= self.num_tokens:
            return False
        index = (record.num_tokens - 1) // BLOCK_SIZE
        count = record.num_tokens - index * BLOCK_SIZE
        own = self._path[index].record
        return holder.parent == own.parent and holder.token_ids[:count] == own.token_ids[:count]

    def _read(self, file: SnapshotFile, record: AttachmentRecord) -> npt.NDArray[np.uint8] | None:
        """What is attached, if it is sound; otherwise the file goes."""
        try:
            data = file.read_attachment(record)
        except DamagedSnapshotError:
            data = None
        if data is None or (record.kind is AttachmentKind.LOGITS and not np.isfinite(data.view(np.float32)).all()):
            self._on_damaged(file)
            return None
        return data
