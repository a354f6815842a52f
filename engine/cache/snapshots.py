"""Conversations on the disk: written when the engine rests, brought back when they are asked for again.

One of these serves one engine. Its methods are called on the engine thread, between steps; a file is written on the
disk's own thread from copies, so that a request never waits for the disk. What goes wrong with the disk is logged
and costs reading again, nothing else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from typing import Any

import numpy as np

from engine.cache.deletions import Deleted
from engine.cache.history import History, TokenIds
from engine.cache.kv_cache import KVCache
from engine.cache.prompt_logits import PromptLogits
from engine.cache.radix_tree import Node
from engine.cache.restoration import Restoration, find_path
from engine.cache.snapshot_file import (
    ROOT_NAME,
    Attachment,
    AttachmentKind,
    BlockRecord,
    SnapshotFile,
    SnapshotWriter,
    block_name,
)
from engine.cache.snapshot_store import MAX_LOGITS, SnapshotStore
from engine.kernels.backend import Backend
from engine.model.plan import BLOCK_SIZE

CHUNK_BYTES = 4 << 20  # copied at once: a few milliseconds

MAX_STATES = 2  # of a branch: after its last prompt and after its end

_log = logging.getLogger(__name__)


class Snapshots:
    """The snapshots of one engine's conversations.

    ``key`` stands for everything that the KV cache's contents depend on. ``disk`` runs jobs in order on one thread.
    ``on_deleted`` is called with what other programs have deleted, once this has forgotten it.
    """

    def __init__(
        self,
        store: SnapshotStore,
        disk: Executor,
        key: bytes,
        history: History,
        kv_cache: KVCache,
        backend: Backend,
        prompt_logits: PromptLogits,
        on_deleted: Callable[[Deleted], None] = lambda deleted: None,
    ) -> None:
        self._on_deleted = on_deleted
        self._store = store
        self._disk = disk
        self._key = key
        self._history = history
        self._kv_cache = kv_cache
        self._backend = backend
        self._prompt_logits = prompt_logits
        self._unwritten: dict[str, None] = {}  # conversations, in the order in which they were changed
        self._job: _Job | None = None

    @property
    def has_work(self) -> bool:
        """Whether something is to be written."""
        return self._job is not None or bool(self._unwritten)

    @property
    def is_writing(self) -> bool:
        """Whether a file has been begun."""
        return self._job is not None

    def note_changed(self, conversation_id: str) -> None:
        """Write what the history holds of a conversation when there is time."""
        if self._store.quota_bytes > 0:
            self._unwritten.pop(conversation_id, None)
            self._unwritten[conversation_id] = None

    def find(self, conversation_id: str, token_ids: Sequence[int]) -> Restoration | None:
        """What brings the beginning of ``token_ids`` back; None when the disk has no more than the KV cache."""
        num_cached = self._kv_cache.num_matching_tokens(token_ids)
        if num_cached >= len(token_ids) - 1:
            return None
        files = self._files(conversation_id)
        path, num_stored = find_path(files, token_ids)
        if num_stored <= num_cached:
            return None
        wanted = num_cached, num_stored
        return Restoration(self._kv_cache, self._backend, self._prompt_logits, path, files, wanted, self._remove)

    def is_elsewhere(self, conversation_id: str) -> bool:
        """Whether the disk has this conversation for another model or other settings."""
        return self._store.has_other(self._key, conversation_id)

    def take_damage(self, conversation_id: str) -> bool:
        """Whether files of a conversation were found damaged since the last call."""
        return self._store.take_damage(self._key, conversation_id)

    def advance(self) -> None:
        """Do a small piece of the writing: a few milliseconds."""
        if self._job is not None:
            self._job.advance()
            if self._job.is_done:
                self._job = None
            return
        self._hear_of_deletions()
        if self._unwritten:
            conversation_id = next(iter(self._unwritten))
            del self._unwritten[conversation_id]
            self._job = self._make_job(conversation_id)

    def flush(self, timeout_s: float) -> None:
        """Write what there is, for at most ``timeout_s``; what is not finished then is dropped."""
        deadline = time.perf_counter() + timeout_s
        while self.has_work and (left := deadline - time.perf_counter()) > 0:
            self.advance()
            if self._job is not None:
                self._job.wait(left)
        self._unwritten.clear()
        if self._job is not None:
            self._job.cancel()
            self._job = None

    def forget(self, conversation_id: str) -> None:
        """Write nothing more of a conversation. Its files are the store's to delete, on the disk's thread."""
        self._unwritten.pop(conversation_id, None)
        if self._job is not None and self._job.conversation_id == conversation_id:
            self._job.cancel()
            self._job = None

    def forget_all(self) -> None:
        """Write nothing of what is known now."""
        self._unwritten.clear()
        if self._job is not None:
            self.forget(self._job.conversation_id)

    def _remove(self, file: SnapshotFile) -> None:
        """Delete a damaged file, so that what it should hold is written anew."""
        self._disk.submit(file.path.unlink, missing_ok=True)

    def _files(self, conversation_id: str) -> list[SnapshotFile]:
        """The files of a conversation that can be this model's; others that say they are go."""
        fitting = []
        for file in self._store.files(self._key, conversation_id, self._backend.block_bytes):
            if file.fits(self._backend.vocab_size, self._backend.state_bytes):
                fitting.append(file)
            else:
                self._remove(file)
        return fitting

    def _make_job(self, conversation_id: str) -> _Job | None:
        """A job that writes what the tree has of a conversation and the disk has not."""
        files = self._files(conversation_id)
        on_disk = {block.name for file in files for block in file.blocks}
        nodes: dict[bytes, tuple[BlockRecord, Node]] = {}
        attachments: dict[tuple[int, bytes, int], Attachment] = {}
        for branch in self._history.branches(conversation_id):
            path = self._named_path(branch)
            nodes.update((record.name, (record, node)) for record, node in path)
            attached = [*_states(path), *self._logits(branch, path)]
            for each in attached:
                attachments.setdefault((each.kind, each.name, each.num_tokens), each)
        logits = [place for place in attachments if place[0] is AttachmentKind.LOGITS]
        for place in logits[MAX_LOGITS:]:  # the newest branches come first
            del attachments[place]
        missing = [pair for name, pair in nodes.items() if name not in on_disk]
        for file in files:
            for known in file.attachments:
                attachments.pop((known.kind, known.name, known.num_tokens), None)
        if not missing and not attachments:
            return None
        parts = missing, list(attachments.values())
        return _Job(self._disk, self._store, self._key, conversation_id, self._backend, *parts)

    def _hear_of_deletions(self) -> None:
        """Write nothing more of what another program has deleted since the last look."""
        deleted = self._store.deletions.news()
        if deleted.names or deleted.is_all:
            self._unwritten = {each: None for each in self._unwritten if not deleted.concerns(each)}
            self._history.forget_where(deleted.has)
            self._on_deleted(deleted)

    def _named_path(self, branch: TokenIds) -> list[tuple[BlockRecord, Node]]:
        named = []
        parent = ROOT_NAME
        for node in self._kv_cache.path(branch.tolist()):
            record = BlockRecord(block_name(parent, node.token_ids), parent, node.token_ids)
            named.append((record, node))
            parent = record.name
        return named

    def _logits(self, branch: TokenIds, path: list[tuple[BlockRecord, Node]]) -> list[Attachment]:
        """The logits after the last prompts that this branch begins with."""
        attachments = []
        for prompt in self._prompt_logits.prefixes(branch.tolist(), MAX_LOGITS):
            index = (len(prompt) - 1) // BLOCK_SIZE
            row = self._prompt_logits.get(prompt)
            if row is not None and index < len(path):
                name = path[index][0].name
                attachments.append(Attachment(AttachmentKind.LOGITS, name, len(prompt), row.view(np.uint8)))
        return attachments


