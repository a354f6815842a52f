"""Reading and writing conversations and messages with a given connection.

Reading is tolerant: a record with a missing or wrong field is repaired, one that cannot be read hides no other; and
text that no file can hold is written without what it cannot. Transactions are the caller's.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable

from app.storage.reading import moment, number, records, table, text
from app.storage.records import ConversationRecord, MessageRecord, MessageStatus, TrashRecord, clean_text
from engine.protocol import Role

_CONVERSATION_FIELDS = (
    "id, title, created_at, updated_at, is_pinned, model_path, draft, active_leaf_id, folder_id, options"
)
# A conversation whose last message is not known shows what was written last.
_SELECTED_FIELDS = _CONVERSATION_FIELDS.replace(
    "active_leaf_id",
    "coalesce(active_leaf_id, "
    "(SELECT id FROM message WHERE conversation_id = conversation.id ORDER BY number DESC LIMIT 1))",
)
_MESSAGE_FIELDS = (
    "id, conversation_id, parent_id, role, content, reasoning, created_at, status, error, stats, model_name"
)


def read_conversations(connection: sqlite3.Connection) -> list[ConversationRecord]:
    """All conversations that are not deleted, the last written first."""
    query = f"SELECT {_SELECTED_FIELDS} FROM conversation WHERE deleted_at IS NULL ORDER BY updated_at DESC"
    return list(records(connection, query, (), _conversation))


def read_trash(connection: sqlite3.Connection) -> list[TrashRecord]:
    """The conversations in the trash, the last deleted first."""
    query = (
        f"SELECT deleted_at, {_SELECTED_FIELDS} FROM conversation WHERE deleted_at IS NOT NULL "
        "ORDER BY deleted_at DESC"
    )
    return list(records(connection, query, (), _trashed))


def read_messages(connection: sqlite3.Connection, conversation_id: str) -> list[MessageRecord]:
    """The messages of a conversation in the order in which they were written.

    One that was still being written when the program ended comes as INTERRUPTED.
    """
    query = f"SELECT {_MESSAGE_FIELDS} FROM message WHERE conversation_id = ? ORDER BY number"
    return list(records(connection, query, (conversation_id,), _message))


def save_conversation(connection: sqlite3.Connection, record: ConversationRecord) -> None:
    """Insert or update a conversation; whether it is deleted stays as it is."""
    connection.execute(
        f"INSERT INTO conversation ({_CONVERSATION_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET title = excluded.title, created_at = excluded.created_at, "
        "updated_at = excluded.updated_at, is_pinned = excluded.is_pinned, model_path = excluded.model_path, "
        "draft = excluded.draft, active_leaf_id = excluded.active_leaf_id, folder_id = excluded.folder_id, "
        "options = excluded.options",
        (
            record.id,
            clean_text(record.title),
            record.created_at,
            record.updated_at,
            int(record.is_pinned),
            None if record.model_path is None else clean_text(record.model_path),
            clean_text(record.draft),
            record.active_leaf_id,
            record.folder_id,
            clean_text(json.dumps(record.options, ensure_ascii=False)),
        ),
    )


def save_message(connection: sqlite3.Connection, record: MessageRecord) -> None:
    """Insert a message, or update what an answer changes while it grows."""
    connection.execute(
        f"INSERT INTO message ({_MESSAGE_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET content = excluded.content, reasoning = excluded.reasoning, "
        "status = excluded.status, error = excluded.error, stats = excluded.stats, "
        "model_name = excluded.model_name",
        (
            record.id,
            record.conversation_id,
            record.parent_id,
            record.role.value,
            clean_text(record.content),
            clean_text(record.reasoning),
            record.created_at,
            record.status.value,
            clean_text(record.error),
            None if record.stats is None else clean_text(json.dumps(record.stats, ensure_ascii=False)),
            clean_text(record.model_name),
        ),
    )


def mark_deleted(connection: sqlite3.Connection, conversation_id: str, deleted_at: float | None) -> None:
    """Put a conversation into the trash, or with None take it out again."""
    connection.execute("UPDATE conversation SET deleted_at = ? WHERE id = ?", (deleted_at, conversation_id))


def purge(connection: sqlite3.Connection, conversation_ids: Iterable[str]) -> None:
    """Remove conversations with their messages for good."""
    connection.executemany("DELETE FROM conversation WHERE id = ?", [(id_,) for id_ in conversation_ids])


def read_unfinished(connection: sqlite3.Connection) -> list[MessageRecord]:
    """The answers that a killed process left open, the last begun first; those in the trash are left out."""
    query = (
        f"SELECT {_MESSAGE_FIELDS} FROM message WHERE status = ? AND conversation_id IN "
        "(SELECT id FROM conversation WHERE deleted_at IS NULL) ORDER BY number DESC"
    )
    return list(records(connection, query, (MessageStatus.STREAMING.value,), _message))


def mark_interrupted(connection: sqlite3.Connection) -> None:
    """Close the messages that a killed process left open. Only for when nothing is generating."""
    connection.execute(
        "UPDATE message SET status = ? WHERE status = ?",
        (MessageStatus.INTERRUPTED.value, MessageStatus.STREAMING.value),
    )


def _conversation(
    id_: object,
    title: object,
    created: object,
    updated: object,
    pinned: object,
    model: object,
    draft: object,
    leaf: object,
    folder: object,
    options: object,
) -> ConversationRecord:
    created_at = moment(created)
    return ConversationRecord(
        text(id_),
        text(title),
        created_at,
        moment(updated, created_at),
        bool(number(pinned)),
        text(model) or None,
        text(draft),
        text(leaf) or None,
        text(folder) or None,
        table(options) or {},
    )


def _trashed(deleted_at: object, *fields: object) -> TrashRecord:
    # Since when it lies there may have become unreadable: then it must not be removed as too old.
    return TrashRecord(_conversation(*fields), moment(deleted_at, time.time()))


def _message(
    id_: object, conversation: object, parent: object, role: object, content: object, reasoning: object,
    created: object, status: object, error: object, stats: object, model: object,
) -> MessageRecord:  # fmt: skip
    return MessageRecord(
        text(id_),
        text(conversation),
        text(parent) or None,
        _role(role),
        text(content),
        text(reasoning),
        moment(created),
        _status(status),
        text(error),
        table(stats),
        text(model),
    )


def _role(value: object) -> Role:
    """An unknown role is shown as an answer rather than hidden."""
    try:
        return Role(value)
    except ValueError:
        return Role.ASSISTANT


def _status(value: object) -> MessageStatus:
    try:
        status = MessageStatus(value)
    except ValueError:
        return MessageStatus.COMPLETE
    return MessageStatus.INTERRUPTED if status is MessageStatus.STREAMING else status
