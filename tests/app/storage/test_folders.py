from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.storage.conversations import (
    mark_deleted,
    purge,
    read_conversations,
    read_trash,
    save_conversation,
    save_message,
)
from app.storage.database import open_database
from app.storage.folders import (
    delete_attachment,
    delete_folder,
    delete_preset,
    read_attachments,
    read_folders,
    read_presets,
    save_attachment,
    save_folder,
    save_preset,
)
from app.storage.records import AttachmentRecord, ConversationRecord, FolderRecord, MessageRecord, PresetRecord
from engine.protocol import Role


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_database(tmp_path / "chats.db").connect()
    yield connection
    connection.close()


def test_a_folder_goes_and_its_chats_stay(connection: sqlite3.Connection) -> None:
    save_folder(connection, FolderRecord("f2", "work", 2.0))
    save_folder(connection, FolderRecord("f1", "Ärger", 1.0))
    save_folder(connection, FolderRecord("f2", "Work", 2.0))
    record = ConversationRecord("c", "title", 1.0, 1.0, folder_id="f2", options={"temperature": 0.5})
    save_conversation(connection, record)
    assert [folder.name for folder in read_folders(connection)] == ["Work", "Ärger"]
    assert read_conversations(connection) == [record]
    delete_folder(connection, "f2")
    [left] = read_conversations(connection)
    assert (left.folder_id, left.options) == (None, {"temperature": 0.5})


def test_presets_are_kept_by_name(connection: sqlite3.Connection) -> None:
    save_preset(connection, PresetRecord("b", "short answers", {"max_tokens": 100}))
    save_preset(connection, PresetRecord("a", "Translator", {"system_prompt": "Übersetze."}))
    connection.execute("INSERT INTO preset VALUES ('x', 'broken', '[1')")
    assert [(p.name, p.options) for p in read_presets(connection)] == [
        ("broken", {}),
        ("short answers", {"max_tokens": 100}),
        ("Translator", {"system_prompt": "Übersetze."}),
    ]
    delete_preset(connection, "b")
    assert len(read_presets(connection)) == 2


def test_attachments_move_from_the_draft_to_the_message(connection: sqlite3.Connection) -> None:
    save_conversation(connection, ConversationRecord("c", "title", 1.0, 1.0))
    save_message(connection, MessageRecord("m", "c", None, Role.USER, "look"))
    draft = AttachmentRecord("a", "c", None, 0, "notes.md", "a.txt", 12)
    save_attachment(connection, draft)
    assert read_attachments(connection, "c") == [draft]
    sent = AttachmentRecord("a", "c", "m", 0, "notes.md", "a.txt", 12)
    save_attachment(connection, sent)
    assert read_attachments(connection, "c") == [sent]
    delete_attachment(connection, "a")
    assert read_attachments(connection, "c") == []


def test_what_is_purged_is_gone(connection: sqlite3.Connection) -> None:
    for number in range(3):
        save_conversation(connection, ConversationRecord(f"c{number}", "title", 1.0, 1.0))
        save_message(connection, MessageRecord(f"m{number}", f"c{number}", None, Role.USER, "x"))
    mark_deleted(connection, "c0", 100.0)
    mark_deleted(connection, "c1", 200.0)
    assert [(entry.conversation.id, entry.deleted_at) for entry in read_trash(connection)] == [
        ("c1", 200.0),
        ("c0", 100.0),
    ]
    purge(connection, ["c0"])
    assert [entry.conversation.id for entry in read_trash(connection)] == ["c1"]
    purge(connection, ["c1"])
    assert [record.id for record in read_conversations(connection)] == ["c2"]
    assert connection.execute("SELECT id FROM message").fetchall() == [("m2",)]
