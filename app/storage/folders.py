"""Reading and writing folders, presets and attachments with a given connection. Transactions are the caller's."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from app.storage.records import AttachmentRecord, FolderRecord, PresetRecord


def read_folders(connection: sqlite3.Connection) -> list[FolderRecord]:
    """All folders by name."""
    rows = connection.execute("SELECT id, name, created_at FROM folder ORDER BY name COLLATE NOCASE, id")
    return [FolderRecord(str(id_), str(name), float(created)) for id_, name, created in rows]


def save_folder(connection: sqlite3.Connection, record: FolderRecord) -> None:
    """Insert or rename a folder."""
    connection.execute(
        "INSERT INTO folder (id, name, created_at) VALUES (?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        (record.id, record.name, record.created_at),
    )


def delete_folder(connection: sqlite3.Connection, folder_id: str) -> None:
    """Remove a folder; its conversations stay, outside of it."""
    connection.execute("DELETE FROM folder WHERE id = ?", (folder_id,))


def read_presets(connection: sqlite3.Connection) -> list[PresetRecord]:
    """All presets by name."""
    rows = connection.execute("SELECT id, name, options FROM preset ORDER BY name COLLATE NOCASE, id")
    return [PresetRecord(str(id_), str(name), _options(options)) for id_, name, options in rows]


def save_preset(connection: sqlite3.Connection, record: PresetRecord) -> None:
    """Insert or change a preset."""
    connection.execute(
        "INSERT INTO preset (id, name, options) VALUES (?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name, options = excluded.options",
        (record.id, record.name, json.dumps(record.options, ensure_ascii=False)),
    )


def delete_preset(connection: sqlite3.Connection, preset_id: str) -> None:
    """Remove a preset; conversations that took it over keep what they took."""
    connection.execute("DELETE FROM preset WHERE id = ?", (preset_id,))


def read_attachments(connection: sqlite3.Connection, conversation_id: str) -> list[AttachmentRecord]:
    """The attachments of all messages of a conversation and of its draft, in their order."""
    rows = connection.execute(
        "SELECT id, conversation_id, message_id, position, name, file_name, num_characters FROM attachment "
        "WHERE conversation_id = ? ORDER BY message_id, position",
        (conversation_id,),
    )
    return [AttachmentRecord(*row) for row in rows]


def read_attachment_files(connection: sqlite3.Connection) -> set[str]:
    """The files that attachments of any conversation, deleted ones included, have their texts in."""
    return {str(row[0]) for row in connection.execute("SELECT DISTINCT file_name FROM attachment")}


def save_attachment(connection: sqlite3.Connection, record: AttachmentRecord) -> None:
    """Insert an attachment, or move it from the draft to a message."""
    connection.execute(
        "INSERT INTO attachment (id, conversation_id, message_id, position, name, file_name, num_characters) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET message_id = excluded.message_id, position = excluded.position",
        (
            record.id,
            record.conversation_id,
            record.message_id,
            record.position,
            record.name,
            record.file_name,
            record.num_characters,
        ),
    )


def delete_attachment(connection: sqlite3.Connection, attachment_id: str) -> None:
    """Remove an attachment; its file is the caller's."""
    connection.execute("DELETE FROM attachment WHERE id = ?", (attachment_id,))


def _options(text: object) -> dict[str, Any]:
    try:
        options = json.loads(str(text))
    except (ValueError, RecursionError):
        return {}
    return options if isinstance(options, dict) else {}
