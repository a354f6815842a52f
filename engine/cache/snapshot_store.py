"""The snapshots' folder: which files there are for a conversation, the quota, deletion, compaction.

    folder / FORMAT-key / conversation / 000001.kv, 000002.kv, ...

Each write adds a file with what is new; the files of a conversation together are its snapshot. ``key`` stands for
the model and for all that its keys and values depend on, so a snapshot of another model is not found. When the
quota is reached, the conversations used longest ago give way. Names of folders are hashes. All methods may raise
OSError unless they say otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil

from engine.cache.snapshot_file import (
    FORMAT,
    SUFFIX,
    TEMPORARY_SUFFIX,
    Attachment,
    AttachmentKind,
    BlockRecord,
    DamagedSnapshotError,
    SnapshotFile,
    SnapshotWriter,
    read_snapshot,
)

MIN_FREE_BYTES = 1 << 30  # of the disk, which snapshots leave to others
MAX_FILES = 16  # of one conversation; then they are joined
MAX_HEADERS = 128  # kept in memory
MAX_LOGITS = 8  # of a conversation: after its last prompts, whose answers may be wanted anew

_log = logging.getLogger(__name__)
_TEMPORARY = re.compile(r"\..*\.(\d+)" + re.escape(TEMPORARY_SUFFIX))


class SnapshotStore:
    """The snapshots below ``folder``. One thread writes; any may read.

    Attributes:
        quota_bytes: of all files together; 0 keeps nothing.
    """

    def __init__(self, folder: Path, quota_bytes: int) -> None:
        self.quota_bytes = quota_bytes
        self._folder = folder
        self._headers: dict[Path, tuple[tuple[int, int, int], SnapshotFile]] = {}

    def clean(self) -> None:
        """Remove what no reader wants: files that a killed process left half written, folders of other versions."""
        for folder in _folders(self._folder):
            if not folder.name.startswith(f"{FORMAT}-"):
                shutil.rmtree(folder, ignore_errors=True)
        for path in self._folder.glob(f"*/*/.*{TEMPORARY_SUFFIX}"):
            match = _TEMPORARY.fullmatch(path.name)
            if match is None or not psutil.pid_exists(int(match[1])):
                path.unlink(missing_ok=True)

    def files(self, key: bytes, conversation_id: str, block_bytes: int) -> list[SnapshotFile]:
        """The sound files of a conversation, oldest first; marks it as used and removes others. Never raises."""
        folder = self._conversation_folder(key, conversation_id)
        found = [file for path in _snapshots(folder) if (file := self._read(path, key, block_bytes)) is not None]
        if found:
            with contextlib.suppress(OSError):
                os.utime(folder)
        return found

    def has_other(self, key: bytes, conversation_id: str) -> bool:
        """Whether there are snapshots of a conversation for other models or settings. Never raises."""
        own = self._conversation_folder(key, conversation_id)
        others = (folder for folder in self._conversation_folders(conversation_id) if folder != own)
        return any(any(_snapshots(folder)) for folder in others)

    def begin(
        self,
        key: bytes,
        conversation_id: str,
        block_bytes: int,
        records: Sequence[BlockRecord],
        attachments: Sequence[Attachment],
    ) -> SnapshotWriter | None:
        """Make room and begin a file; None when there is no room even for one block.

        Where not all blocks fit into the quota or on the disk, the writer takes the first ones. Logits take a
        quarter of the room at most: without them one token is read, without blocks all are.
        """
        folder = self._conversation_folder(key, conversation_id)
        wanted = _num_bytes(attachments) + len(records) * block_bytes
        room = self._make_room(wanted, folder)
        attachments = _affordable(attachments, room)
        room -= _num_bytes(attachments)
        records = records[: max(0, room // max(1, block_bytes))]
        if room < 0 or not (records or attachments):
            return None
        return SnapshotWriter(_next_path(folder), key, block_bytes, records, attachments)

    def forget(self, conversation_id: str) -> None:
        """Delete all snapshots of a conversation."""
        for folder in self._conversation_folders(conversation_id):
            shutil.rmtree(folder)
            with contextlib.suppress(OSError):
                folder.parent.rmdir()  # the last one of its model

    def clear(self) -> None:
        """Delete all snapshots."""
        for folder in _folders(self._folder):
            shutil.rmtree(folder)

    def trim(self) -> None:
        """Delete the conversations used longest ago until the quota is kept."""
        self._make_room(0, None)

    def usage(self) -> tuple[int, int]:
        """Bytes on the disk, and conversations. Never raises."""
        sizes = [_size(folder) for model in _folders(self._folder) for folder in _folders(model)]
        return sum(sizes), sum(size > 0 for size in sizes)

    def compact(self, key: bytes, conversation_id: str, block_bytes: int) -> None:
        """Join the files of a conversation once there are many, leaving out what newer blocks contain."""
        folder = self._conversation_folder(key, conversation_id)
        if len(list(_snapshots(folder))) < MAX_FILES:
            return
        files = self.files(key, conversation_id, block_bytes)
        blocks = {block.name: (file, index) for file in files for index, block in enumerate(file.blocks)}
        heirs = _heirs([file.blocks[index] for file, index in blocks.values()])
        kept = [file.blocks[index] for name, (file, index) in blocks.items() if name not in heirs]
        attachments = _newest_attachments(files, heirs)
        writer = SnapshotWriter(_next_path(folder), key, block_bytes, kept, attachments)
        try:
            buffer = np.empty((1, block_bytes), np.uint8)
            for record in kept:
                file, index = blocks[record.name]
                if file.read_blocks(index, buffer) == 0:
                    raise DamagedSnapshotError(str(file.path))
                writer.append(buffer)
            writer.finish()
        except DamagedSnapshotError as error:
            _log.warning("snapshot %s is damaged, so all of its conversation goes", error)
            writer.abort()
        except BaseException:
            writer.abort()
            raise
        for path in {*_snapshots(folder)} & {file.path for file in files}:
            path.unlink(missing_ok=True)

    def _read(self, path: Path, key: bytes, block_bytes: int) -> SnapshotFile | None:
        """A file's header, remembered as long as the file is the same; None where it is damaged."""
        try:
            state = path.stat()
            stamp = state.st_ino, state.st_size, state.st_mtime_ns
            if (known := self._headers.get(path)) is not None and known[0] == stamp:
                return known[1]
            file = read_snapshot(path, key, block_bytes)
        except OSError as error:
            _log.warning("snapshot %s cannot be read: %s", path, error)
            return None
        except DamagedSnapshotError as error:
            _log.warning("snapshot %s is removed: %s", path, error)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        while len(self._headers) >= MAX_HEADERS:
            self._headers.pop(next(iter(self._headers)), None)
        self._headers[path] = stamp, file
        return file

    def _make_room(self, wanted: int, keep: Path | None) -> int:
        """Delete conversations other than ``keep`` until ``wanted`` more bytes fit; returns the bytes that do."""
        folders = [folder for model in _folders(self._folder) for folder in _folders(model)]
        sizes = {folder: _size(folder) for folder in folders}
        used = sum(sizes.values())
        for folder in sorted((folder for folder in folders if folder != keep), key=_last_used):
            if used + wanted <= self.quota_bytes:
                break
            shutil.rmtree(folder)
            used -= sizes[folder]
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = shutil.disk_usage(self._folder).free - MIN_FREE_BYTES
        return max(0, min(self.quota_bytes - used, free))

    def _conversation_folder(self, key: bytes, conversation_id: str) -> Path:
        return self._folder / f"{FORMAT}-{key.hex()[:32]}" / _folder_name(conversation_id)

    def _conversation_folders(self, conversation_id: str) -> list[Path]:
        """Those of all models that exist."""
        folders = [model / _folder_name(conversation_id) for model in _folders(self._folder)]
        return [folder for folder in folders if folder.is_dir()]


