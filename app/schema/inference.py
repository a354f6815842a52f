"""Schemas from what a person has: an example of the answer, or a table with a header."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from typing import Any

from app.schema.fields import Field, FieldKind, Form, free_name
from app.translation import tr

MAX_CHOICES = 6
_MIN_ROWS_FOR_CHOICES = 8
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_INTEGER = re.compile(r"[-+]?\d{1,15}")
_NUMBER = re.compile(r"[-+]?(\d+\.\d*|\.?\d+)([eE][-+]?\d+)?")
_BOOLEANS = {"true", "false", "yes", "no"}


class NoExampleError(Exception):
    """A text is nothing that a schema can be made from; the message is one sentence."""


def form_from_example(text: str) -> Form:
    """The form of an example answer in JSON: each value's type, all fields required; raises NoExampleError."""
    try:
        example = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoExampleError(tr("The example is no JSON, so its fields cannot be seen.")) from error
    if isinstance(example, list):
        example = next((item for item in example if isinstance(item, dict)), None)
    if not isinstance(example, dict) or not example:
        raise NoExampleError(tr("The example has to be a JSON object with at least one field."))
    return Form(_fields_of(example))


def form_from_table(text: str) -> Form:
    """The form of a table with a header: a field for each column, its type from the rows; raises NoExampleError."""
    sample = text[:8192]
    try:
        dialect: Any = csv.Sniffer().sniff(sample, delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel
    try:
        rows = [row for row in csv.reader(io.StringIO(text), dialect) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise NoExampleError(tr("The table cannot be read: {error}.", error=error)) from error
    if not rows or not any(cell.strip() for cell in rows[0]):
        raise NoExampleError(tr("The table has no header, so its columns have no names."))
    fields: list[Field] = []
    for index, name in enumerate(rows[0]):
        cells = [row[index].strip() for row in rows[1:] if index < len(row) and row[index].strip()]
        kind, choices = _kind_of_cells(cells)
        is_required = len(cells) == len(rows) - 1
        fields.append(
            Field(free_name(fields, name.strip() or f"column_{index + 1}"), kind, is_required, choices=choices)
        )
    return Form(tuple(fields))


def _fields_of(example: dict[str, Any]) -> tuple[Field, ...]:
    return tuple(_field_of(str(name), value) for name, value in example.items())


def _field_of(name: str, value: Any) -> Field:
    if isinstance(value, list):
        first = next((item for item in value if item is not None), "")
        inner = _field_of(name, first if not isinstance(first, list) else "")
        return Field(name, inner.kind, is_list=True, fields=inner.fields)
    if isinstance(value, dict) and value:
        return Field(name, FieldKind.OBJECT, fields=_fields_of(value))
    if isinstance(value, bool):
        return Field(name, FieldKind.BOOLEAN)
    if isinstance(value, int):
        return Field(name, FieldKind.INTEGER)
    if isinstance(value, float):
        return Field(name, FieldKind.NUMBER)
    if isinstance(value, str) and _DATE.fullmatch(value):
        return Field(name, FieldKind.DATE)
    return Field(name, FieldKind.TEXT, is_required=value is not None)


def _kind_of_cells(cells: Sequence[str]) -> tuple[FieldKind, tuple[str, ...]]:
    if not cells:
        return FieldKind.TEXT, ()
    for pattern, kind in ((_DATE, FieldKind.DATE), (_INTEGER, FieldKind.INTEGER), (_NUMBER, FieldKind.NUMBER)):
        if all(pattern.fullmatch(cell) for cell in cells):
            return kind, ()
    if all(cell.lower() in _BOOLEANS for cell in cells):
        return FieldKind.BOOLEAN, ()
    distinct = tuple(dict.fromkeys(cells))
    is_choice = len(cells) >= _MIN_ROWS_FOR_CHOICES and 1 < len(distinct) <= MAX_CHOICES
    return (FieldKind.CHOICE, distinct) if is_choice else (FieldKind.TEXT, ())