def _states(path: list[tuple[BlockRecord, Node]]) -> list[Attachment]:
    """The last states of a path: a conversation goes on from its end, and they may be large."""
    states = [
        Attachment(AttachmentKind.STATE, record.name, each.num_tokens, each.state)
        for record, node in path
        for each in sorted(node.checkpoints, key=lambda each: each.num_tokens)
    ]
    return states[-MAX_STATES:]


class _Job:
    """One file being written: blocks are copied here, and go to the disk on its thread.

    A block that is evicted before its turn ends the file there; its blocks are immutable until then.
    """

    def __init__(
        self,
        disk: Executor,
        store: SnapshotStore,
        key: bytes,
        conversation_id: str,
        backend: Backend,
        blocks: Sequence[tuple[BlockRecord, Node]],
        attachments: Sequence[Attachment],
    ) -> None:
        self.conversation_id = conversation_id
        self.is_done = False
        self._disk = disk
        self._backend = backend
        self._nodes = [node for _, node in blocks]
        self._next = 0
        self._is_ending = False
        self._writer: SnapshotWriter | None = None
        place = key, conversation_id, backend.block_bytes
        heard = store.deletions.heard
        self._publish: Callable[[SnapshotWriter], None] = lambda each: store.publish(each, conversation_id, heard)
        self._compact: Callable[[], None] = lambda: store.compact(*place)
        records = [record for record, _ in blocks]
        self._future: Future[Any] = disk.submit(store.begin, *place, records, attachments)

    def advance(self) -> None:
        """Copy some blocks, once the disk has those before."""
        if self.is_done or not self._future.done():
            return
        error = self._future.exception()
        if error is not None:
            _log.warning("a snapshot was not written: %s", error)
            self.cancel()
            return
        if self._writer is None:
            self._writer = self._future.result()
        if self._writer is None or self._is_ending:
            self.is_done = True
            return
        self._copy(self._writer)

    def wait(self, timeout_s: float) -> None:
        """Wait until ``advance`` has something to do."""
        wait([self._future], timeout_s)

    def cancel(self) -> None:
        """Leave no file."""
        self.is_done = True
        self._future.cancel()
        begun = self._future if self._writer is None else None

        def abort() -> None:
            writer = self._writer
            if begun is not None and not begun.cancelled() and begun.exception() is None:
                writer = begun.result()
            if writer is not None:
                writer.abort()

        self._disk.submit(abort)

    def _copy(self, writer: SnapshotWriter) -> None:
        count = max(1, CHUNK_BYTES // max(1, self._backend.block_bytes))
        nodes = self._nodes[self._next : min(self._next + count, writer.num_blocks)]
        present = next((index for index, node in enumerate(nodes) if node.parent is None), len(nodes))
        self._next += present
        if present:
            data = np.empty((present, self._backend.block_bytes), np.uint8)
            block_ids = np.array([node.block_id for node in nodes[:present]], np.int32)
            self._backend.read_blocks(block_ids, data)
            self._future = self._disk.submit(writer.append, data)
        if present < len(nodes) or self._next >= min(len(self._nodes), writer.num_blocks):
            self._is_ending = True
            appended = self._future
            self._future = self._disk.submit(self._finish, writer, appended)

    def _finish(self, writer: SnapshotWriter, appended: Future[Any]) -> None:
        """On the disk's thread, after the last blocks."""
        appended.result()  # raises where the disk is full
        self._publish(writer)
        self._compact()
