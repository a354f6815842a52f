from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.storage.conversations import save_conversation, save_message
from app.storage.database import open_database
from app.storage.records import ConversationRecord, MessageRecord
from app.storage.search import excerpt_around, find_conversations, marked_places
from engine.protocol import Role


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_database(tmp_path / "chats.db").connect()
    yield opened
    opened.close()


def _write(connection: sqlite3.Connection, chat_id: str, *texts: str) -> None:
    save_conversation(connection, ConversationRecord(chat_id, chat_id, 1.0, 1.0))
    for number, text in enumerate(texts):
        save_message(connection, MessageRecord(f"{chat_id}{number}", chat_id, None, Role.USER, text))


@pytest.mark.parametrize("many", [0, 2000])
def test_an_excerpt_is_of_the_newest_message(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr("app.storage.search.MANY_FOUND", many)
    _write(connection, "tea", "The kettle is old.", "Buy a new\n\nKETTLE, then.", "Thanks.")
    _write(connection, "rain", "It rains; 茶 helps.")
    assert find_conversations(connection, "kettle") == {"tea": "Buy a new KETTLE, then."}
    assert find_conversations(connection, "茶") == {"rain": "It rains; 茶 helps."}
    assert find_conversations(connection, "st") == find_conversations(connection, "%%%") == {}


def test_an_excerpt_is_one_line_around_the_word() -> None:
    text = "A beginning that is long.\nThen comes the\t needle " + "and more " * 40
    excerpt = excerpt_around(text, re.compile("needle"))
    assert excerpt.startswith("…")
    assert "the needle and more" in excerpt
    assert len(excerpt) < 150
    assert excerpt_around("short", re.compile("nothing")) == "short"


def test_marks() -> None:
    assert marked_places("Tea, tea and TEApot", ["tea", "pot"]) == [(0, 3), (5, 8), (13, 19)]
    assert marked_places("abcd", ["abc", "bcd", ""]) == [(0, 4)]
    assert marked_places("100% (sure)", ["%", "(sure)"]) == [(3, 4), (5, 11)]


@pytest.mark.parametrize(
    "wanted", ["ä", "Ä", "äp", "ÄP", "äpf", "ÄPFEL", "ж", "ЖЁ", "%", "_", '"', "NEAR(", "日本", "🙂", "a\ud800"]
)
def test_any_text_is_found_in_any_case(connection: sqlite3.Connection, wanted: str) -> None:
    _write(connection, "found", 'Äpfel жёлтый 100%_ "so" NEAR( 日本語 🙂 a\ufffd')
    _write(connection, "other", "pears")
    assert list(find_conversations(connection, wanted)) == ["found"]


def test_a_broken_index_is_done_without(connection: sqlite3.Connection) -> None:
    _write(connection, "found", "Äpfel und Birnen")
    connection.execute("DROP TABLE message_index")
    assert list(find_conversations(connection, "äpfel")) == ["found"]
    assert find_conversations(connection, "Pflaumen") == {}


@pytest.mark.parametrize("wanted", ["straße", "Strasse", "STRASSE", "ß", "ss", "İst", "ist", "İS"])
def test_all_spellings_find_all_spellings(connection: sqlite3.Connection, wanted: str) -> None:
    _write(connection, "one", "Die Straße in Istanbul")
    _write(connection, "other", "Die STRASSE in İstanbul")
    _write(connection, "none", "Der Weg nach Rom")
    found = find_conversations(connection, wanted)
    assert set(found) == {"one", "other"}
    assert all(marked_places(excerpt, [wanted]) for excerpt in found.values())
