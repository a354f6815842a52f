from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.storage import database as database_module
from app.storage.conversations import save_conversation, save_message
from app.storage.records import ConversationRecord, MessageRecord, MessageStatus
from app.storage.search import find_conversations
from app.storage.store import ChatStore
from engine.protocol import Role


@pytest.fixture
def store(qtbot: QtBot, tmp_path: Path) -> Iterator[ChatStore]:
    store = ChatStore(tmp_path / "chats.db", busy_notice_s=0.1)
    yield store
    store.close()


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold the database as another program does."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")
    connection.close()


def _save(store: ChatStore, *messages: MessageRecord) -> list[str]:
    """Write a conversation with messages; the list fills when the disk has them."""
    saved: list[str] = []

    def work(connection: sqlite3.Connection) -> None:
        save_conversation(connection, ConversationRecord("c", "title", 1.0, 2.0))
        for message in messages:
            save_message(connection, message)

    store.write(work, lambda: saved.append("saved"))
    return saved


def test_a_held_lock_delays_a_write_says_so_and_loses_nothing(
    store: ChatStore, qtbot: QtBot, tmp_path: Path
) -> None:
    troubles: list[str] = []
    store.trouble.connect(troubles.append)
    with _held(tmp_path / "chats.db"):
        saved = _save(store, MessageRecord("m", "c", None, Role.USER, "kept"))
        assert store.read_conversations() == [], "neither writing nor reading waits on this thread"
        qtbot.waitUntil(lambda: bool(troubles))
        assert saved == []
    qtbot.waitUntil(lambda: bool(saved))
    assert [record.content for record in store.read_messages("c")] == ["kept"]
    assert "Another program" in troubles[0]