def _folder_name(conversation_id: str) -> str:
    return hashlib.blake2b(conversation_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _folders(parent: Path) -> list[Path]:
    try:
        return [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []


def _snapshots(folder: Path) -> Iterator[Path]:
    """The complete files of a folder, oldest first."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX) and not name.startswith("."))
    except OSError:
        names = []
    return (folder / name for name in names)


def _next_path(folder: Path) -> Path:
    numbers = [int(path.stem) for path in _snapshots(folder) if path.stem.isdecimal()]
    return folder / f"{max(numbers, default=0) + 1:06d}{SUFFIX}"


def _size(folder: Path) -> int:
    total = 0
    for path in _snapshots(folder):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def _last_used(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _num_bytes(attachments: Sequence[Attachment]) -> int:
    return sum(each.data.nbytes for each in attachments)


def _affordable(attachments: Sequence[Attachment], room: int) -> list[Attachment]:
    """All states, and the first logits as far as a quarter of ``room`` goes."""
    kept, num_left = [], room // 4
    for each in attachments:
        if each.kind is AttachmentKind.LOGITS:
            num_left -= each.data.nbytes
        if each.kind is not AttachmentKind.LOGITS or num_left >= 0:
            kept.append(each)
    return kept


def _heirs(records: Sequence[BlockRecord]) -> dict[bytes, bytes]:
    """For each block that is the beginning of a longer one after the same parent: the name of the longest."""
    by_parent: dict[bytes, list[BlockRecord]] = {}
    for record in records:
        by_parent.setdefault(record.parent, []).append(record)
    heirs = {}
    for record in records:
        length = len(record.token_ids)
        longest = max(
            (other for other in by_parent[record.parent] if other.token_ids[:length] == record.token_ids),
            key=lambda other: len(other.token_ids),
        )
        if len(longest.token_ids) > length:
            heirs[record.name] = longest.name
    return heirs


def _newest_attachments(files: Sequence[SnapshotFile], heirs: dict[bytes, bytes]) -> list[Attachment]:
    """Of all files: each state once, and the newest logits."""
    found: dict[tuple[int, bytes, int], Attachment] = {}
    for file in files:
        for record in file.attachments:
            with contextlib.suppress(DamagedSnapshotError):
                data, name = file.read_attachment(record), heirs.get(record.name, record.name)
                place = record.kind, name, record.num_tokens
                found.pop(place, None)
                found[place] = Attachment(record.kind, name, record.num_tokens, data)
    states = [each for each in found.values() if each.kind is AttachmentKind.STATE]
    logits = [each for each in found.values() if each.kind is AttachmentKind.LOGITS]
    return [*states, *logits[-MAX_LOGITS:]]
