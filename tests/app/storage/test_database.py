from __future__ import annotations

import os
import shutil
import sqlite3
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from app.storage import database as database_module
from app.storage.conversations import (
    read_conversations,
    read_messages,
    read_trash,
    save_conversation,
    save_message,
)
from app.storage.database import _LONGEST_PATH_BYTES, Database, open_database
from app.storage.folders import save_attachment, save_folder, save_preset
from app.storage.migrations import MIGRATIONS, SCHEMA_VERSION, migrate, schema_version
from app.storage.records import (
    AttachmentRecord,
    ConversationRecord,
    FolderRecord,
    MessageRecord,
    PresetRecord,
)
from app.storage.search import find_conversations
from engine.protocol import Role


def _fill(database: Database, num_conversations: int = 3, text: str = "text") -> None:
    connection = database.connect()
    connection.execute("BEGIN")
    for number in range(num_conversations):
        save_conversation(connection, ConversationRecord(f"c{number}", f"title {number}", 1.0, float(number)))
        save_message(connection, MessageRecord(f"m{number}", f"c{number}", None, Role.USER, f"{text} {number}"))
    connection.execute("COMMIT")
    connection.close()


def _titles(database: Database) -> set[str]:
    connection = database.connect()
    try:
        return {record.title for record in read_conversations(connection)}
    finally:
        connection.close()


def test_a_new_database_is_ready(tmp_path: Path) -> None:
    database = open_database(tmp_path / "дом 家" / "chats.db")
    assert (database.notices, database.is_temporary) == ((), False)
    connection = database.connect()
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1
    assert schema_version(connection) == SCHEMA_VERSION
    with pytest.raises(sqlite3.IntegrityError):
        save_message(connection, MessageRecord("m", "nowhere", None, Role.USER, "x"))
    connection.close()


def test_migrations_run_once_each_and_a_failing_one_changes_nothing(tmp_path: Path) -> None:
    database = open_database(tmp_path / "chats.db")
    _fill(database)
    connection = database.connect()
    second = ("ALTER TABLE conversation ADD COLUMN place TEXT", "UPDATE conversation SET place = 'x'")
    broken = ("ALTER TABLE conversation ADD COLUMN colour TEXT", "SELECT nonsense")
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, (*MIGRATIONS, second, broken))
    assert schema_version(connection) == SCHEMA_VERSION + 1
    assert connection.execute("SELECT DISTINCT place FROM conversation").fetchall() == [("x",)]
    names = [row[1] for row in connection.execute("PRAGMA table_info(conversation)")]
    assert "place" in names
    assert "colour" not in names
    migrate(connection, (*MIGRATIONS, second))
    connection.close()


def _make_first_format(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, MIGRATIONS[:1])
    connection.execute("INSERT INTO conversation (id, title, created_at, updated_at) VALUES ('c0', 'old', 1, 1)")
    connection.execute(
        "INSERT INTO message (id, conversation_id, role, content, created_at, status) "
        "VALUES ('m0', 'c0', 'user', 'hello', 1, 'complete')"
    )
    connection.close()


def test_an_older_database_is_kept_as_it_was_before_it_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    _make_first_format(path)
    database = open_database(path)
    assert (database.notices, _titles(database)) == ((), {"old"})
    with sqlite3.connect(tmp_path / "chats.format-1.db") as backup:
        assert schema_version(backup) == 1
        assert backup.execute("SELECT content FROM message").fetchone() == ("hello",)
    backup.close()


