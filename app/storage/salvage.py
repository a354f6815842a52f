"""What can still be read of a damaged database, carried into a new one."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path

_ADOPT_ORPHANS = """INSERT OR IGNORE INTO conversation (id, title, created_at, updated_at)
    SELECT conversation_id, 'Recovered chat', min(created_at), max(created_at) FROM message
    GROUP BY conversation_id"""

# Of what could not be read nothing may depend: the database would refuse to save what does.
_LET_GO = (
    "UPDATE conversation SET folder_id = NULL WHERE folder_id NOT IN (SELECT id FROM folder)",
    "UPDATE message SET parent_id = NULL WHERE parent_id NOT IN (SELECT id FROM message)",
)


def salvage(damaged: Path, connection: sqlite3.Connection) -> tuple[int, int]:
    """Copy the rows that can be read, from both ends of each table; returns their numbers.

    Works on a copy, for SQLite would tidy the kept file's log away.
    """
    with tempfile.TemporaryDirectory(prefix="fireside-") as folder:
        copy = copy_database(damaged, Path(folder))
        with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as source:
            source.text_factory = decode
            source.execute("PRAGMA writable_schema = ON")  # read on past a broken schema entry
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("BEGIN IMMEDIATE")
            for table in ("folder", "conversation", "message", "attachment", "preset"):
                for order in ("ASC", "DESC"):
                    with contextlib.suppress(sqlite3.Error):
                        _copy_rows(source, connection, table, order)
            connection.execute(_ADOPT_ORPHANS)
            for lost in _LET_GO:
                connection.execute(lost)
            counts = [_count(connection, table) for table in ("conversation", "message")]
            connection.execute("COMMIT")
    return counts[0], counts[1]


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def _copy_rows(source: sqlite3.Connection, target: sqlite3.Connection, table: str, order: str) -> None:
    columns = f"PRAGMA table_info({table})"
    known = {row[1] for row in source.execute(columns)}  # an older format has fewer
    names = [row[1] for row in target.execute(columns) if row[1] in known]
    if not names:
        return
    marks = ", ".join("?" * len(names))
    insert = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})"
    for row in source.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY rowid {order}"):
        with contextlib.suppress(sqlite3.IntegrityError):
            target.execute(insert, row)


def copy_database(path: Path, folder: Path) -> Path:
    """Copy a database with its log into a folder; returns where the copy lies. Raises OSError."""
    target = folder / "copy.db"
    shutil.copyfile(path, target)
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(f"{path}-wal", f"{target}-wal")
    return target


def decode(data: bytes) -> str:
    """Text of a database, whatever its bytes are."""
    return data.decode("utf-8", "replace")
