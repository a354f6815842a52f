"""Reading and writing folders, presets and attachments with a given connection. Transactions are the caller's."""

from __future__ import annotations

import json
import sqlite3

from app.storage.reading import moment, number, records, table, text
from app.storage.records import AttachmentRecord, FolderRecord, PresetRecord, clean_text


def read_folders(connection: sqlite3.Connection) -> list[FolderRecord]:
    """All folders by name."""
    query = "SELECT id, name, created_at FROM folder ORDER BY name COLLATE NOCASE, id"
    return list(records(connection, query, (), _folder))


def save_folder(connection: sqlite3.Connection, record: FolderRecord) -> None:
    """Insert or rename a folder."""
    connection.execute(
        "INSERT INTO folder (id, name, created_at) VALUES (?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        (record.id, clean_text(record.name), record.created_at),
    )


def delete_folder(connection: sqlite3.Connection, folder_id: str) -> None:
    """Remove a folder; its conversations stay, outside of it."""
    connection.execute("DELETE FROM folder WHERE id = ?", (folder_id,))


def read_presets(connection: sqlite3.Connection) -> list[PresetRecord]:
    """All presets by name."""
    query = "SELECT id, name, options FROM preset ORDER BY name COLLATE NOCASE, id"
    return list(records(connection, query, (), _preset))


def save_preset(connection: sqlite3.Connection, record: PresetRecord) -> None:
    """Insert or change a preset."""
    connection.execute(
        "INSERT INTO preset (id, name, options) VALUES (?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name, options = excluded.options",
        (record.id, clean_text(record.name), clean_text(json.dumps(record.options, ensure_ascii=False))),
    )


def delete_preset(connection: sqlite3.Connection, preset_id: str) -> None:
    """Remove a preset; conversations that took it over keep what they took."""
    connection.execute("DELETE FROM preset WHERE id = ?", (preset_id,))


def read_attachments(connection: sqlite3.Connection, conversation_id: str) -> list[AttachmentRecord]:
    """The attachments of all messages of a conversation and of its draft, in their order."""
    query = (
        "SELECT id, conversation_id, message_id, position, name, file_name, num_characters FROM attachment "
        "WHERE conversation_id = ? ORDER BY message_id, position"
    )
    return list(records(connection, query, (conversation_id,), _attachment))


def read_attachment_files(connection: sqlite3.Connection) -> set[str]:
    """The files that attachments of any conversation, deleted ones included, have their texts in.

    Raises sqlite3.DatabaseError where not all can be read: what is not named here is removed.
    """
    return {text(row[0]) for row in connection.execute("SELECT DISTINCT file_name FROM attachment")}


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
            clean_text(record.name),
            record.file_name,
            record.num_characters,
        ),
    )


def delete_attachment(connection: sqlite3.Connection, attachment_id: str) -> None:
    """Remove an attachment; its file is the caller's."""
    connection.execute("DELETE FROM attachment WHERE id = ?", (attachment_id,))


def _folder(id_: object, name: object, created: object) -> FolderRecord:
    return FolderRecord(text(id_), text(name), moment(created))


def _preset(id_: object, name: object, options: object) -> PresetRecord:
    return PresetRecord(text(id_), text(name), table(options) or {})


def _attachment(
    id_: object, conversation: object, message: object, position: object, name: object, file: object, length: object
) -> AttachmentRecord:
    return AttachmentRecord(
        text(id_),
        text(conversation),
        text(message) or None,
        int(number(position)),
        text(name),
        text(file).replace("\x00", ""),
        int(number(length)),
    )
