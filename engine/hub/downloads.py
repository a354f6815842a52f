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
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import filelock

from engine.errors import (
    DamagedDownloadError,
    DiskFullError,
    DownloadError,
    EngineError,
    HubNotFoundError,
    ModelFileError,
    RemoteChangedError,
    UnsupportedModelError,
)
from engine.gguf import check_model_file
from engine.hub.client import HubClient
from engine.hub.connection import Connection
from engine.hub.download_record import (
    DOWNLOADS_FOLDER,
    DownloadRecord,
    DownloadState,
    read_records,
    write_record,
)
from engine.hub.names import RemoteFile, Version
from engine.hub.transfer import RetryPolicy, Stop, Stopped, Transfer, disk_fault
from engine.library.hashes import keep_hashes

_log = logging.getLogger(__name__)

MAX_ACTIVE = 2
RESERVE_BYTES = 1 << 30  # left free on the disk; on a small one a twentieth of it
RATE_WINDOW_S = 5.0
STOPPING_WAIT_S = 0.6

Connect = Callable[[str], HubClient]


@dataclass(frozen=True)
class DownloadRow:
    """What a person sees of a download.

    Attributes:
        id: names it to ``Downloads``.
        num_received, size: bytes.
        bytes_per_second: of the last seconds; 0 while nothing comes.
        seconds_left: None where nothing can be said.
        message: what it waits for, or why it stopped; "" where all is well.
        paths: where the finished files lie, or will.
    """

    id: str
    repository: str
    label: str
    state: DownloadState
    num_received: int
    size: int
    bytes_per_second: float
    seconds_left: float | None
    message: str
    paths: tuple[Path, ...]


