"""The snapshots' folder: which files there are for a conversation, the quota, deletion, compaction.

    folder / FORMAT-key / conversation / 000001.kv, 000002.kv, ...

Each write adds a file with what is new; the files of a conversation together are its snapshot. ``key`` stands for
the model and for all that its keys and values depend on, so a snapshot of another model is not found. When the
quota is reached, the conversations used longest ago give way. Names of folders are hashes. All methods may raise
OSError unless they say otherwise.

Several programs may share the folder. Files get their names and go under its lock, and what one of them has deleted
none of the others writes afterwards: see ``deletions``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import time
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import psutil

from engine.cache.deletions import ALL, Deletions, conversation_name
from engine.cache.folder_lock import folder_lock
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
    blocks_offset,
    read_snapshot,
    sync_folder,
)

MIN_FREE_BYTES = 1 << 30  # of the disk, which snapshots leave to others
LOCK_WAIT_S = 2.0  # for another program, which holds the lock for milliseconds; without it nothing is written
MAX_WRITING_S = 86_400.0  # a file that grew no more for so long is left over, though its writer's number lives on
MAX_FILES = 16  # of one conversation; then they are joined
MAX_HEADERS = 128  # kept in memory
MAX_LOGITS = 8  # of a conversation: after its last prompts, whose answers may be wanted anew

_log = logging.getLogger(__name__)
_TEMPORARY = re.compile(r"\..*\.(\d+)" + re.escape(TEMPORARY_SUFFIX))


class SnapshotStore:
    """The snapshots below ``folder``. One thread writes; any may read.

    Attributes:
        quota_bytes: of all files together; 0 keeps nothing.
        deletions: what programs that share the folder have deleted.
    """

    def __init__(self, folder: Path, quota_bytes: int) -> None:
        self.quota_bytes = quota_bytes
        self.deletions = Deletions(folder / "deleted")
        self._folder = folder
        self._headers: dict[Path, tuple[tuple[int, int, int], SnapshotFile]] = {}
        self._damaged: set[Path] = set()  # folders in which a damaged file was found

    def clean(self) -> None:
        """Remove what no reader wants: what a killed program left half written or half deleted, other versions."""
        if not self._folder.is_dir():
            return
        for folder in _folders(self._folder):
            if not folder.name.startswith(f"{FORMAT}-"):
                shutil.rmtree(folder, ignore_errors=True)
        oldest_s = time.time() - MAX_WRITING_S
        for path in self._folder.glob(f"*/*/.*{TEMPORARY_SUFFIX}"):
            match = _TEMPORARY.fullmatch(path.name)
            if match is None or not psutil.pid_exists(int(match[1])) or _last_used(path) < oldest_s:
                with contextlib.suppress(OSError):
                    path.unlink()
        with self._locked():
            for name in self.deletions.unfinished():
                self._delete(name)
            self.deletions.shorten()

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

    def take_damage(self, key: bytes, conversation_id: str) -> bool:
        """Whether ``files`` has removed damaged ones of a conversation since the last call."""
        folder = self._conversation_folder(key, conversation_id)
        has_damage = folder in self._damaged
        self._damaged.discard(folder)
        return has_damage

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
        with self._locked() as is_locked:
            if not is_locked:
                return None
            wanted = _num_bytes(attachments) + len(records) * block_bytes
            room = self._make_room(wanted + blocks_offset(len(records), len(attachments)), folder)
            attachments = _affordable(attachments, room - blocks_offset(0, len(attachments)))
            room -= _num_bytes(attachments)

            def num_bytes(num_blocks: int) -> int:
                return blocks_offset(num_blocks, len(attachments)) + num_blocks * block_bytes

            num_blocks = bisect_right(range(len(records) + 1), room, key=num_bytes) - 1
            if num_blocks < 0 or not (num_blocks or attachments):
                return None
            return SnapshotWriter(_next_path(folder), key, block_bytes, records[:num_blocks], attachments)

    def publish(
        self, writer: SnapshotWriter, conversation_id: str, heard: int, replaced: Collection[Path] = ()
    ) -> None:
        """End a file that has all its blocks, and remove those that it replaces.

        The file goes instead if another program has deleted the conversation since ``heard``.
        """
        writer.seal()
        with self._locked() as is_locked:
            if not is_locked or self.deletions.since(heard).concerns(conversation_id):
                writer.abort()
                return
            writer.finish(_next_path(writer.folder))
            for path in replaced:
                path.unlink(missing_ok=True)
            self._make_room(0, writer.folder)  # another program may have written meanwhile, too

    def forget(self, conversation_id: str) -> None:
        """Delete all snapshots of a conversation; none of what any program knows of it now will be written."""
        with self._locked():
            self._delete(conversation_name(conversation_id))

    def clear(self) -> None:
        """Delete all snapshots; none of what any program knows now will be written."""
        with self._locked():
            self._delete(ALL)

    def trim(self) -> None:
        """Delete the conversations used longest ago until the quota is kept."""
        if not _folders(self._folder):
            return
        if self.quota_bytes == 0:
            self.clear()
            return
        with self._locked():
            self._make_room(0, None)

    def usage(self) -> tuple[int, int]:
        """Bytes on the disk, and conversations. Never raises."""
        sizes = [_size(folder) for model in _folders(self._folder) for folder in _folders(model)]
        return sum(sizes), sum(size > 0 for size in sizes)

    def compact(self, key: bytes, conversation_id: str, block_bytes: int) -> None:
        """Join the files of a conversation once there are many, leaving out what newer blocks contain."""
        folder, heard = self._conversation_folder(key, conversation_id), self.deletions.position
        if len(list(_snapshots(folder))) < MAX_FILES or self._room_on_disk() < _size(folder):
            return
        files = self.files(key, conversation_id, block_bytes)
        blocks = {block.name: (file, index) for file in files for index, block in enumerate(file.blocks)}
        heirs = _heirs([file.blocks[index] for file, index in blocks.values()])
        kept = [file.blocks[index] for name, (file, index) in blocks.items() if name not in heirs]
        attachments = _newest_attachments(files, heirs)
        replaced = {file.path for file in files}
        writer = SnapshotWriter(_next_path(folder), key, block_bytes, kept, attachments)
        try:
            buffer = np.empty((1, block_bytes), np.uint8)
            for record in kept:
                file, index = blocks[record.name]
                if file.read_blocks(index, buffer) == 0:
                    raise DamagedSnapshotError(str(file.path))
                writer.append(buffer)
            self.publish(writer, conversation_id, heard, replaced)
        except DamagedSnapshotError as error:
            _log.warning("snapshot %s is damaged, so all of its conversation goes", error)
            writer.abort()
            for path in replaced:
                path.unlink(missing_ok=True)
        except BaseException:
            writer.abort()
            raise

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
            self._damaged.add(path.parent)
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
            _remove_folder(folder)
            used -= sizes[folder] - _size(folder)
        return max(0, min(self.quota_bytes - used, self._room_on_disk()))

    def _room_on_disk(self) -> int:
        return shutil.disk_usage(self._folder).free - MIN_FREE_BYTES

    def _locked(self) -> AbstractContextManager[bool]:
        """The lock of the folder, which is made where there is none."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder_lock(self._folder, LOCK_WAIT_S)

    def _delete(self, name: str) -> None:
        """Delete a conversation, or all of them, and let the others know; begun is noted first, then done."""
        self.deletions.begin(name)
        folders = [folder for model in _folders(self._folder) for folder in _folders(model)]
        for folder in folders:
            if name in {ALL, folder.name}:
                _remove_folder(folder)
        for path in list(self._headers):
            if name in {ALL, path.parent.name}:
                self._headers.pop(path, None)
        left = [folder for folder in folders if name in {ALL, folder.name} and any(_snapshots(folder))]
        if left:
            raise OSError(f"{len(left)} folders of snapshots cannot be deleted, {left[0]} among them")
        self.deletions.end(name)

    def _conversation_folder(self, key: bytes, conversation_id: str) -> Path:
        return self._folder / f"{FORMAT}-{key.hex()[:32]}" / conversation_name(conversation_id)

    def _conversation_folders(self, conversation_id: str) -> list[Path]:
        """Those of all models that exist."""
        folders = [model / conversation_name(conversation_id) for model in _folders(self._folder)]
        return [folder for folder in folders if folder.is_dir()]


def _folders(parent: Path) -> list[Path]:
    try:
        return [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []


def _snapshots(folder: Path) -> Iterator[Path]:
    """The complete files of a folder, oldest first; a pipe, which might never be read to its end, is none."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(SUFFIX) and not entry.name.startswith(".") and entry.is_file()
            )
    except OSError:
        names = []
    return (folder / name for name in names)


def _remove_folder(folder: Path) -> None:
    """Remove a conversation's folder, and its model's when it was the last; what cannot be removed stays."""
    for path in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        sync_folder(folder)
        folder.rmdir()
        folder.parent.rmdir()


def _next_path(folder: Path) -> Path:
    try:
        names = [Path(name) for name in os.listdir(folder)]  # a folder may have such a name, too
    except OSError:
        names = []
    numbers = [int(path.stem) for path in names if path.suffix == SUFFIX and path.stem.isdecimal()]
    return folder / f"{max(numbers, default=0) + 1:06d}{SUFFIX}"


def _size(folder: Path) -> int:
    total = 0
    for path in _snapshots(folder):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
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
