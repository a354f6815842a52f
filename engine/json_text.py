"""JSON that a person gives: in one of its encodings, and with no key twice, of which one would hold silently."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from engine.errors import InputError

_LABELS = {"utf-8": "UTF-8", "utf-16": "UTF-16", "utf-32": "UTF-32", "cp1252": "Windows-1252"}


class RepeatedKeyError(ValueError):
    """An object has the same key twice.

    Attributes:
        key: the one that it has twice.
    """

    def __init__(self, key: str) -> None:
        super().__init__(f"an object has the key “{key}” twice")
        self.key = key


def parse_json(text: str, *, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """The value of a JSON text. Raises RepeatedKeyError, or what ``json.loads`` raises."""
    return json.loads(text, parse_constant=parse_constant, object_pairs_hook=_unambiguous)


def decode_json(data: bytes, name: str) -> str:
    """The text of a JSON file called ``name``, in any encoding of Unicode. Raises InputError for other bytes."""
    return decode_strictly(data, json.detect_encoding(data), name)


def decode_strictly(data: bytes, encoding: str, name: str) -> str:
    """The text of a file, without its byte order mark. Raises InputError for bytes that do not fit."""
    try:
        return data.decode(encoding.removesuffix("-sig")).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        label = _LABELS[encoding.partition("-sig")[0].removesuffix("-le").removesuffix("-be")]
        raise InputError(
            f"{name} is no {label} text: byte {error.start + 1:,} does not fit. Save it as UTF-8."
        ) from error


def parse_json_file(data: bytes, name: str) -> Any:
    """The value in a JSON file called ``name``.

    Raises InputError for another encoding or a repeated key; ValueError or RecursionError where it is no JSON.
    """
    try:
        return parse_json(decode_json(data, name))
    except RepeatedKeyError as error:
        raise InputError(f"{name} has the key “{error.key}” twice in one object; remove one of them.") from error


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKeyError(next(key for key in keys if keys.count(key) > 1))
    return found