class _Item:
    """A download while the program runs."""

    def __init__(self, folder: Path, record: DownloadRecord) -> None:
        self.folder = folder
        self.record = record
        self.stop = Stop()
        self.thread: threading.Thread | None = None
        self.transfer: Transfer | None = None
        self.is_cancelled = False
        self.samples: deque[tuple[float, int]] = deque(maxlen=64)

    def part(self, index: int) -> Path:
        """Where the bytes of a file go."""
        return self.folder / f"{index:05d}.part"

    def num_received(self) -> int:
        """Bytes on the disk, of all files."""
        received = 0
        for index, file in enumerate(self.record.files):
            if index in self.record.checked:
                received += file.size
            else:
                with contextlib.suppress(OSError):
                    received += self.part(index).stat().st_size
        return received

    def rate(self, received: int) -> float:
        """Bytes a second; takes a sample."""
        now = time.monotonic()
        self.samples.append((now, received))
        while len(self.samples) > 2 and now - self.samples[0][0] > RATE_WINDOW_S:
            self.samples.popleft()
        (first, before), elapsed = self.samples[0], now - self.samples[0][0]
        return max(0.0, (received - before) / elapsed) if elapsed > 0.2 and now > first else 0.0


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
        self._items: dict[str, _Item] = {}
        self._lock = threading.RLock()
        self._is_closed = False

    def start(self) -> None:
        """Take up what an earlier run left; what was running or waiting goes on."""
        with self._lock:
            for folder, record in read_records(self.models_folder):
                if record.id not in self._items and record.state is not DownloadState.DONE:
                    if record.state is DownloadState.RUNNING:
                        record.state = DownloadState.QUEUED
                    self._items[record.id] = _Item(folder, record)
        self._fill()

    def add(self, endpoint: str, repository: str, revision: str, version: Version) -> str:
        """Queue a version; returns its id. One that is queued already goes on.

        Raises DownloadError for a version with shards missing, a name that cannot be stored, files that are here
        already, or a disk with too little room.
        """
        if version.missing:
            numbers = ", ".join(map(str, version.missing[:20]))
            raise DownloadError(f"{repository} lacks the shards {numbers} of {version.num_shards} of this version.")
        record = DownloadRecord(endpoint, repository, revision, version.label, list(version.files))
        targets = [record.target(self.models_folder, file) for file in record.files]
        if all(_has_size(path, file.size) for path, file in zip(targets, record.files, strict=True)):
            raise DownloadError(f"{targets[0].name} is in the models folder already.")
        folder = self.models_folder / DOWNLOADS_FOLDER / record.id
        with self._lock:
            if record.id not in self._items:
                item = _Item(folder, record)
                self._check_room(item)
                try:
                    write_record(folder, record)
                except OSError as error:
                    raise disk_fault(error, folder / "download.json", record.size) from error
                self._items[record.id] = item
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
                return
            item.is_cancelled = True
            item.stop.set()
        if item.thread is not None and item.thread is not threading.current_thread():
            item.thread.join(STOPPING_WAIT_S)
        shutil.rmtree(item.folder, ignore_errors=True)  # where a file is still open, its thread removes the rest
        self._on_change()
        self._fill()

    def rows(self) -> list[DownloadRow]:
        """All downloads, in the order in which they came."""
        with self._lock:
            return [self._row(item) for item in self._items.values()]

    def is_idle(self) -> bool:
        """Whether none runs or waits for its turn."""
        active = {DownloadState.RUNNING, DownloadState.QUEUED}
        with self._lock:
            return not any(item.record.state in active for item in self._items.values())

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
                    item.samples.clear()
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

    def _set_state(self, item: _Item, state: DownloadState, message: str) -> None:
        item.record.state, item.record.message = state, message
        if item.is_cancelled:
            return
        try:
            write_record(item.folder, item.record)
        except OSError as error:  # a full disk, most likely; the record there says something older, which will do
            _log.warning("the state of a download is not kept: %s", error)

    def _row(self, item: _Item) -> DownloadRow:
        record, transfer = item.record, item.transfer
        received = item.num_received()
        is_running = record.state is DownloadState.RUNNING
        rate = item.rate(received) if is_running else 0.0
        message = transfer.message if is_running and transfer is not None else record.message
        return DownloadRow(
            id=record.id,
            repository=record.repository,
            label=record.label,
            state=record.state,
            num_received=received,
            size=record.size,
            bytes_per_second=rate,
            seconds_left=(record.size - received) / rate if rate > 0 else None,
            message=message,
            paths=tuple(record.target(self.models_folder, file) for file in record.files),
        )

    # ------------------------------------------------------------------------------------ one download

    def _work(self, item: _Item, stop: Stop) -> None:
        """The life of a download's thread."""
        state, message = DownloadState.DONE, ""
        try:
            with filelock.FileLock(item.folder / "lock", timeout=0):
                self._check_room(item)
                self._fetch(item, stop)
                self._install(item)
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
            state, message = DownloadState.FAILED, str(disk_fault(error, item.folder / "download", 0))
        except Exception:
            _log.exception("a download failed")
            state, message = DownloadState.FAILED, "The download failed; the log says more. Try it again."
        self._end(item, stop, state, message)

    def _after_stop(self, item: _Item) -> None:
        if item.is_cancelled:
            shutil.rmtree(item.folder, ignore_errors=True)
        self._on_change()
        with self._lock:
            item.thread = None
        self._fill()

    def _end(self, item: _Item, stop: Stop, state: DownloadState, message: str) -> None:
        with self._lock:
            row = None
            if state is DownloadState.DONE:
                self._items.pop(item.record.id, None)
                item.record.state = state
                row = self._row(item)
            elif not stop.is_set:
                self._set_state(item, state, message)
            item.thread = None
        if state is DownloadState.DONE or item.is_cancelled:
            shutil.rmtree(item.folder, ignore_errors=True)
        if row is not None:
            self._on_done(row)
        self._fill()

    def _fetch(self, item: _Item, stop: Stop) -> None:
        """Fetch and check each file that is not there yet; what changed at the hub is looked up anew, once."""
        client = self._connect(item.record.endpoint)
        try:
            try:
                self._fetch_files(item, stop, client.connection)
            except RemoteChangedError:
                self._look_up_anew(item, client)
                self._fetch_files(item, stop, client.connection)
        finally:
            item.transfer = None
            client.close()

    def _fetch_files(self, item: _Item, stop: Stop, connection: Connection) -> None:
        record = item.record
        for index, file in enumerate(record.files):
            part, target = item.part(index), record.target(self.models_folder, file)
            if index in record.checked and (
                _has_size(part, file.size) or (not part.exists() and _has_size(target, file.size))
            ):
                continue
            url = connection.file_url(record.repository, file.path, record.revision)
            item.transfer = Transfer(
                connection, url, file, part, stop=stop, policy=self._policy, on_change=self._on_change
            )
            item.transfer.run()
            _check_header(part, file)
            record.checked = sorted({*record.checked, index})
            write_record(item.folder, record)

    def _look_up_anew(self, item: _Item, client: HubClient) -> None:
        """Take the files as the hub has them now, and begin again."""
        repository = client.repository(item.record.repository)
        paths = [file.path for file in item.record.files]
        for version in repository.groups.versions:
            if [file.path for file in version.files] == paths:
                break
        else:
            raise HubNotFoundError(f"{paths[0]} is no longer in {item.record.repository}: choose another version.")
        for index in range(len(paths)):
            item.part(index).unlink(missing_ok=True)
        item.record.files, item.record.revision, item.record.checked = (
            list(version.files),
            repository.revision,
            [],
        )
        write_record(item.folder, item.record)

    def _install(self, item: _Item) -> None:
        """Give the files their names; only now do they appear as a model."""
        hashes: dict[Path, str] = {}
        for index, file in enumerate(item.record.files):
            part, target = item.part(index), item.record.target(self.models_folder, file)
            if part.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(part, target)
            hashes[target] = file.sha256
        with contextlib.suppress(OSError):
            keep_hashes(hashes, self.models_folder)

    def _check_room(self, item: _Item) -> None:
        """Raises DiskFullError where what is missing would not leave the reserve free."""
        place = self.models_folder
        while not place.exists() and place != place.parent:
            place = place.parent
        usage = shutil.disk_usage(place)
        missing = item.record.size - item.num_received() + reserve_bytes(place) - usage.free
        if missing > 0:
            raise DiskFullError(
                f"{item.record.size / 1e9:.2f} GB do not fit: the disk of {self.models_folder} has "
                f"{usage.free / 1e9:.2f} GB free; free {missing / 1e9:.2f} GB and try again.",
                missing,
            )


def reserve_bytes(place: Path) -> int:
    """What is to stay free on the disk of an existing folder."""
    return min(RESERVE_BYTES, shutil.disk_usage(place).total // 20)


def _check_header(part: Path, file: RemoteFile) -> None:
    """A file whose bytes are those of the hub may still be no model: damaged there, or something else."""
    if not file.path.lower().endswith(".gguf"):
        return
    try:
        check_model_file(part)
    except UnsupportedModelError:
        return  # sound, but for another version of this program; the library says so
    except ModelFileError as error:
        part.unlink(missing_ok=True)
        reason = str(error).partition(": ")[2]
        raise DamagedDownloadError(
            f"{file.path} is damaged at the hub itself ({reason}); choose another version or another model."
        ) from error


def _has_size(path: Path, size: int) -> bool:
    try:
        return size > 0 and path.is_file() and path.stat().st_size == size
    except OSError:
        return False
