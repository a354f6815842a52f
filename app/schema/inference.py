"""Schemas from what a person has: an example of the answer, or a table with a header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.schema.fields import Field, FieldKind, Form, free_name
from app.translation import tr
from engine.json_text import RepeatedKeyError, parse_json

MAX_CHOICES = 6
_MIN_ROWS_FOR_CHOICES = 8
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_INTEGER = re.compile(r"[-+]?\d{1,15}")
_NUMBER = re.compile(r"[-+]?(\d+\.\d*|\.?\d+)([eE][-+]?\d+)?")
_BOOLEANS = {"true", "false", "yes", "no"}


class NoExampleError(Exception):
    """A text is nothing that a schema can be made from; the message is one sentence."""


def form_from_example(text: str) -> Form:
    """The form of an example answer in JSON, or of several in a list; raises NoExampleError.

    A field has the type of all its values, and is required where each example has it.
    """
    try:
        example = parse_json(text)
    except RepeatedKeyError as error:
        raise NoExampleError(
            tr("The example has the key “{key}” twice in one object; remove one of them.", key=error.key)
        ) from error
    except (ValueError, RecursionError) as error:
        raise NoExampleError(tr("The example is no JSON, so its fields cannot be seen.")) from error
    examples = [item for item in (example if isinstance(example, list) else [example]) if isinstance(item, dict)]
    if not any(examples):
        raise NoExampleError(tr("The example has to be a JSON object with at least one field."))
    try:
        return Form(_fields_of(examples))
    except RecursionError as error:
        raise NoExampleError(tr("The example is nested too deeply for a form.")) from error


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
            Field(
                free_name(fields, " ".join(name.split()) or f"column_{index + 1}"),
                kind,
                is_required,
                choices=choices,
            )
        )
    return Form(tuple(fields))


def _fields_of(examples: Sequence[dict[str, Any]]) -> tuple[Field, ...]:
    names = dict.fromkeys(name for example in examples for name in example)
    return tuple(
        _field_of(name, [example[name] for example in examples if name in example], examples) for name in names
    )


def _field_of(name: str, values: Sequence[Any], examples: Sequence[Any]) -> Field:
    """The field of these values, which some of ``examples`` have."""
    known = [value for value in values if value is not None]
    is_required = len(known) == len(examples)
    if known and all(isinstance(value, list) for value in known):
        items = [item for value in known for item in value]
        inner = _field_of(name, [item for item in items if not isinstance(item, list)], items)
        return replace(inner, is_list=True, is_required=is_required)
    if any(known) and all(isinstance(value, dict) for value in known):
        return Field(name, FieldKind.OBJECT, is_required, fields=_fields_of(known))
    return Field(name, _kind_of_values(known), is_required)


def _kind_of_values(values: Sequence[Any]) -> FieldKind:
    """The kind that all of them have; text for those of several kinds."""
    types = {type(value) for value in values}
    if not types:
        return FieldKind.TEXT
    if types == {bool}:
        return FieldKind.BOOLEAN
    if types <= {int, float}:
        return FieldKind.INTEGER if types == {int} else FieldKind.NUMBER
    is_date = types == {str} and all(_DATE.fullmatch(value) for value in values)
    return FieldKind.DATE if is_date else FieldKind.TEXT


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
