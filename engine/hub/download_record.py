"""What is known of a download, as it lies on disk beside its parts.

A download owns the folder ``.downloads/<id>`` in the models folder: ``download.json``, and one ``.part`` file for
each file of the version. Whatever ends the program, the folder says how to go on.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path, PurePosixPath

import filelock

from engine.errors import DownloadError
from engine.hub.names import RemoteFile, is_repository, why_unsafe

_log = logging.getLogger(__name__)

DOWNLOADS_FOLDER = ".downloads"
RECORD_NAME = "download.json"
LOCK_NAME = "lock"  # held by the process that works in a folder
CANCELLED_SUFFIX = ".cancelled"  # of a folder that is only still there because it is being deleted
COPY_PREFIX = "copy-"  # of the folder of a model that is brought into the models folder
MOVES_NAME = "moves.json"  # in that: where its files go, while they go there
FORMAT = 1
MAX_RECORD_BYTES = 1 << 22
MAX_FILE_BYTES = 1 << 60
ORPHANS_KEPT_S = 7 * 86400.0


class DownloadState(str, Enum):
    """Where a download is."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    FAILED = "failed"
    DONE = "done"
    LEFT = "left over"  # parts that cannot go on by themselves


@dataclass
class DownloadRecord:
    """One download.

    Attributes:
        endpoint, repository, revision: where the files are.
        label: which version.
        files: all files, in the order of the shards.
        checked: indices of the files that are complete and right.
        state: as it was when it was written.
        message: why it does not run, for the person.
        validators: of files without a hash, what tells whether they are the same at the hub, by index.
    """

    endpoint: str
    repository: str
    revision: str
    label: str
    files: list[RemoteFile]
    checked: list[int] = field(default_factory=list)
    state: DownloadState = DownloadState.QUEUED
    message: str = ""
    validators: dict[int, dict[str, str]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Tells it from all others."""
        text = "\n".join((self.endpoint, self.repository, self.label, *(file.path for file in self.files)))
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def target(self, models_folder: Path, file: RemoteFile) -> Path:
        """Where the finished file lies: ``owner/name/path``. Raises DownloadError for one outside the folder."""
        if reason := why_unsafe(file.path) or ("" if is_repository(self.repository) else "no such repository"):
            raise DownloadError(f"{file.path[:200]!r} cannot be stored: {reason}.")
        if reason := why_unsafe(self.repository):
            raise DownloadError(f"{self.repository} cannot have a folder of its name: {reason}.")
        path = own_path(models_folder, self.repository, file.path)
        try:
            is_inside = path.resolve().is_relative_to(models_folder.resolve())
        except (OSError, RuntimeError) as error:  # links that lead in a circle
            raise DownloadError(f"{path} cannot be reached through its links: remove the link.") from error
        if not is_inside:
            raise DownloadError(f"{path} leads out of the models folder through a link: remove the link.")
        return path


def own_path(models_folder: Path, repository: str, file_path: str) -> Path:
    """Where a file of a repository lies in the models folder once it is complete; of names that are safe."""
    return models_folder.joinpath(*repository.split("/"), *PurePosixPath(file_path).parts)


def write_record(folder: Path, record: DownloadRecord) -> None:
    """Keep the record in its folder; raises OSError. Who works on the folder holds its lock."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f"{RECORD_NAME}.{os.getpid()}-{threading.get_ident()}.tmp"
    text = json.dumps({"format": FORMAT, **asdict(record)}, indent=1)
    try:
        with open(scratch, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(scratch, folder / RECORD_NAME)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def read_records(models_folder: Path) -> Iterator[tuple[Path, DownloadRecord]]:
    """The downloads that the models folder has, oldest first; a folder without a sound record is passed over.

    One whose folder has another name, as after a copy or from an older program, gets its own name.
    """
    times = {folder: made for folder in _folders(models_folder) if (made := _record_time(folder))}
    for folder in sorted(times, key=times.__getitem__):
        record = _read_record(folder / RECORD_NAME)
        if record is None:
            continue
        if record.id != folder.name:
            own = folder.with_name(record.id)
            try:
                if own.exists():
                    continue
                folder.rename(own)
            except OSError as error:
                _log.warning("a download cannot have its own folder: %s: %s", folder, error)
                continue
            folder = own
        yield folder, record


def take_orphans(models_folder: Path, older_than_s: float = ORPHANS_KEPT_S) -> dict[Path, int]:
    """Folders with parts that no record names, and their bytes; what nobody wanted for some time is deleted.

    Until then the same download, asked for anew, goes on with them: its folder has the same name. A folder that
    cannot be read is passed over, and one with a record, even a damaged one, is never deleted by itself.
    """
    known = {folder for folder, _ in read_records(models_folder)}
    kept = {}
    for folder in sorted(set(_folders(models_folder)) - known):
        with contextlib.suppress(OSError):
            if (folder / MOVES_NAME).exists():  # who looks for models ends that
                continue
            parts = [path for path in folder.iterdir() if path.suffix == ".part"]
            newest = max(path.stat().st_mtime for path in parts or [folder])
            if time.time() - newest > older_than_s and _record_time(folder) == 0:
                _log.info("parts of an unknown download are deleted: %s", folder)
                shutil.rmtree(folder, ignore_errors=True)
            elif (num_bytes := part_bytes(folder)) and not is_worked_on(folder):
                kept[folder] = num_bytes
    return kept


def set_aside(folder: Path) -> Path:
    """Make room for the same download anew while the folder is deleted; returns where it lies now."""
    aside = folder.with_name(f"{folder.name}-{uuid.uuid4().hex[:8]}{CANCELLED_SUFFIX}")
    try:
        return folder.rename(aside)
    except OSError:  # a file in it is open, where the system minds, or it is gone
        return folder


def is_worked_on(folder: Path) -> bool:
    """Whether a process holds the folder's lock."""
    if not (folder / LOCK_NAME).exists():
        return False
    try:
        with filelock.FileLock(folder / LOCK_NAME, timeout=0):
            return False
    except filelock.Timeout:
        return True


def _folders(models_folder: Path) -> list[Path]:
    """What lies where downloads lie; empty where that cannot be listed. What was left of cancelled ones goes."""
    folders = []
    try:
        with os.scandir(models_folder / DOWNLOADS_FOLDER) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir():
                        folders.append(Path(entry.path))
    except OSError:
        return []
    for folder in folders:
        if folder.name.endswith(CANCELLED_SUFFIX):
            shutil.rmtree(folder, ignore_errors=True)
    return [folder for folder in folders if not folder.name.endswith(CANCELLED_SUFFIX)]


def _record_time(folder: Path) -> int | None:
    """When its record was made, in nanoseconds; 0 where it has none, None where nobody may look."""
    try:
        return (folder / RECORD_NAME).lstat().st_ctime_ns
    except FileNotFoundError:
        return 0
    except OSError:
        return None


def part_bytes(folder: Path) -> int:
    """Bytes of the parts in a download's folder; raises OSError."""
    return sum(path.stat().st_size for path in folder.glob("*.part"))


def _read_record(path: Path) -> DownloadRecord | None:
    try:
        if path.stat().st_size > MAX_RECORD_BYTES:
            raise ValueError("too long")
        stored = json.loads(path.read_text(encoding="utf-8"))
        files = [RemoteFile(str(item["path"]), int(item["size"]), str(item["sha256"])) for item in stored["files"]]
        checked = [int(index) for index in stored["checked"] if 0 <= int(index) < len(files)]
        endpoint, repository, revision, label, message = (
            str(stored[name]) for name in ("endpoint", "repository", "revision", "label", "message")
        )
        state = DownloadState(stored["state"])
        validators = {
            int(index): {str(name): str(mark) for name, mark in marks.items()}
            for index, marks in stored.get("validators", {}).items()
        }
        record = DownloadRecord(endpoint, repository, revision, label, files, checked, state, message, validators)
        "".join((record.id, revision, message, *(file.sha256 for file in files))).encode()
        if not all(0 <= file.size < MAX_FILE_BYTES for file in files):
            raise ValueError("a file has no possible size")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        _log.warning("a download's record cannot be read: %s: %s", path, error)
        return None
    if not files or not is_repository(record.repository) or any(why_unsafe(file.path) for file in files):
        _log.warning("a download's record makes no sense: %s", path)
        return None
    return record
