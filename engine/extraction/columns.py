"""Answers as rows of a table: which columns a schema has, and what stands in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.grammar.schema_tree import References, escape

_MAX_DEPTH = 8
_WHOLE = "value"  # the name of the column that holds answers that are no objects


@dataclass(frozen=True)
class Column:
    """A place in answers.

    Attributes:
        path: the names of the properties that lead there; none is the whole answer.
    """

    path: tuple[str, ...]

    @property
    def name(self) -> str:
        """ "group.property"."""
        return ".".join(self.path) or _WHOLE

    @property
    def pointer(self) -> str:
        """JSON pointer of the value."""
        return "".join(f"/{escape(step)}" for step in self.path)


def columns_of(schema: str) -> list[Column]:
    """The columns of a schema's answers: its properties, those of groups one by one; else the whole answer."""
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        return []
    return list(dict.fromkeys(_columns(parsed, (), References(parsed))))


def _columns(schema: Any, path: tuple[str, ...], references: References) -> Iterator[Column]:
    properties = _properties(schema, references, 0) if len(path) < _MAX_DEPTH else {}
    for name, inner in properties.items():
        yield from _columns(inner, (*path, name), references)
    if not properties:
        yield Column(path)


def _properties(schema: Any, references: References, depth: int) -> dict[str, Any]:
    """The properties of an object, also those that a reference or a part brings."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    found: dict[str, Any] = {}
    reference, parts = schema.get("$ref"), schema.get("allOf")
    if isinstance(reference, str):
        found |= _properties(references.find(reference), references, depth + 1)
    for part in parts if isinstance(parts, list) else ():
        found |= _properties(part, references, depth + 1)
    properties = schema.get("properties")
    return found | (properties if isinstance(properties, dict) else {})


def flat(value: Any) -> dict[Column, Any]:
    """An answer as one row, a cell for each value that is no group."""
    return dict(_flat(value, ()))


def _flat(value: Any, path: tuple[str, ...]) -> Iterator[tuple[Column, Any]]:
    if isinstance(value, dict) and (value or not path):
        for name, inner in value.items():
            yield from _flat(inner, (*path, str(name)))
    else:
        yield Column(path), as_cell(value)


def value_at(value: Any, column: Column) -> Any:
    """What an answer has at a column; None where it has nothing."""
    for step in column.path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def as_cell(value: Any) -> Any:
    """A value as a cell holds it: lists of words joined, other lists and groups as JSON."""
    if isinstance(value, list) and all(isinstance(item, str | int | float | bool) for item in value):
        return "; ".join(item if isinstance(item, str) else json.dumps(item) for item in value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
