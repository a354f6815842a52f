"""All downloads: a few at once, the others queued, each with pause, cancel and an honest row.

The queue is what lies in the models folder, so it survives whatever ends the program; ``start`` takes it up again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

from engine.errors import DiskFullError, DownloadError, EngineError
from engine.hub.client import HubClient
from engine.hub.download_item import DownloadItem, DownloadRow, has_size
from engine.hub.download_record import (
    DOWNLOADS_FOLDER,
    LOCK_NAME,
    DownloadRecord,
    DownloadState,
    is_worked_on,
    set_aside,
    write_record,
)
from engine.hub.download_work import DownloadWork, check_room, refuse_obstacle, refuse_other_case
from engine.hub.names import Version
from engine.hub.transfer import RetryPolicy, Stop, Stopped, disk_fault
from engine.hub.unfinished import unfinished_items

_log = logging.getLogger(__name__)

MAX_ACTIVE = 2
ACTIVE = {DownloadState.RUNNING, DownloadState.QUEUED}
STOPPING_WAIT_S = 0.6
LOOK_S = 0.1  # who only looks whether a folder is worked on holds its lock for less

Connect = Callable[[str], HubClient]


class Downloads:
    """The downloads of one models folder. Any thread may use it; no method waits for the network.

    ``on_change`` is called, from any thread, when a state or a message changes; ``rows`` tells the progress.
    """

    def __init__(
        self,
        models_folder: Path,
        connect: Connect,
        *,
        on_change: Callable[[], None] = lambda: None,
        on_done: Callable[[DownloadRow], None] = lambda row: None,
        max_active: int = MAX_ACTIVE,
        policy: RetryPolicy | None = None,
    ) -> None:
        """``connect`` makes the client of an endpoint; it is called in the download's thread."""
        self.models_folder = models_folder
        self._connect = connect
        self._on_change = on_change
        self._on_done = on_done
        self._max_active = max_active
        self._policy = policy or RetryPolicy()
        self._items: dict[str, DownloadItem] = {}
        self._left: dict[str, DownloadRow] = {}
        self._lock = threading.RLock()
        self._is_closed = False

    def start(self) -> None:
        """Take up what an earlier run left; what was running or waiting goes on.

        Parts that cannot go on by themselves get a row, too, with which they can be deleted.
        """
        with self._lock:
            items, left = unfinished_items(self.models_folder)
            for download_id, item in items.items():
                if download_id not in self._items:
                    if item.record.state is DownloadState.RUNNING:
                        item.record.state = DownloadState.QUEUED
                    self._items[download_id] = item
            self._left |= {left_id: row for left_id, row in left.items() if left_id not in self._items}
        self._fill()

    def add(
        self, endpoint: str, repository: str, revision: str, version: Version, *, is_repair: bool = False
    ) -> str:
        """Queue a version; returns its id. One that is queued already goes on.

        Files that lie in their place with the hub's content are not fetched again. ``is_repair`` lets a download
        begin although all are there, and goes on with those that are too short.

        Raises DownloadError for a version with shards missing, a name that cannot be stored, files that are here
        already, or a disk with too little room.
        """
        if version.missing:
            raise DownloadError(f"{repository} lacks {version.missing_words} of this version: choose another one.")
        record = DownloadRecord(endpoint, repository, revision, version.label, list(version.files))
        folder = self.models_folder / DOWNLOADS_FOLDER / record.id
        item = DownloadItem(folder, self.models_folder, record)
        for target in item.targets:
            refuse_other_case(target)
            refuse_obstacle(target, self.models_folder)
        is_here = [has_size(path, file.size) for path, file in zip(item.targets, record.files, strict=True)]
        if all(is_here) and not is_repair:
            raise DownloadError(f"{item.targets[0].name} is in the models folder already.")
        with self._lock:
            if record.id not in self._items:
                check_room(item, self.models_folder, self._promised())
                try:
                    if not is_worked_on(folder):
                        write_record(folder, record)
                    if is_repair:
                        _take_over(item)
                except OSError as error:
                    raise disk_fault(error, folder / "download.json", record.size) from error
                self._items[record.id] = item
                self._left.pop(record.id, None)
        self.resume(record.id)
        return record.id

    def pause(self, download_id: str) -> None:
        """Stop it and keep what it has."""
        self._halt(download_id, DownloadState.PAUSED, "")

    def resume(self, download_id: str) -> None:
        """Go on, or try again after a failure."""
        with self._lock:
            item = self._items.get(download_id)
            if item is None or item.record.state is DownloadState.RUNNING or self._is_closed:
                return
            self._set_state(item, DownloadState.QUEUED, "")
        self._fill()

    def cancel(self, download_id: str) -> None:
        """Stop it and delete what it has; the row is gone when this returns, in well under a second."""
        with self._lock:
            item = self._items.pop(download_id, None)
            if item is None:
                if self._left.pop(download_id, None) is not None:
                    shutil.rmtree(self.models_folder / DOWNLOADS_FOLDER / download_id, ignore_errors=True)
                    self._on_change()
                return
            item.is_cancelled = True
            item.stop.set()
            if self._is_another_s(item):  # its parts are not ours to delete
                self._on_change()
                return
            item.folder = set_aside(item.folder)
        if item.thread is not None and item.thread is not threading.current_thread():
            item.thread.join(STOPPING_WAIT_S)
        self._remove(item)  # where a file is still open, its thread removes the rest
        self._on_change()
        self._fill()

    def rows(self) -> list[DownloadRow]:
        """All downloads, in the order in which they came, and then what is left of unknown ones."""
        with self._lock:
            return [*(item.row() for item in self._items.values()), *self._left.values()]

    def is_idle(self) -> bool:
        """Whether none runs or waits for its turn."""
        with self._lock:
            return not any(item.record.state in ACTIVE for item in self._items.values())

    def close(self) -> None:
        """Stop all; they go on at the next start. Takes less than a second."""
        with self._lock:
            self._is_closed = True
            items = list(self._items.values())
            for item in items:
                item.stop.set()
        deadline = time.monotonic() + STOPPING_WAIT_S
        for item in items:
            if item.thread is not None:
                item.thread.join(max(0.0, deadline - time.monotonic()))

    # ------------------------------------------------------------------------------------ the queue

    def _fill(self) -> None:
        """Begin queued downloads while there is a place for them."""
        with self._lock:
            if self._is_closed:
                return
            running = sum(item.record.state is DownloadState.RUNNING for item in self._items.values())
            for item in self._items.values():
                is_ended = item.thread is None or not item.thread.is_alive()
                if running >= self._max_active:
                    break
                if item.record.state is DownloadState.QUEUED and is_ended:
                    running += 1
                    item.stop = Stop()
                    item.forget_rate()
                    self._set_state(item, DownloadState.RUNNING, "")
                    item.thread = threading.Thread(
                        target=self._work, args=(item, item.stop), name="download", daemon=True
                    )
                    item.thread.start()
        self._on_change()

    def _halt(self, download_id: str, state: DownloadState, message: str) -> None:
        with self._lock:
            item = self._items.get(download_id)
            if item is None or item.record.state in {DownloadState.PAUSED, DownloadState.DONE}:
                return
            self._set_state(item, state, message)
            item.stop.set()
        self._fill()

    def _set_state(self, item: DownloadItem, state: DownloadState, message: str) -> None:
        item.record.state, item.record.message = state, message
        if item.is_cancelled or self._is_another_s(item):
            return
        try:
            write_record(item.folder, item.record)
        except OSError as error:  # a full disk, most likely; the record there says something older, which will do
            _log.warning("the state of a download is not kept: %s", error)

    def _promised(self) -> int:
        """Bytes that the downloads that run or wait have still to receive."""
        return sum(item.num_missing() for item in self._items.values() if item.record.state in ACTIVE)

    def _is_another_s(self, item: DownloadItem) -> bool:
        """Whether another process works on it, so that nothing of it may be changed from here."""
        return not item.has_lock and is_worked_on(item.folder)

    @contextlib.contextmanager
    def _holding(self, item: DownloadItem) -> Iterator[None]:
        """Hold the folder against other processes; raises filelock.Timeout where one of them works on it."""
        lock = filelock.FileLock(item.folder / LOCK_NAME, timeout=0)
        for is_last_try in (False, False, False, True):
            with self._lock:  # lock and flag change as one
                try:
                    lock.acquire()
                    item.has_lock = True
                    break
                except filelock.Timeout:
                    if is_last_try:
                        raise
            time.sleep(LOOK_S)
        try:
            yield
        finally:
            with self._lock:
                item.has_lock = False
                lock.release()

    def _remove(self, item: DownloadItem) -> None:
        """Delete what it has, unless the same download, added anew, has the folder by now."""
        with self._lock:
            newer = self._items.get(item.record.id, item)
            if newer is item or newer.folder != item.folder:
                shutil.rmtree(item.folder, ignore_errors=True)

    # ------------------------------------------------------------------------------------ one download

    def _work(self, item: DownloadItem, stop: Stop) -> None:
        """The life of a download's thread."""
        state, message = DownloadState.DONE, ""
        try:
            with self._holding(item):
                DownloadWork(item, stop, self.models_folder, self._policy, self._on_change).run(self._connect)
        except Stopped:
            self._after_stop(item)
            return
        except filelock.Timeout:
            state, message = DownloadState.PAUSED, "Another Fireside downloads this at the moment."
        except DiskFullError as error:
            state, message = DownloadState.PAUSED, str(error)
        except EngineError as error:
            state, message = DownloadState.FAILED, str(error)
        except OSError as error:
            fault = disk_fault(error, item.folder / "download", 0)
            state = DownloadState.PAUSED if isinstance(fault, DiskFullError) else DownloadState.FAILED
            message = str(fault)
        except Exception:
            _log.exception("a download failed")
            state, message = DownloadState.FAILED, "The download failed; the log says more. Try it again."
        self._end(item, stop, state, message)

    def _after_stop(self, item: DownloadItem) -> None:
        if item.is_cancelled:
            self._remove(item)
        self._on_change()
        with self._lock:
            item.thread = None
        self._fill()

    def _end(self, item: DownloadItem, stop: Stop, state: DownloadState, message: str) -> None:
        with self._lock:
            row = None
            if state is DownloadState.DONE:
                if self._items.get(item.record.id) is item:
                    del self._items[item.record.id]
                item.record.state = state
                row = item.row()
            elif not stop.is_set:
                self._set_state(item, state, message)
            item.thread = None
        if state is DownloadState.DONE or item.is_cancelled:
            self._remove(item)
        if row is not None:
            self._on_done(row)
        self._fill()


def _take_over(item: DownloadItem) -> None:
    """Files that end too early become parts, so that the rest alone is fetched; the hash tells whether they fit."""
    for index, (file, target) in enumerate(zip(item.record.files, item.targets, strict=True)):
        is_short = target.is_file() and not target.is_symlink() and 0 < target.stat().st_size < file.size
        if is_short and not item.part(index).exists():
            os.replace(target, item.part(index))
