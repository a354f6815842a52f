"""Finding text in all messages: in which conversations it is, and a line of the message around it."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Iterable, Sequence

from app.storage.records import clean_text
from app.storage.spelling import pattern_of, spellings

_log = logging.getLogger(__name__)

MIN_INDEXED_CHARACTERS = 3  # what the trigram index can find; shorter texts are found by scanning
MAX_FOUND = 500
MANY_FOUND = 2000
_MATCHING = "SELECT rowid FROM message_index WHERE message_index MATCH ?"
_MAX_CASES = 8
_BEFORE, _EXCERPT = 14, 120  # characters


def find_conversations(connection: sqlite3.Connection, text: str) -> dict[str, str]:
    """The conversations in one of whose messages ``text`` occurs, however it is spelled, also inside words.

    Each id comes with an excerpt of the newest such message, or the name of what is attached to one. Without a
    sound index all texts are looked through.
    """
    text = clean_text(text.replace("\x00", ""))
    pattern, ways = pattern_of(text), spellings(text)
    cases = dict.fromkeys(case for way in ways for case in _cases(way))
    likes = [f"%{_escaped(case)}%" for case in cases]
    attached = _attached(connection, likes)
    if min(map(len, ways)) >= MIN_INDEXED_CHARACTERS:
        phrase = " OR ".join('"' + way.replace('"', '""') + '"' for way in ways)
        try:
            return attached | _excerpts(connection, _newest_indexed(connection, phrase), (phrase,), pattern)
        except sqlite3.DatabaseError as error:
            _log.warning("the search index cannot be used: %s", error)
    return attached | _excerpts(connection, _newest_scanned(likes), likes, pattern)


def _attached(connection: sqlite3.Connection, likes: Sequence[str]) -> dict[str, str]:
    """The conversations with a file at one of their messages whose name is like one of ``likes``, and the name."""
    is_like = _any_like("name", likes)
    query = f"SELECT conversation_id, name FROM attachment WHERE message_id IS NOT NULL AND ({is_like}) LIMIT ?"
    return {str(id_): str(name) for id_, name in connection.execute(query, (*likes, MAX_FOUND))}


def _any_like(column: str, likes: Sequence[str]) -> str:
    return " OR ".join([f"{column} LIKE ? ESCAPE '\\'"] * len(likes))


def _excerpts(
    connection: sqlite3.Connection, newest: str, parameters: Sequence[str], pattern: re.Pattern[str]
) -> dict[str, str]:
    query = (
        "SELECT conversation_id, content FROM message WHERE number IN "
        f"(SELECT newest FROM ({newest}) ORDER BY newest DESC LIMIT ?)"
    )
    return {
        str(id_): excerpt_around(str(content), pattern)
        for id_, content in connection.execute(query, (*parameters, MAX_FOUND))
    }


def _newest_scanned(likes: Sequence[str]) -> str:
    """The query for the newest message of each conversation that is like one of ``likes``."""
    return (
        "SELECT (SELECT number FROM message WHERE conversation_id = conversation.id "
        f"AND ({_any_like('content', likes)}) "
        "ORDER BY number DESC LIMIT 1) AS newest FROM conversation"
    )


def _cases(text: str) -> list[str]:
    """``text`` in small and large letters where SQLite does not know that they are the same: all but ASCII."""
    found = [""]
    for character in text:
        cases = [character]
        if not character.isascii() and len(found) <= _MAX_CASES // 2:
            cases = [
                case for case in dict.fromkeys((character, character.lower(), character.upper())) if len(case) == 1
            ]
        found = [head + case for head in found for case in cases]
    return found


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _newest_indexed(connection: sqlite3.Connection, phrase: str) -> str:
    """The query for the newest message of each conversation that has ``phrase``."""
    counted = f"SELECT count(*) FROM ({_MATCHING} LIMIT {MANY_FOUND + 1})"  # to find all takes as long as the rest
    num_found = connection.execute(counted, (phrase,)).fetchone()[0]
    # Looking up thousands of messages one by one takes longer than going through the index of all.
    table = "message INDEXED BY message_by_conversation" if num_found > MANY_FOUND else "message"
    return f"SELECT max(number) AS newest FROM {table} WHERE number IN ({_MATCHING}) GROUP BY conversation_id"


def excerpt_around(content: str, pattern: re.Pattern[str]) -> str:
    """One line of ``content`` around the first place that ``pattern`` matches; its beginning where none does."""
    match = pattern.search(content)
    place = match.start() if match is not None else 0
    start = max(0, place - _BEFORE)
    if start and (space := content.find(" ", start, place)) >= 0:
        start = space + 1
    piece = " ".join(content[start : place + _EXCERPT].split())
    return f"…{piece}" if start else piece


def marked_places(text: str, words: Iterable[str]) -> list[tuple[int, int]]:
    """Where words stand in ``text``, in any case: half-open ranges in order, none inside another."""
    found = sorted(match.span() for word in words if word for match in pattern_of(word).finditer(text))
    places: list[tuple[int, int]] = []
    for start, end in found:
        if places and start <= places[-1][1]:
            places[-1] = (places[-1][0], max(end, places[-1][1]))
        else:
            places.append((start, end))
    return places
