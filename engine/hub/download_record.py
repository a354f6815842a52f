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
import time
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
COPY_PREFIX = "copy-"  # of the folder of a file that is copied into the models folder
FORMAT = 1
MAX_RECORD_BYTES = 1 << 22
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
    """

    endpoint: str
    repository: str
    revision: str
    label: str
    files: list[RemoteFile]
    checked: list[int] = field(default_factory=list)
    state: DownloadState = DownloadState.QUEUED
    message: str = ""

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
        if not path.resolve().is_relative_to(models_folder.resolve()):
            raise DownloadError(f"{path} leads out of the models folder through a link: remove the link.")
        return path


def own_path(models_folder: Path, repository: str, file_path: str) -> Path:
    """Where a file of a repository lies in the models folder once it is complete; of names that are safe."""
    return models_folder.joinpath(*repository.split("/"), *PurePosixPath(file_path).parts)


def write_record(folder: Path, record: DownloadRecord) -> None:
    """Keep the record in its folder; raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f"{RECORD_NAME}.tmp"
    text = json.dumps({"format": FORMAT, **asdict(record)}, indent=1)
    with open(scratch, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(scratch, folder / RECORD_NAME)


def read_records(models_folder: Path) -> Iterator[tuple[Path, DownloadRecord]]:
    """The downloads that the models folder has, oldest first; a folder without a sound record is passed over.

    One whose folder has another name, as after a copy or from an older program, gets its own name.
    """
    root = models_folder / DOWNLOADS_FOLDER
    try:
        folders = [folder for folder in root.iterdir() if (folder / RECORD_NAME).is_file()]
        folders.sort(key=lambda folder: (folder / RECORD_NAME).stat().st_ctime_ns)
    except OSError:
        return
    for folder in folders:
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

    Until then the same download, asked for anew, goes on with them: its folder has the same name.
    """
    known = {folder for folder, _ in read_records(models_folder)}
    root = models_folder / DOWNLOADS_FOLDER
    try:
        orphans = [folder for folder in root.iterdir() if folder.is_dir() and folder not in known]
    except OSError:
        return {}
    kept = {}
    for folder in sorted(orphans):
        with contextlib.suppress(OSError):
            parts = list(folder.glob("*.part"))
            newest = max(path.stat().st_mtime for path in parts or [folder])
            if time.time() - newest > older_than_s:
                _log.info("parts of an unknown download are deleted: %s", folder)
                shutil.rmtree(folder, ignore_errors=True)
            elif (num_bytes := part_bytes(folder)) and not _is_worked_on(folder):
                kept[folder] = num_bytes
    return kept


def _is_worked_on(folder: Path) -> bool:
    try:
        with filelock.FileLock(folder / LOCK_NAME, timeout=0):
            return False
    except filelock.Timeout:
        return True


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
        record = DownloadRecord(endpoint, repository, revision, label, files, checked, state, message)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        _log.warning("a download's record cannot be read: %s: %s", path, error)
        return None
    if not files or not is_repository(record.repository) or any(why_unsafe(file.path) for file in files):
        _log.warning("a download's record makes no sense: %s", path)
        return None
    return record
