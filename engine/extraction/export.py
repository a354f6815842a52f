"""The answers as a file: JSON, JSON Lines, CSV and Excel. What looks like a formula stays text."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.extraction.journal import Journal, RowResult
from engine.extraction.sources import Source

FORMATS = (".jsonl", ".json", ".csv", ".xlsx")
CERTAINTY_COLUMN = "certainty"
ERROR_COLUMN = "error"
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_MAX_EXCEL_CELL = 32_767


def columns_of(schema: str) -> list[str]:
    """The columns of a schema's answers: its properties, those of groups as "group.property"."""
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        return []
    return list(_columns(parsed, "", 0))


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """An answer as one row: groups as "group.property", lists of words joined, other lists as JSON."""
    if not isinstance(value, dict):
        return {prefix or "value": _cell(value)}
    row: dict[str, Any] = {}
    for key, inner in value.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        row |= flat(inner, name) if isinstance(inner, dict) else {name: _cell(inner)}
    return row


def write_results(path: Path, source: Source, journal: Journal) -> int:
    """Write what is known, in the form that the path's ending says; gives the number of rows. Raises InputError."""
    results = [journal.results[row] for row in sorted(journal.results) if row < len(source.rows)]
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path.name}: choose one of the endings {', '.join(FORMATS)}.")
    scratch = path.with_name(f".{path.name}.part")
    try:
        if suffix == ".xlsx":
            _write_excel(scratch, *_table(source, journal, results))
        else:
            text = (
                _separated(*_table(source, journal, results))
                if suffix == ".csv"
                else _json(source, results, suffix)
            )
            scratch.write_text(text, encoding="utf-8-sig" if suffix == ".csv" else "utf-8", newline="")
        os.replace(scratch, path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise InputError(f"{path.name} could not be written: {error.strerror or error}.") from error
    return len(results)


def _columns(schema: Any, prefix: str, depth: int) -> Iterable[str]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or depth > 8:
        return
    for key, inner in properties.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        nested = list(_columns(inner, name, depth + 1))
        yield from nested or [name]


def _cell(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, str | int | float | bool) for item in value):
        return "; ".join(item if isinstance(item, str) else json.dumps(item) for item in value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _table(
    source: Source, journal: Journal, results: Sequence[RowResult]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Header and rows: the input's label, the answer's columns, certainty and error."""
    label = "row" if all(row.label.isdecimal() for row in source.rows) else "input"
    rows: list[dict[str, Any]] = []
    columns = dict.fromkeys(columns_of(journal.task.schema))
    for result in results:
        values = {} if result.error else flat(result.value)
        columns.update(dict.fromkeys(values))
        shown = source.rows[result.row].label
        rows.append(
            {
                label: int(shown) if label == "row" else shown,
                **values,
                CERTAINTY_COLUMN: None if result.error else round(1.0 - result.doubt, 4),
                ERROR_COLUMN: result.error or None,
            }
        )
    inner = [column for column in columns if column not in {label, CERTAINTY_COLUMN, ERROR_COLUMN}]
    return [label, *inner, CERTAINTY_COLUMN, ERROR_COLUMN], rows


def _separated(header: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow([_safe(name) for name in header])
    for row in rows:
        writer.writerow([_safe(row.get(name)) for name in header])
    return stream.getvalue()


def _safe(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, with a quote before it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def _json(source: Source, results: Sequence[RowResult], suffix: str) -> str:
    records = [
        {"input": source.rows[result.row].label}
        | (
            {"error": result.error}
            if result.error
            else {"value": result.value, "certainty": round(1.0 - result.doubt, 4)}
        )
        for result in results
    ]
    if suffix == ".json":
        return json.dumps(records, indent=2, ensure_ascii=False) + "\n"
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _write_excel(path: Path, header: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    from openpyxl import Workbook  # only who wants such a file should wait for it
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook(write_only=True)
    sheet = book.create_sheet("Results")

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        text = ILLEGAL_CHARACTERS_RE.sub("", value)[:_MAX_EXCEL_CELL]
        made = WriteOnlyCell(sheet, text)
        made.data_type = "s"  # a text that begins with "=" is no formula
        return made

    sheet.append([cell(name) for name in header])
    for row in rows:
        sheet.append([cell(row.get(name)) for name in header])
    book.save(path)
