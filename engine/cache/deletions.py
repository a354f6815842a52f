"""Which conversations were deleted, for all programs that share a folder of snapshots.

Another program may hold a deleted conversation in memory and write it a second later, or a minute. So a deletion is
noted in a file first, then done, and then noted as done: who writes a snapshot looks there before the file gets its
name, and who starts does what was begun and not done. The file only grows while anybody may be reading it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

ALL = "0" * 32  # the name that stands for all conversations
BEGUN, DONE = "-", "="
MAX_BYTES = 1 << 20  # then the next start begins the file anew

_LINE_BYTES = 1 + 32 + 1 + 16  # kind, name, space, author


def conversation_name(conversation_id: str) -> str:
    """What a conversation is called on the disk: 32 hexadecimal digits that do not tell its id."""
    return hashlib.blake2b(conversation_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Deleted:
    """What other programs have deleted.

    Attributes:
        names: ``conversation_name`` of each conversation.
        is_all: whether all snapshots were deleted.
        end: up to where in the file this tells.
    """

    names: frozenset[str]
    is_all: bool
    end: int

    def has(self, conversation_id: str) -> bool:
        """Whether this conversation itself was deleted."""
        return conversation_name(conversation_id) in self.names

    def concerns(self, conversation_id: str) -> bool:
        """Whether its snapshot was deleted."""
        return self.is_all or self.has(conversation_id)


class Deletions:
    """The file of deletions at ``path``. ``begin``, ``end`` and ``shorten`` may raise OSError.

    Attributes:
        heard: up to where ``news`` has told.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._author = secrets.token_hex(8)  # own deletions are no news
        self.heard = self.position

    @property
    def position(self) -> int:
        """Where the next deletion will be noted."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def news(self) -> Deleted:
        """What others have deleted since the last call, or since this was made."""
        deleted = self.since(self.heard)
        self.heard = deleted.end
        return deleted

    def since(self, position: int) -> Deleted:
        """What others have deleted since ``position``: all, where the file was begun anew meanwhile."""
        try:
            with self._open() as file:
                is_new = os.fstat(file.fileno()).st_size < position
                file.seek(0 if is_new else position)
                content = file.read()
                end = file.tell()
        except OSError:
            is_new, content, end = position > 0, b"", 0
        lines = content.decode("ascii", "replace").splitlines()
        names = {line[1:33] for line in lines if line[:1] == BEGUN and line[34:] != self._author}
        return Deleted(frozenset(names - {ALL}), is_new or ALL in names, end)

    def begin(self, name: str) -> None:
        """Note that ``name``, a conversation's or ``ALL``, is about to be deleted."""
        self._note(BEGUN, name)

    def end(self, name: str) -> None:
        """Note that what was begun is done."""
        self._note(DONE, name)

    def unfinished(self) -> list[str]:
        """The names whose deletion was begun, by whomever, and not done."""
        try:
            with self._open() as file:
                lines = file.read().decode("ascii", "replace").splitlines()
        except OSError:
            return []
        last = {line[1:33]: line[:1] for line in lines if len(line) == _LINE_BYTES}
        return [name for name, kind in last.items() if kind == BEGUN]

    def shorten(self) -> None:
        """Begin the file anew where it has become long; nothing in it may be unfinished."""
        if self.position > MAX_BYTES:
            os.truncate(self._path, 0)

    def _open(self) -> BinaryIO:
        """The file, for reading. Raises OSError where something else is in its place: a pipe never ends."""
        if self._path.exists() and not self._path.is_file():
            raise OSError(f"{self._path} is no file")
        return open(self._path, "rb")

    def _note(self, kind: str, name: str) -> None:
        if self._path.is_dir() and not self._path.is_symlink():  # of whatever damage; deletions must be noted
            shutil.rmtree(self._path)
        elif not self._path.is_file():
            self._path.unlink(missing_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"\n{kind}{name} {self._author}".encode("ascii"))  # after whatever is half written
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
