"""Opening the chat database whatever state it is in.

    sound                          opened and migrated
    damaged, or no database        set aside under another name, what is readable is carried into a new one
    written by a newer version     left untouched; this session's chats go to a temporary database
    folder unwritable/unreachable  a temporary copy, so that the chats can be read; on a full disk in memory

Each of the last three comes with a sentence for the person; none keeps the app from starting.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from pathlib import Path

from app.storage.migrations import SCHEMA_VERSION, migrate, schema_version
from app.storage.salvage import copy_database, decode, salvage
from app.storage.schema_check import mend_derived, require_tables
from app.translation import tr
from engine.plain_data import dataclass

_log = logging.getLogger(__name__)

BUSY_RETRY_MS = 250
QUICK_CHECK_LIMIT_BYTES = 64 << 20  # checking 64 MB takes about 0.1 s; a start must not wait longer
_SIDE_FILES = ("", "-wal", "-shm")
_LONGEST_PATH_BYTES = 512 - len("-journal")  # MAX_PATHNAME of SQLite's os_unix.c, links resolved
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_HEADER = b"SQLite format 3\x00"


class NewerDatabaseError(Exception):
    """The database was written by a newer version of the program."""


class DamagedDatabaseError(Exception):
    """The file is no sound database."""


@dataclass
class Database:
    """An open database.

    Attributes:
        path: the file; in a temporary folder when ``is_temporary``; None when it lives in memory.
        notices: one sentence each about what was found.
        is_checked: its pages were checked; False where that would have held up the start.
    """

    path: Path | None
    notices: tuple[str, ...] = ()
    is_temporary: bool = False
    is_checked: bool = True
    _identity: tuple[int, int] | None = None  # device and number of the file, for a lasting one
    _copy_identity: tuple[int, int] | None = None  # of the file that was put back
    _memory_name: str = ""
    _keeper: sqlite3.Connection | None = None  # a database in memory lives as long as a connection to it

    def connect(self) -> sqlite3.Connection:
        """A connection in autocommit mode that any one thread at a time may use."""
        name = self.path or f"file:{self._memory_name}?mode=memory&cache=shared"
        connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False, uri=self.path is None)
        connection.text_factory = decode
        connection.execute(f"PRAGMA busy_timeout = {BUSY_RETRY_MS}")
        connection.execute("PRAGMA foreign_keys = ON")
        # Power may fail, too: a commit returns when the disk has it.
        connection.execute("PRAGMA synchronous = FULL")
        if self.path is None:
            connection.execute("PRAGMA read_uncommitted = ON")  # there a reader would wait for the writer
        return connection

    def find_damage(self) -> str:
        """Check all pages, which takes seconds for a large file; returns what is wrong, "" for nothing.

        What is found is noted beside the file, so that the next start checks and replaces it, whatever its size.
        """
        with contextlib.closing(self.connect()) as connection:
            try:
                finding = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                finding = str(error)
        if finding == "ok":
            return ""
        self.note_damage(finding)
        return finding

    def note_damage(self, finding: str) -> None:
        """Keep beside the file what is wrong with it, for the next start."""
        _log.error("chat database damaged: %s", finding)
        if self.path is not None:
            with contextlib.suppress(OSError):
                _damage_note(self.path).write_text(finding, encoding="utf-8")

    @property
    def is_in_place(self) -> bool:
        """Whether the file that was opened still lies at its path; a system may let it be deleted meanwhile."""
        if self.path is None or self._identity is None:
            return True
        try:
            return _file_identity(self.path) == self._identity
        except OSError:
            return True  # out of reach; whether it is there nobody knows

    def put_back(self, connection: sqlite3.Connection) -> None:
        """Write what ``connection`` still has of a deleted file to its path again.

        Connections made before go on with the deleted one. Raises OSError or sqlite3.Error.
        """
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if (found := _file_identity(self.path)) is not None and found != self._copy_identity:
            os.replace(self.path, _free_name(self.path, "replaced"))  # somebody's, not ours
        scratch = self.path.with_suffix(".tmp")
        scratch.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(scratch)) as copy:
            connection.backup(copy)
        for suffix in _SIDE_FILES[1:]:  # of the deleted one: the new one would be read with its log
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        os.replace(scratch, self.path)
        self._copy_identity = _file_identity(self.path)

    @property
    def is_whole(self) -> bool:
        """All that was ever written should be in it: it is no stand-in, and no damaged one is kept beside it."""
        if self.is_temporary or self.path is None:
            return False
        return not any(self.path.parent.glob(f"{self.path.stem}.damaged-*"))

    def discard_temporary(self) -> None:
        """Remove a temporary database; a lasting one is left alone."""
        if self._keeper is not None:
            self._keeper.close()
        if self.is_temporary and self.path is not None:
            shutil.rmtree(self.path.parent, ignore_errors=True)

    @classmethod
    def in_memory(cls, original: Path | None, notice: str) -> Database:
        """A database that needs no disk; what ``original`` holds, its newest changes excepted, is carried over."""
        database = cls(None, (notice,), is_temporary=True, _memory_name=f"fireside-{os.urandom(16).hex()}")
        keeper = database._keeper = database.connect()
        if original is not None:
            with (
                contextlib.suppress(sqlite3.Error, ValueError),
                contextlib.closing(_open_immutable(original)) as source,
            ):
                source.backup(keeper)
        migrate(keeper)
        return database


def open_database(path: Path) -> Database:
    """Open or create the database at ``path``; never raises for what a disk may hold."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        database = Database(path)
        _prepare(database)
        return _identified(database)
    except NewerDatabaseError as error:
        return _temporary(None, str(error))
    except DamagedDatabaseError as error:
        _log.warning("chat database damaged: %s", error)
        try:
            return _replace_damaged(path)
        except (OSError, sqlite3.Error) as failure:
            return _temporary(None, _unwritable(path, failure))
    except (OSError, sqlite3.Error) as error:
        return _temporary(path, _unwritable(path, error))


