"""The schema's history. ``PRAGMA user_version`` counts the migrations that a database file has had.

A migration that was released is never changed; a new one is appended. Each runs in one transaction.
"""

from __future__ import annotations

import sqlite3

SEARCH_INDEX = "message_index"

# Siblings are ordered by ``number``, which no clock can disturb; it is also the row id of the search index.
# The index holds finished messages only, so that saving an answer while it grows costs no re-indexing. Its text
# stays in ``message``; the triggers take out exactly what they put in.
_FIRST = (
    """CREATE TABLE conversation (
        id TEXT PRIMARY KEY NOT NULL,
        title TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        is_pinned INTEGER NOT NULL DEFAULT 0,
        model_path TEXT,
        draft TEXT NOT NULL DEFAULT '',
        active_leaf_id TEXT,
        deleted_at REAL
    )""",
    """CREATE TABLE message (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        conversation_id TEXT NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
        parent_id TEXT REFERENCES message(id) ON DELETE CASCADE,
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        reasoning TEXT NOT NULL DEFAULT '',
        created_at REAL NOT NULL,
        status TEXT NOT NULL,
        error TEXT NOT NULL DEFAULT '',
        stats TEXT,
        model_name TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX message_by_conversation ON message(conversation_id, number)",
    "CREATE INDEX message_by_parent ON message(parent_id)",
    "CREATE INDEX message_unfinished ON message(status) WHERE status = 'streaming'",
    """CREATE VIRTUAL TABLE message_index USING fts5(
        content, content='message', content_rowid='number', tokenize='trigram'
    )""",
    """CREATE TRIGGER message_index_insert AFTER INSERT ON message WHEN new.status <> 'streaming' BEGIN
        INSERT INTO message_index(rowid, content) VALUES (new.number, new.content);
    END""",
    """CREATE TRIGGER message_index_delete AFTER DELETE ON message WHEN old.status <> 'streaming' BEGIN
        INSERT INTO message_index(message_index, rowid, content) VALUES ('delete', old.number, old.content);
    END""",
    """CREATE TRIGGER message_index_update AFTER UPDATE OF status, content ON message BEGIN
        INSERT INTO message_index(message_index, rowid, content)
            SELECT 'delete', old.number, old.content WHERE old.status <> 'streaming';
        INSERT INTO message_index(rowid, content) SELECT new.number, new.content WHERE new.status <> 'streaming';
    END""",
)

# Options are JSON: what a conversation or a preset may set grows faster than a schema should.
# An attachment's text lies in a file of its own, so that a large one never weighs on the database; one without a
# message belongs to the draft.
_SECOND = (
    """CREATE TABLE folder (
        id TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL,
        created_at REAL NOT NULL
    )""",
    "ALTER TABLE conversation ADD COLUMN folder_id TEXT REFERENCES folder(id) ON DELETE SET NULL",
    "ALTER TABLE conversation ADD COLUMN options TEXT NOT NULL DEFAULT '{}'",
    """CREATE TABLE preset (
        id TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL,
        options TEXT NOT NULL DEFAULT '{}'
    )""",
    """CREATE TABLE attachment (
        id TEXT PRIMARY KEY NOT NULL,
        conversation_id TEXT NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
        message_id TEXT REFERENCES message(id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        file_name TEXT NOT NULL,
        num_characters INTEGER NOT NULL
    )""",
    "CREATE INDEX attachment_by_conversation ON attachment(conversation_id, position)",
    "CREATE INDEX attachment_by_message ON attachment(message_id)",
    "CREATE INDEX conversation_by_folder ON conversation(folder_id)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND)
SCHEMA_VERSION = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
    """Bring an open database (autocommit mode) to the newest schema; a failing migration leaves it as it was."""
    version = schema_version(connection)
    for number, statements in enumerate(migrations[version:], start=version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def schema_version(connection: sqlite3.Connection) -> int:
    """The number of migrations that the database has had."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
