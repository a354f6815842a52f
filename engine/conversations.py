"""What stays of conversations beyond a request: why something was read again, and their snapshots on the disk.

Lives as long as the engine thread and serves one engine after the other. All methods are called on that thread; the
disk has a thread of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.cache.deletions import Deleted
from engine.cache.history import History
from engine.cache.restoration import Restoration
from engine.cache.snapshot_store import SnapshotStore
from engine.cache.snapshots import Snapshots
from engine.engine import Engine
from engine.kernels.backend import Backend
from engine.protocol import RereadReason, SnapshotStorage

REST_S = 1.0  # from the last work until snapshots are written
EXIT_WAIT_S = 0.2  # for deletions at the end; what takes longer ends with the program
POLL_S = 0.005  # between looks at the disk's thread while it writes

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reuse:
    """What of a prompt was not read, and why the rest was.

    Attributes:
        num_snapshot_tokens: that came from the disk, of those reused.
        reason: why more than what was new was read, if it was.
        num_reread_tokens: that had been read before and were read again.
    """

    num_snapshot_tokens: int = 0
    reason: RereadReason = RereadReason.NOTHING
    num_reread_tokens: int = 0


class Conversations:
    """History and snapshots of all conversations; without ``folder`` nothing is kept on the disk.

    Attributes:
        on_deleted: called with what other programs that share the folder have deleted.
    """

    def __init__(self, folder: Path | None, quota_bytes: int) -> None:
        self._history = History()
        self._store = SnapshotStore(folder, quota_bytes) if folder is not None else None
        self._disk = ThreadPoolExecutor(1, "snapshots")
        self._snapshots: Snapshots | None = None
        self._opening: dict[str, tuple[Restoration, Callable[[], None]]] = {}
        self._opened: dict[str, Restoration] = {}
        self._jobs: set[Future[Any]] = set()  # of the disk's thread that are neither done nor a snapshot's
        self._last_work_s = time.perf_counter()
        self.on_deleted: Callable[[Deleted], None] = lambda deleted: None
        self._on_disk("clean", lambda store: store.clean())

    def keep_quota(self) -> None:
        """Delete what is on the disk beyond the quota."""
        self._on_disk("keep the quota", lambda store: store.trim())

    # ---------------------------------------------------------------------------------------------- engine

    def start_engine(self, engine: Engine, backend: Backend, key: bytes) -> None:
        """Serve ``engine`` from now on. ``key`` is that of its snapshots; with an empty one there are none."""
        self._history.start_engine()
        self._snapshots = None
        if self._store is not None and key:
            self._snapshots = Snapshots(
                self._store,
                self._disk,
                key,
                self._history,
                engine.kv_cache,
                backend,
                engine.prompt_logits,
                lambda deleted: self.on_deleted(deleted),
            )

    def stop_engine(self, flush_s: float) -> None:
        """Write what is not written, for at most ``flush_s``, and serve no engine."""
        for request_id in list(self._opening):
            self.abort(request_id)
        snapshots, self._snapshots = self._snapshots, None
        if snapshots is not None:
            snapshots.flush(flush_s)

    def drop_engine(self) -> None:
        """Serve no engine, and write nothing of the one that failed."""
        self._opening.clear()
        if self._snapshots is not None:
            self._snapshots.forget_all()
        self._snapshots = None

    def close(self) -> None:
        """End the disk's thread after what it still has to do, and wait a little for that; deletions are done."""
        self._disk.shutdown(wait=False)
        wait(list(self._jobs), EXIT_WAIT_S)

    # -------------------------------------------------------------------------------------------- requests

    def open(
        self, request_id: str, conversation_id: str, token_ids: Sequence[int], then: Callable[[], None]
    ) -> None:
        """Bring back what the disk has of a prompt that the KV cache has not, and call ``then``."""
        restoration = None
        if self._snapshots is not None and conversation_id:
            try:
                restoration = self._snapshots.find(conversation_id, token_ids)
            except Exception:  # costs reading again, nothing else
                _log.exception("looking for a snapshot")
        if restoration is None:
            then()
        else:
            self._opening[request_id] = restoration, then

    @property
    def is_opening(self) -> bool:
        """Whether ``advance`` has something to do."""
        return bool(self._opening)

    def advance(self) -> None:
        """Bring back a few megabytes for the request that has waited longest."""
        request_id, (restoration, then) = next(iter(self._opening.items()))
        try:
            restoration.advance()
        except Exception:
            _log.exception("reading a snapshot")
            restoration.cancel()
        if restoration.is_done:
            del self._opening[request_id]
            self._opened[request_id] = restoration
            then()

    def abort(self, request_id: str) -> None:
        """Bring back no more for a request that ends; its ``then`` is not called."""
        self._opened.pop(request_id, None)
        restoration, _ = self._opening.pop(request_id, (None, None))
        if restoration is not None:
            restoration.cancel()

    def explain(
        self,
        request_id: str,
        conversation_id: str,
        token_ids: Sequence[int],
        num_reused_tokens: int,
        num_dropped: int = 0,
    ) -> Reuse:
        """For when a prompt of which ``num_reused_tokens`` are in the KV cache is about to be read.

        It is without the ``num_dropped`` oldest messages of its conversation.
        """
        restoration = self._opened.pop(request_id, None)
        if not conversation_id:
            return Reuse()
        num_snapshot_tokens = 0
        if restoration is not None:
            end = min(num_reused_tokens, restoration.num_tokens)
            num_snapshot_tokens = max(0, end - restoration.num_tokens_before)
        reason, num_lost = self._history.explain(conversation_id, token_ids, num_reused_tokens, num_dropped)
        num_left = max(0, len(token_ids) - 1 - num_reused_tokens)
        has_damage = self._snapshots is not None and self._snapshots.take_damage(conversation_id)
        if (restoration is not None and restoration.is_damaged) or (
            has_damage and reason is RereadReason.FIRST_TIME  # else what this engine has read tells why
        ):
            return Reuse(num_snapshot_tokens, RereadReason.DAMAGED, max(num_lost, num_left))
        if reason is RereadReason.FIRST_TIME and restoration is not None:
            reason = RereadReason.NOTHING
        elif reason is RereadReason.FIRST_TIME and self._is_elsewhere(conversation_id):
            return Reuse(num_snapshot_tokens, RereadReason.RELOADED, num_left)
        return Reuse(num_snapshot_tokens, reason, num_lost)

    def note_recalled(self, request_id: str, conversation_id: str, token_ids: Sequence[int]) -> None:
        """Note that what the disk has of ``token_ids`` is here now, though nobody has asked for an answer yet."""
        restoration = self._opened.pop(request_id, None)
        if restoration is not None and not restoration.is_damaged:
            self._history.remember(conversation_id, token_ids[: restoration.num_tokens])

    def remember(
        self, request_id: str, conversation_id: str, token_ids: Sequence[int], num_dropped: int = 0
    ) -> None:
        """Note that ``token_ids`` were computed for a conversation, whose request has ended.

        They are without the ``num_dropped`` oldest messages.
        """
        self._opened.pop(request_id, None)
        if conversation_id and token_ids:
            self._history.remember(conversation_id, token_ids, num_dropped)
            if self._snapshots is not None:
                self._snapshots.note_changed(conversation_id)

    # ------------------------------------------------------------------------------------------------ rest

    def note_work(self) -> None:
        """The engine has just computed something."""
        self._last_work_s = time.perf_counter()

    @property
    def rest_s(self) -> float | None:
        """How long an engine without work may wait for a command before it calls ``rest``; None is for ever."""
        if self._snapshots is None or not self._snapshots.has_work:
            return None
        if self._snapshots.is_writing:
            return POLL_S
        return max(0.0, self._last_work_s + REST_S - time.perf_counter())

    def rest(self) -> None:
        """Write a little of what is to be written."""
        if self._snapshots is not None:
            try:
                self._snapshots.advance()
            except Exception:
                _log.exception("writing a snapshot")
                self._snapshots.forget_all()

    # --------------------------------------------------------------------------------------------- storage

    def forget(self, conversation_id: str) -> None:
        """Delete what is kept of a conversation. Its requests, which would be remembered, are others' affair."""
        if not conversation_id:
            return
        self._history.forget(conversation_id)
        if self._snapshots is not None:
            self._snapshots.forget(conversation_id)
        self._on_disk("delete a snapshot", lambda store: store.forget(conversation_id))

    def clear(self) -> None:
        """Delete all snapshots; conversations that go on are written again."""
        if self._snapshots is not None:
            self._snapshots.forget_all()
        self._on_disk("delete the snapshots", lambda store: store.clear())

    def set_quota(self, quota_bytes: int) -> None:
        """Keep at most so many bytes on the disk; 0 deletes all and keeps nothing."""
        if self._store is not None:
            self._store.quota_bytes = quota_bytes
        if quota_bytes == 0 and self._snapshots is not None:
            self._snapshots.forget_all()
        self.keep_quota()

    def ask_storage(self, answer: Callable[[SnapshotStorage], None]) -> None:
        """Find out what the snapshots take, after what is being written; ``answer`` is called on any thread."""
        store = self._store
        if store is None:
            answer(SnapshotStorage(0, 0, 0))
            return

        def measure() -> None:
            num_bytes, num_conversations = store.usage()
            answer(SnapshotStorage(num_bytes, num_conversations, store.quota_bytes))

        self._disk.submit(measure)

    def _is_elsewhere(self, conversation_id: str) -> bool:
        return self._snapshots is not None and self._snapshots.is_elsewhere(conversation_id)

    def _on_disk(self, what: str, job: Callable[[SnapshotStore], None]) -> None:
        store = self._store
        if store is None:
            return

        def end(done: Future[Any]) -> None:
            self._jobs.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                _log.warning("could not %s: %s", what, error)

        future = self._disk.submit(job, store)
        self._jobs.add(future)
        future.add_done_callback(end)
