"""Whether a database has the schema that its number promises, and how what can be made anew is made anew.

Indexes, triggers and the search index hold nothing of their own, so they are repaired in place; tables and columns
that are missing are damage.
"""

from __future__ import annotations

import sqlite3

from app.storage.migrations import MIGRATIONS, SEARCH_INDEX

_COLUMNS = {
    "conversation": (
        "id, title, created_at, updated_at, is_pinned, model_path, draft, active_leaf_id, deleted_at, folder_id, "
        "options"
    ),
    "message": (
        "number, id, conversation_id, parent_id, role, content, reasoning, created_at, status, error, stats, "
        "model_name"
    ),
    "folder": "id, name, created_at",
    "preset": "id, name, options",
    "attachment": "id, conversation_id, message_id, position, name, file_name, num_characters",
}
_SHADOWS = ("data", "idx", "docsize", "config", "content")


def require_tables(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.OperationalError where a table or a column is missing."""
    for table, columns in _COLUMNS.items():
        connection.execute(f"SELECT {columns} FROM {table} LIMIT 0")


def mend_derived(connection: sqlite3.Connection) -> list[str]:
    """Make indexes, triggers and the search index anew where they are missing; returns their names."""
    present = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")}
    missing = {name: sql for name, sql in _derived().items() if name not in present}
    if SEARCH_INDEX in missing or not _opens(connection):
        rebuild_search_index(connection)
        missing.pop(SEARCH_INDEX, None)
    for sql in missing.values():
        connection.execute(sql)
    if any(name.startswith(f"{SEARCH_INDEX}_") for name in missing):  # it did not hear of every message
        rebuild_search_index(connection)
    return list(missing)


def rebuild_search_index(connection: sqlite3.Connection) -> None:
    """Make the search index anew from the messages, however broken the old one is. Outside of transactions.

    An index that cannot be opened cannot be dropped either, so its entry in the schema is taken out by hand.
    """
    connection.execute("PRAGMA writable_schema = ON")
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", (SEARCH_INDEX,))
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA writable_schema = RESET")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for shadow in _SHADOWS:
            connection.execute(f"DROP TABLE IF EXISTS {SEARCH_INDEX}_{shadow}")
        connection.execute(_derived()[SEARCH_INDEX])
        connection.execute(
            f"INSERT INTO {SEARCH_INDEX}(rowid, content) SELECT number, content FROM message "
            "WHERE status <> 'streaming'"
        )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _opens(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute(f"SELECT rowid FROM {SEARCH_INDEX} LIMIT 0")
    except sqlite3.DatabaseError:
        return False
    return True


def _derived() -> dict[str, str]:
    """What can be made anew from the tables: name and the statement that makes it."""
    found: dict[str, str] = {}
    for statement in (statement for migration in MIGRATIONS for statement in migration):
        words = statement.split(maxsplit=4)
        if words[1] in {"INDEX", "TRIGGER"}:
            found[words[2]] = statement
        elif words[1] == "VIRTUAL":
            found[words[3]] = statement
    return found
