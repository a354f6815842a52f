"""The answers as a file: JSON, JSON Lines, CSV and Excel. What looks like a formula stays text."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.extraction.columns import columns_of, flat
from engine.extraction.journal import Journal, RowResult
from engine.extraction.sources import Source, free_name

FORMATS = (".jsonl", ".json", ".csv", ".xlsx")
CERTAINTY_COLUMN = "certainty"
ERROR_COLUMN = "error"
_FORMULA_STARTS = (*"=+-@\t\r\n", *"\uff1d\uff0b\uff0d\uff20")  # these of full width, too
_MAX_EXCEL_CELL = 32_767
_MAX_EXCEL_INTEGER = 2**53


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


def _table(source: Source, journal: Journal, results: Sequence[RowResult]) -> tuple[list[str], list[list[Any]]]:
    """Header and rows: the input's label, the answer's columns, certainty and error.

    The names of the answer's columns stay as they are; the others give way where one of them is taken.
    """
    is_numbered = all(row.label.isdecimal() for row in source.rows)
    columns = dict.fromkeys(columns_of(journal.task.schema))
    values = [{} if result.error else flat(result.value) for result in results]
    for row in values:
        columns.update(dict.fromkeys(row))
    used = [column for column in columns if column.path or any(column in row for row in values)]
    names = unique_names([column.name for column in used])
    label = free_name("row" if is_numbered else "input", names)
    header = [label, *names, *(free_name(name, names) for name in (CERTAINTY_COLUMN, ERROR_COLUMN))]
    rows = []
    for result, row in zip(results, values, strict=True):
        shown = source.rows[result.row].label
        certainty = round(1.0 - result.doubt, 4) if result.has_certainty and not result.error else None
        cells = [row.get(column) for column in used]
        rows.append([int(shown) if is_numbered else shown, *cells, certainty, result.error or None])
    return header, rows


def unique_names(names: Iterable[str]) -> list[str]:
    """The names, with a number behind those that were there before."""
    made: list[str] = []
    for name in names:
        made.append(free_name(name, made))
    return made


def _separated(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow([_safe(name) for name in header])
    for row in rows:
        writer.writerow([_safe(value) for value in row])
    return stream.getvalue()


def _safe(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, with a quote before it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = value.replace("\0", "")
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    return value


def _json(source: Source, results: Sequence[RowResult], suffix: str) -> str:
    records = [
        {"input": source.rows[result.row].label}
        | (
            {"error": result.error}
            if result.error
            else {
                "value": result.value,
                "certainty": round(1.0 - result.doubt, 4) if result.has_certainty else None,
            }
        )
        for result in results
    ]
    if suffix == ".json":
        return json.dumps(records, indent=2, ensure_ascii=False) + "\n"
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _write_excel(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from openpyxl import Workbook  # only who wants such a file should wait for it
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook(write_only=True)
    sheet = book.create_sheet("Results")

    def cell(value: Any) -> Any:
        if isinstance(value, int) and abs(value) > _MAX_EXCEL_INTEGER:
            value = str(value)  # a spreadsheet's numbers are doubles: it would come back as another
        if not isinstance(value, str):
            return value
        text = ILLEGAL_CHARACTERS_RE.sub("", value)[:_MAX_EXCEL_CELL]
        made = WriteOnlyCell(sheet, text)
        made.data_type = "s"  # a text that begins with "=" is no formula
        return made

    sheet.append([cell(name) for name in header])
    for row in rows:
        sheet.append([cell(value) for value in row])
    book.save(path)