def is_damage(error: Exception) -> bool:
    """Whether the error says that the file itself is broken."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE_CODES


def _is_schema_error(error: Exception) -> bool:
    """Whether the error says that tables or columns are not what the schema's number promises."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR


def is_busy(error: Exception) -> bool:
    """Whether the error says that someone else holds the lock."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _prepare(database: Database) -> None:
    """Check and migrate; raises NewerDatabaseError before anything is written, DamagedDatabaseError."""
    assert database.path is not None
    is_new = _check_header(database.path)
    try:
        with contextlib.closing(database.connect()) as connection:
            version = schema_version(connection)  # again: the header may lie behind the write-ahead log
            if version < 0:
                raise DamagedDatabaseError(f"format {version}")
            if version > SCHEMA_VERSION:
                raise NewerDatabaseError(_newer(database.path, version))
            note = _damage_note(database.path)
            # The quick one does not look whether indexes fit their tables, which only writing meets.
            check = "PRAGMA integrity_check(1)" if note.exists() else "PRAGMA quick_check(1)"
            is_small = database.path.stat().st_size <= QUICK_CHECK_LIMIT_BYTES
            database.is_checked = is_new or is_small or note.exists()
            if database.is_checked and not is_new:
                note.unlink(missing_ok=True)
                finding = connection.execute(check).fetchone()[0]
                if finding != "ok":
                    raise DamagedDatabaseError(finding)
            _require_writable(connection)
            if version < SCHEMA_VERSION:
                if version:
                    _back_up(database.path, connection, version)
                connection.execute("PRAGMA journal_mode = WAL")
                migrate(connection)
            require_tables(connection)
            if not is_new and (mended := mend_derived(connection)):
                _log.warning("made anew in the chat database: %s", ", ".join(mended))
    except sqlite3.DatabaseError as error:
        if is_damage(error) or _is_schema_error(error):
            raise DamagedDatabaseError(str(error)) from error
        raise


def _identified(database: Database) -> Database:
    """``database`` with what its file is known by."""
    assert database.path is not None
    database._identity = _file_identity(database.path)
    return database


def _file_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _require_writable(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise


def _back_up(path: Path, connection: sqlite3.Connection, version: int) -> None:
    """Keep the database as it was before a migration; an older backup of the same format is replaced."""
    target = path.with_name(f"{path.stem}.format-{version}{path.suffix}")
    scratch = target.with_suffix(".tmp")
    scratch.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(scratch)) as copy:
        connection.backup(copy)
    os.replace(scratch, target)


def _check_header(path: Path) -> bool:
    """True when there is no database yet. Looks at the bytes alone, so that a newer file is not even locked."""
    try:
        with path.open("rb") as stream:
            header = stream.read(100)
    except FileNotFoundError:
        return True
    if not header:
        return True
    if not header.startswith(_HEADER) or len(header) < 100:
        raise DamagedDatabaseError("not a database")
    version = int.from_bytes(header[60:64], "big", signed=True)
    if version > SCHEMA_VERSION:
        raise NewerDatabaseError(_newer(path, version))
    return False


def _replace_damaged(path: Path) -> Database:
    aside = _free_name(path)
    for suffix in _SIDE_FILES:
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{suffix}", f"{aside}{suffix}")
    database = Database(path)
    _prepare(database)
    with contextlib.closing(database.connect()) as connection:
        num_conversations, num_messages = salvage(aside, connection)
    recovered = (
        tr(
            "{num_conversations} chats with {num_messages} messages were recovered",
            num_conversations=num_conversations,
            num_messages=num_messages,
        )
        if num_conversations
        else tr("nothing in it could be read")
    )
    with contextlib.suppress(OSError):
        aside.chmod(stat.S_IRUSR | stat.S_IRGRP)
    notice = tr(
        "The chat database was damaged: {recovered}, and the damaged file is kept as {name}.",
        recovered=recovered,
        name=aside.name,
    )
    return _identified(Database(path, (notice,)))


def _damage_note(path: Path) -> Path:
    return path.with_suffix(".damage.txt")


def _free_name(path: Path, word: str = "damaged") -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        aside = path.with_name(f"{path.stem}.{word}-{stamp}{f'-{number}' if number else ''}{path.suffix}")
        if not aside.exists():
            return aside
    raise FileExistsError(f"no free name beside {path}")


def _temporary(original: Path | None, notice: str) -> Database:
    """A database in a temporary folder: a copy of ``original`` where that is readable, else an empty one."""
    _log.warning("%s", notice)
    try:
        return _temporary_file(original, notice)
    except (OSError, sqlite3.Error) as error:
        _log.warning("no temporary file either: %s", error)
        return Database.in_memory(original, notice)


def _temporary_file(original: Path | None, notice: str) -> Database:
    folder = Path(tempfile.mkdtemp(prefix="fireside-chats-"))
    if original is not None:
        try:
            copy = Database(copy_database(original, folder), (notice,), is_temporary=True)
            _prepare(copy)
            return copy
        except (OSError, sqlite3.Error, NewerDatabaseError, DamagedDatabaseError) as error:
            _log.warning("the chats cannot be read either: %s", error)
    empty = Database(folder / "session.db", (notice,), is_temporary=True)
    _prepare(empty)
    return empty


def _open_immutable(path: Path) -> sqlite3.Connection:
    """Reads a file as it lies there, which needs neither locks nor the write-ahead log's index."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _newer(path: Path, version: int) -> str:
    return tr(
        "The chats in {parent} were written by a newer Fireside (format {version}; this one reads up to "
        "{newest}) and are left untouched: update Fireside to open them. What you write now is kept only "
        "until you close it.",
        parent=path.parent,
        version=version,
        newest=SCHEMA_VERSION,
    )


def _unwritable(path: Path, error: Exception) -> str:
    if os.name == "posix" and len(os.fsencode(os.path.realpath(path))) > _LONGEST_PATH_BYTES:
        return tr(
            "Chats cannot be saved in {parent}: the path of this folder is too long for them. Start Fireside with "
            "--home and a folder whose path has fewer than {limit} bytes. What you write now is kept only until "
            "you close Fireside.",
            parent=path.parent,
            limit=_LONGEST_PATH_BYTES - len(os.fsencode(path.name)),
        )
    reason = getattr(error, "strerror", None) or str(error)
    return tr(
        "Chats cannot be saved in {parent} ({reason}): make the folder writable and start again. "
        "What you write now is kept only until you close Fireside.",
        parent=path.parent,
        reason=reason,
    )