def test_closing_does_not_wait_for_ever_for_a_lock_and_says_what_is_lost(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ChatStore(tmp_path / "chats.db")
    saved = _save(store)
    qtbot.waitUntil(lambda: bool(saved))
    monkeypatch.setattr("app.storage.store.CLOSING_WAIT_S", 0.3)
    with _held(tmp_path / "chats.db"):
        _save(store, MessageRecord("m", "c", None, Role.USER, "lost"))
        assert not store.close()


def test_a_failed_write_is_told_and_the_next_one_works(store: ChatStore, qtbot: QtBot) -> None:
    errors: list[str] = []
    store.write(lambda connection: connection.execute("INSERT INTO nothing VALUES (1)"), None, errors.append)  # type: ignore[arg-type, return-value]
    saved = _save(store)
    qtbot.waitUntil(lambda: bool(saved))
    assert "could not be saved" in errors[0]


def test_a_write_is_all_or_nothing(store: ChatStore, qtbot: QtBot) -> None:
    errors: list[str] = []

    def work(connection: sqlite3.Connection) -> None:
        save_conversation(connection, ConversationRecord("c", "half", 1.0, 1.0))
        raise OSError("power cut")

    store.write(work, None, errors.append)
    qtbot.waitUntil(lambda: bool(errors))
    assert store.read_conversations() == []


def test_the_index_follows_the_messages(store: ChatStore, qtbot: QtBot) -> None:
    question = MessageRecord("m1", "c", None, Role.USER, "Wo liegt 東京都?")
    answer = MessageRecord("m2", "c", "m1", Role.ASSISTANT, "In Jap", status=MessageStatus.STREAMING)
    saved = _save(store, question, answer)
    qtbot.waitUntil(lambda: bool(saved))

    def found(text: str) -> set[str]:
        connection = sqlite3.connect(store._database.path)
        try:
            return set(find_conversations(connection, text))
        finally:
            connection.close()

    assert found("東京都") == found("京都") == found("LIEGT") == {"c"}
    assert found("n Jap") == set(), "an unfinished answer is not indexed yet"
    finished = MessageRecord("m2", "c", "m1", Role.ASSISTANT, "In Japan, 100% 'sure' \"yes\" a\\b_c")
    saved = _save(store, finished)
    qtbot.waitUntil(lambda: bool(saved))
    for text in ("japan", "100%", "0%", "'sure'", '"yes"', "\\b", "b_"):
        assert found(text) == {"c"}, text
    for text in ("yes OR", "b%", "xb", "NEAR(", "*"):
        assert found(text) == set(), text
    connection = store._database.connect()
    connection.execute("INSERT INTO message_index(message_index) VALUES ('integrity-check')")
    connection.execute("DELETE FROM message WHERE id = 'm1'")
    connection.execute("INSERT INTO message_index(message_index) VALUES ('integrity-check')")
    assert find_conversations(connection, "Japan") == {}, "messages below a removed one go with it"
    connection.close()


def test_however_many_messages_are_read_with_one_question_that_an_index_answers(
    store: ChatStore, qtbot: QtBot
) -> None:
    parents = [None, *(f"m{number}" for number in range(299))]
    saved = _save(
        store, *(MessageRecord(f"m{number}", "c", parent, Role.USER, "") for number, parent in enumerate(parents))
    )
    qtbot.waitUntil(lambda: bool(saved))
    asked: list[str] = []
    store._reader.set_trace_callback(asked.append)
    assert len(store.read_messages("c")) == 300
    store._reader.set_trace_callback(None)
    [query] = asked
    steps = [detail for *_, detail in store._reader.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert [step.split()[0] for step in steps] == ["SEARCH"], "neither a walk through all messages nor a sort"


def test_damage_that_is_found_later_is_told(tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "QUICK_CHECK_LIMIT_BYTES", 0)
    ChatStore(tmp_path / "chats.db").close()
    monkeypatch.setattr(database_module.Database, "find_damage", lambda _self: "page 7 is wrong")
    store = ChatStore(tmp_path / "chats.db")
    with qtbot.waitSignal(store.trouble) as caught:
        pass
    assert "damaged" in caught.args[0]
    store.close()


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be deleted there")
@pytest.mark.parametrize("kind", ["file", "folder", "replaced"])
def test_a_database_that_is_deleted_meanwhile_is_written_again(qtbot: QtBot, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "data" / "chats.db"
    store = ChatStore(path)
    told: list[str] = []
    store.trouble.connect(told.append)
    saved = _save(store, MessageRecord("m1", "c", None, Role.USER, "before"))
    qtbot.waitUntil(lambda: bool(saved), timeout=3000)
    if kind == "folder":
        shutil.rmtree(path.parent)
    else:
        path.unlink()
    if kind == "replaced":
        path.write_bytes(b"somebody's")
    for number in (2, 3):
        saved = _save(store, MessageRecord(f"m{number}", "c", None, Role.USER, f"after {number}"))
        qtbot.waitUntil(lambda: bool(saved), timeout=3000)  # noqa: B023 - called at once
    assert len(told) == 1
    assert "was written again" in told[0]
    assert store.close()
    store = ChatStore(path)
    assert [message.content for message in store.read_messages("c")] == ["before", "after 2", "after 3"]
    assert store.opening_notices == ()
    store.close()
    kept = [one.read_bytes() for one in path.parent.glob("chats.replaced-*")]
    assert kept == ([b"somebody's"] if kind == "replaced" else [])


def test_a_search_index_that_breaks_keeps_no_message_from_the_disk(store: ChatStore, qtbot: QtBot) -> None:
    saved = _save(store, MessageRecord("m1", "c", None, Role.USER, "needle one"))
    broken: list[str] = []
    store.write(
        lambda connection: (
            connection.execute("UPDATE message_index_data SET block = x'00ff' WHERE id > 1") and None
        ),
        lambda: broken.append("yes"),
    )
    qtbot.waitUntil(lambda: bool(saved and broken), timeout=3000)
    told: list[str] = []
    store.trouble.connect(told.append)
    saved = _save(store, MessageRecord("m2", "c", None, Role.USER, "needle two"))
    qtbot.waitUntil(lambda: bool(saved), timeout=3000)
    assert told == []
    found: list[dict[str, dict[str, str]]] = []
    store.find(["needle"], found.append)
    qtbot.waitUntil(lambda: bool(found), timeout=3000)
    assert found == [{"needle": {"c": "needle two"}}]


def test_damage_that_a_write_meets_is_mended_at_the_next_start(tmp_path: Path, qtbot: QtBot) -> None:
    """An index that does not fit its table passes the quick check of a start; only writing meets it."""
    path = tmp_path / "chats.db"
    store = ChatStore(path)
    saved = _save(store, *(MessageRecord(f"m{number}", "c", None, Role.USER, "text") for number in range(200)))
    qtbot.waitUntil(lambda: bool(saved), timeout=3000)
    roots = dict(store._reader.execute("SELECT name, rootpage FROM sqlite_master"))
    assert store.close()
    content = bytearray(path.read_bytes())
    broken, other = (4096 * (roots[name] - 1) for name in ("sqlite_autoindex_message_1", "message_by_parent"))
    content[broken : broken + 4096] = content[other : other + 4096]
    path.write_bytes(content)
    store = ChatStore(path)
    assert store.opening_notices == ()
    told: list[str] = []
    store.trouble.connect(told.append)
    _save(store, MessageRecord("new", "c", "m0", Role.USER, "more"))
    qtbot.waitUntil(lambda: bool(told), timeout=3000)
    store.close()
    store = ChatStore(path)
    assert "was damaged: 1 chats with 200 messages" in store.opening_notices[0]
    saved = _save(store, MessageRecord("new", "c", "m0", Role.USER, "more"))
    qtbot.waitUntil(lambda: bool(saved), timeout=3000)
    store.close()


def test_closing_finishes_a_backlog(tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.storage.store.CLOSING_WAIT_S", 0.02)
    store = ChatStore(tmp_path / "chats.db")
    written: list[int] = []

    def work(_connection: sqlite3.Connection) -> None:
        time.sleep(0.02)
        written.append(1)

    for _ in range(10):
        store.write(work)
    assert store.close()
    assert len(written) == 10
