"""From rows to records, whatever the rows hold: a bad value is replaced, a bad record hides no other."""

from __future__ import annotations

import json
import logging
import math
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_log = logging.getLogger(__name__)
_Record = TypeVar("_Record")

MAX_MOMENT = (
    253_000_000_000.0  # seconds since the epoch, in the year 9987: no time zone leads out of what dates can be
)
MAX_FIGURE = 2**53  # up to which every integer is a float, too


def records(
    connection: sqlite3.Connection, query: str, parameters: tuple[Any, ...], make: Callable[..., _Record]
) -> Iterator[_Record]:
    """The records of a query's rows, up to where the file is damaged; rows nothing can be made of are left out."""
    try:
        for row in connection.execute(query, parameters):
            try:
                yield make(*row)
            except (TypeError, ValueError) as error:
                _log.warning("a record was left out: %s", error)
    except sqlite3.DatabaseError as error:
        _log.warning("reading ended early: %s", error)


def text(value: object) -> str:
    """``value`` as text; "" for none."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def number(value: object, default: float = 0.0) -> float:
    """``value`` as a finite number."""
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return default
    return found if math.isfinite(found) else default


def moment(value: object, default: float = 0.0) -> float:
    """``value`` as seconds since the epoch that a date can be made of, in any time zone."""
    found = number(value, -1.0)
    return found if 0 <= found <= MAX_MOMENT else default


def table(value: object) -> dict[str, Any] | None:
    """A JSON object, with ``clean_table``; None where ``value`` is none."""
    if value is None:  # as in most messages: to ask JSON about nothing takes longer than the rest of the row
        return None
    if value == "{}":  # as in most conversations, of which thousands are read before the first picture
        return {}
    try:
        found = json.loads(text(value))
        return clean_table(found) if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        return None


def clean_table(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` without numbers that no figure can be and that JSON has no words for, at any depth."""
    return {key: _cleaned(value) for key, value in values.items()}


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return clean_table(value)
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    if isinstance(value, int | float) and not -MAX_FIGURE <= value <= MAX_FIGURE:
        return None
    return value
