"""Finding text in all messages: in which conversations it is, and a line of the message around it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

MIN_INDEXED_CHARACTERS = 3  # what the trigram index can find; shorter texts are found by scanning
MAX_FOUND = 500
MANY_FOUND = 2000
_MATCHING = "SELECT rowid FROM message_index WHERE message_index MATCH ?"
_NEWEST_SCANNED = (
    "SELECT (SELECT number FROM message WHERE conversation_id = conversation.id AND content LIKE ? ESCAPE '\\' "
    "ORDER BY number DESC LIMIT 1) AS newest FROM conversation"
)
_BEFORE, _EXCERPT = 14, 120  # characters


def find_conversations(connection: sqlite3.Connection, text: str) -> dict[str, str]:
    """The conversations in one of whose messages ``text`` occurs, in any case, also inside words.

    Each id comes with an excerpt of the newest such message.
    """
    text = text.replace("\x00", "")
    if len(text) >= MIN_INDEXED_CHARACTERS:
        phrase = '"' + text.replace('"', '""') + '"'
        newest, parameter = _newest_indexed(connection, phrase), phrase
    else:
        newest = _NEWEST_SCANNED
        parameter = "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    query = (
        "SELECT conversation_id, content FROM message WHERE number IN "
        f"(SELECT newest FROM ({newest}) ORDER BY newest DESC LIMIT ?)"
    )
    pattern = re.compile(re.escape(text), re.IGNORECASE)
    return {
        str(id_): excerpt_around(str(content), pattern)
        for id_, content in connection.execute(query, (parameter, MAX_FOUND))
    }


def _newest_indexed(connection: sqlite3.Connection, phrase: str) -> str:
    """The query for the newest message of each conversation that has ``phrase``."""
    num_found = connection.execute(f"SELECT count(*) FROM ({_MATCHING})", (phrase,)).fetchone()[0]
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
    found = sorted(
        match.span() for word in words if word for match in re.finditer(re.escape(word), text, re.IGNORECASE)
    )
    places: list[tuple[int, int]] = []
    for start, end in found:
        if places and start <= places[-1][1]:
            places[-1] = (places[-1][0], max(end, places[-1][1]))
        else:
            places.append((start, end))
    return places