def test_a_damaged_database_of_an_older_format_gives_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    _make_first_format(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'message_by_parent'")
    connection.commit()
    connection.close()
    database = open_database(path)
    assert "1 chats with 1 messages" in database.notices[0]
    assert _titles(database) == {"old"}


def test_a_newer_database_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    first = open_database(path)
    _fill(first)
    connection = first.connect()
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    database = open_database(path)
    assert "newer Fireside" in database.notices[0]
    assert database.is_temporary
    assert _titles(database) == set()
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    database.discard_temporary()
    assert not database.path.exists()


@pytest.mark.parametrize(
    "content", [b"<html>not a database</html>" * 9, b"SQLite format 3\x00short", b"\x00" * 5000]
)
def test_what_is_no_database_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "chats.db"
    path.write_bytes(content)
    database = open_database(path)
    assert "damaged" in database.notices[0]
    assert not database.is_temporary
    [kept] = [name for name in os.listdir(tmp_path) if "damaged" in name]
    assert kept in database.notices[0]
    assert (tmp_path / kept).read_bytes() == content
    assert open_database(path).notices == ()


def test_a_damaged_database_gives_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    database = open_database(path)
    _fill(database, 200, "x" * 2000)
    pages = bytearray(path.read_bytes())
    for page in range(60, 64):
        pages[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    path.write_bytes(pages)
    damaged = open_database(path)
    assert "recovered" in damaged.notices[0]
    assert len(_titles(damaged)) > 150
    assert bytes(pages) in [(tmp_path / name).read_bytes() for name in os.listdir(tmp_path)]
    [kept] = [tmp_path / name for name in os.listdir(tmp_path) if "damaged" in name and name.endswith(".db")]
    assert not kept.stat().st_mode & 0o222, "nothing writes into it any more"


def test_a_large_database_is_checked_beside_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "QUICK_CHECK_LIMIT_BYTES", 1000)
    path = tmp_path / "chats.db"
    first = open_database(path)
    _fill(first, 200, "x" * 2000)
    large = open_database(path)
    assert (large.is_checked, large.find_damage()) == (False, "")
    pages = bytearray(path.read_bytes())
    for page in range(60, 64):
        pages[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    path.write_bytes(pages)
    damaged = open_database(path)
    assert damaged.notices == (), "the start does not wait for the check"
    assert damaged.find_damage() != ""
    again = open_database(path)
    assert "recovered" in again.notices[0]
    assert again.is_checked
    assert len(_titles(again)) > 150
    assert open_database(path).notices == ()


def test_messages_whose_chat_was_lost_are_recovered_too(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    _fill(open_database(path))
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM conversation WHERE id = 'c1'")
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'message_by_parent'")
    connection.commit()
    connection.close()
    assert _titles(open_database(path)) == {"title 0", "title 2", "Recovered chat"}


def test_an_unreachable_folder_gives_a_temporary_database(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    database = open_database(tmp_path / "file" / "data" / "chats.db")
    assert database.is_temporary
    assert "cannot be saved" in database.notices[0]
    _fill(database)
    assert len(_titles(database)) == 3
    database.discard_temporary()


@pytest.mark.skipif(os.name == "nt", reason="the limit is that of SQLite on other systems")
def test_a_path_that_sqlite_cannot_take_is_named(tmp_path: Path) -> None:
    longest = _LONGEST_PATH_BYTES - len("/chats.db")
    folder = tmp_path.resolve()
    while (room := longest - len(os.fsencode(folder))) > 202:
        folder /= "ü" * 50
    folder /= "x" * (room - 1)
    folder.mkdir(parents=True)
    assert len(os.fsencode(folder / "chats.db")) == _LONGEST_PATH_BYTES
    fits = open_database(folder / "chats.db")
    _fill(fits)
    assert not fits.is_temporary
    assert not fits.notices
    link = tmp_path / "short"
    (folder / "y").mkdir()
    link.symlink_to(folder / "y")
    for place in (folder / "y", link):
        database = open_database(place / "chats.db")
        assert database.is_temporary
        assert "too long" in database.notices[0]
        assert f"fewer than {longest + 1} bytes" in database.notices[0]
        database.discard_temporary()


def test_chats_in_a_read_only_folder_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chats.db"
    first = open_database(path)
    _fill(first)
    keep_log = first.connect()  # so that the chats still lie in the write-ahead log
    keep_log.execute("SELECT 1 FROM conversation").fetchone()
    shutil.copytree(tmp_path, tmp_path / "copy")

    def refuse(connection: sqlite3.Connection) -> None:
        if str(tmp_path / "copy") in connection.execute("PRAGMA database_list").fetchone()[2]:
            raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(database_module, "_require_writable", refuse)
    database = open_database(tmp_path / "copy" / "chats.db")
    assert database.is_temporary
    assert "readonly" in database.notices[0]
    assert len(_titles(database)) == 3
    keep_log.close()
    database.discard_temporary()


def test_a_full_disk_gives_a_database_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "дом" / "chats.db"
    _fill(open_database(path))

    def no_room(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(database_module, "_require_writable", no_room)
    monkeypatch.setattr("tempfile.mkdtemp", no_room)
    database = open_database(path)
    assert database.is_temporary
    assert "No space left" in database.notices[0]
    assert _titles(database) == {"title 0", "title 1", "title 2"}
    writer = database.connect()
    writer.execute("BEGIN IMMEDIATE")
    save_conversation(writer, ConversationRecord("new", "new", 1.0, 1.0))
    assert len(_titles(database)) == 4
    writer.execute("COMMIT")
    writer.close()
    other = open_database(tmp_path / "absent" / "chats.db")
    assert _titles(other) == set(), "two of them do not share their chats"
    database.discard_temporary()
    other.discard_temporary()


def test_a_bad_record_hides_no_other(tmp_path: Path) -> None:
    database = open_database(tmp_path / "chats.db")
    _fill(database)
    connection = database.connect()
    connection.execute("UPDATE conversation SET title = x'ff41', created_at = 'yesterday' WHERE id = 'c0'")
    connection.execute("UPDATE conversation SET updated_at = 9e999, is_pinned = 'maybe', draft = 7 WHERE id = 'c1'")
    connection.execute(
        "INSERT INTO message (id, conversation_id, parent_id, role, content, created_at, status, stats) VALUES"
        " ('b1', 'c0', 'm0', 'wizard', x'00fe', 'noon', 'unheard of', '{broken')"
    )
    save_message(connection, MessageRecord("b2", "c0", "b1", Role.ASSISTANT, "fine", stats={"seed": 1}))
    assert {record.id for record in read_conversations(connection)} == {"c0", "c1", "c2"}
    first, bad, last = read_messages(connection, "c0")
    assert (first.content, bad.content, bad.stats, last.content) == ("text 0", "\x00\ufffd", None, "fine")
    assert last.stats == {"seed": 1}
    connection.close()


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE message_index",
        "DROP TABLE message_index_data",
        "DELETE FROM message_index_data",
        "DROP TRIGGER message_index_insert",
        "DROP INDEX message_by_conversation",
    ],
)
def test_what_can_be_made_anew_is_made_anew(tmp_path: Path, change: str) -> None:
    path = tmp_path / "chats.db"
    _fill(open_database(path))
    _run(path, change)
    database = open_database(path)
    assert (database.notices, database.is_temporary) == ((), False)
    connection = database.connect()
    save_message(connection, MessageRecord("new", "c0", "m0", Role.ASSISTANT, "needle"))
    assert set(find_conversations(connection, "text")) == {"c0", "c1", "c2"}
    assert set(find_conversations(connection, "needle")) == {"c0"}
    plan = connection.execute(
        "EXPLAIN QUERY PLAN SELECT * FROM message WHERE conversation_id = 'c0' ORDER BY number"
    )
    assert "message_by_conversation" in str(plan.fetchall())
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    connection.close()


@pytest.mark.parametrize(
    ("change", "num_titles", "num_messages"),
    [
        ("DROP TABLE folder", 3, 3),
        ("DROP TABLE preset", 3, 3),
        ("DROP TABLE attachment", 3, 3),
        ("DROP TABLE message", 3, 0),
        ("ALTER TABLE conversation DROP COLUMN options", 3, 3),
        ("ALTER TABLE message DROP COLUMN stats", 3, 3),
        ("PRAGMA user_version = 0", 3, 3),
        ("PRAGMA user_version = 1", 3, 3),
        ("PRAGMA user_version = -5", 3, 3),
    ],
)
def test_another_schema_than_its_number_says_is_damage(
    tmp_path: Path, change: str, num_titles: int, num_messages: int
) -> None:
    path = tmp_path / "chats.db"
    database = open_database(path)
    _fill(database)
    connection = database.connect()
    save_folder(connection, FolderRecord("f", "Folder", 1.0))
    connection.execute("UPDATE conversation SET folder_id = 'f'")
    connection.close()
    _run(path, change)
    database = open_database(path)
    assert not database.is_temporary
    assert "was damaged" in database.notices[0]
    assert len(_titles(database)) == num_titles
    connection = database.connect()
    for record in read_conversations(connection):
        save_conversation(connection, record)  # what is left can be saved: nothing in it depends on what is lost
    assert sum(len(read_messages(connection, f"c{number}")) for number in range(3)) == num_messages
    save_message(connection, MessageRecord("new", "c0", None, Role.USER, "more"))
    connection.close()


@pytest.mark.parametrize("moment", ["1e300", "-1e300", "9e15", "'yesterday'", "x'00'"])
def test_a_time_that_is_none_is_replaced(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "chats.db"
    _fill(open_database(path))
    _run(path, f"UPDATE conversation SET created_at = {moment}, updated_at = {moment}")
    _run(path, f"UPDATE message SET created_at = {moment}")
    connection = open_database(path).connect()
    for record in read_conversations(connection):
        datetime.fromtimestamp(record.updated_at, timezone(timedelta(hours=14))).isoformat()
        assert read_messages(connection, record.id)[0].created_at == 0.0
    _run(path, f"UPDATE conversation SET deleted_at = {moment}")
    now = time.time()
    assert all(record.deleted_at >= now for record in read_trash(connection)), "it must not be removed as too old"
    connection.close()


def test_what_no_file_can_hold_is_written_without_it(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "chats.db").connect()
    broken = "caf\udce9"
    record = ConversationRecord("c", broken, 1.0, 1.0, False, f"/{broken}.gguf", broken, options={"x": broken})
    message = MessageRecord("m", "c", None, Role.USER, broken, broken, error=broken, stats={"x": broken})
    save_conversation(connection, record)
    save_message(connection, replace(message, model_name=broken))
    save_folder(connection, FolderRecord("f", broken, 1.0))
    save_preset(connection, PresetRecord("p", broken, {"x": broken}))
    save_attachment(connection, AttachmentRecord("a", "c", "m", 0, broken, "a.txt", 1))
    read = read_conversations(connection)[0]
    assert (read.title, read.draft, read.options) == ("caf\ufffd", "caf\ufffd", {"x": "caf\ufffd"})
    assert read_messages(connection, "c")[0].content == "caf\ufffd"
    connection.close()


def test_figures_that_are_none_are_left_out(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "chats.db").connect()
    save_conversation(connection, ConversationRecord("c", "t", 1.0, 1.0))
    save_message(connection, MessageRecord("m", "c", None, Role.ASSISTANT, "x"))
    figures = '{"a": 1e999, "b": NaN, "c": ' + "9" * 4000 + ', "d": [Infinity, 1], "e": {"f": -1e400}, "g": 0.5}'
    connection.execute("UPDATE message SET stats = ?", (figures,))
    stats = read_messages(connection, "c")[0].stats
    assert stats == {"a": None, "b": None, "c": None, "d": [None, 1], "e": {"f": None}, "g": 0.5}
    connection.close()


def test_a_database_beside_a_damaged_one_names_not_all(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    database = open_database(path)
    assert database.is_whole
    _fill(database)
    _run(path, "DROP TABLE attachment")
    assert not open_database(path).is_whole
    assert not open_database(path).is_whole, "at later starts, too"


def _run(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()
