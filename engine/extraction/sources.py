"""Rows to ask about: of a table (CSV, TSV, JSON, JSON Lines, Excel), of a folder's files, of pasted lines."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.extraction.answers import well_formed
from engine.extraction.texts import MAX_FILE_BYTES, decoded, read_text_file
from engine.json_text import RepeatedKeyError, parse_json

MAX_ROWS = 200_000
_MAX_CELL_CHARACTERS = 10_000_000
TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".xlsx", ".xlsm")
TEXT_SUFFIXES = (".txt", ".md", ".markdown", ".rst", ".pdf", ".html", ".htm", ".xml", ".eml", ".log", ".tex")
TEXT_COLUMN = "text"


@dataclass(frozen=True)
class Row:
    """One input.

    Attributes:
        label: what the person knows it by: a file's name, else its number.
        cells: its values by column.
        problem: why it cannot be asked about; "" when it can.
    """

    label: str
    cells: dict[str, str]
    problem: str = ""

    def text(self, columns: Sequence[str] = ()) -> str:
        """What the model is shown: a single column as it is, several as "name: value" lines; none means all."""
        shown = {name: self.cells.get(name, "") for name in columns} if columns else self.cells
        if len(shown) == 1:
            return next(iter(shown.values()))
        return "\n".join(f"{name}: {value}" for name, value in shown.items() if value.strip())


@dataclass(frozen=True)
class Source:
    """Rows with the same columns, and where they are from."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @cached_property
    def fingerprint(self) -> str:
        """Tells these rows from others, so that answers to those are never taken for answers to these."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(json.dumps([row.label, row.cells, row.problem]).encode())
        return digest.hexdigest()[:16]


def read_source(path: Path) -> Source:
    """The rows of a file or folder; raises InputError."""
    try:
        is_folder = path.is_dir()
        size = 0 if is_folder else path.stat().st_size
    except OSError as error:
        raise InputError(f"{path.name} could not be read: {error.strerror or error}.") from error
    if is_folder:
        return _folder(path)
    suffix = path.suffix.lower()
    if size > MAX_FILE_BYTES:
        raise InputError(f"{path.name} is larger than {MAX_FILE_BYTES // 1_000_000} MB; use a part of it.")
    if suffix in {".xlsx", ".xlsm"}:
        return _checked(path.name, _excel(path))
    if suffix in {".csv", ".tsv", ".tab"}:
        return _checked(path.name, _separated(_read(path), path.name, "\t" if suffix != ".csv" else ""))
    if suffix in {".jsonl", ".ndjson", ".json"}:
        return _checked(path.name, _json(_read(path), path.name, is_lines=suffix != ".json"))
    return Source(path.name, (TEXT_COLUMN,), (Row(path.name, {TEXT_COLUMN: read_text_file(path)}),))


def source_of_lines(text: str, name: str = "Pasted lines") -> Source:
    """A row for each line that is not empty; raises InputError when there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _checked(name, [{TEXT_COLUMN: line} for line in lines])


def _read(path: Path) -> str:
    try:
        return decoded(path.read_bytes().replace(b"\x00", b"") if _is_plain(path) else path.read_bytes(), path.name)
    except OSError as error:
        raise InputError(f"{path.name} could not be read: {error.strerror or error}.") from error


def _is_plain(path: Path) -> bool:
    """Whether zero bytes are flaws and no part of UTF-16 or UTF-32."""
    with path.open("rb") as stream:
        return not stream.read(2).startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00"))


def _checked(name: str, cells: Iterable[dict[str, str]]) -> Source:
    """A source of rows that are not empty; raises InputError when there is none, or there are too many."""
    rows: list[Row] = []
    columns: dict[str, None] = {}
    for values in cells:
        if not any(value.strip() for value in values.values()):
            continue
        if len(rows) == MAX_ROWS:
            raise InputError(f"{name} has more than {MAX_ROWS:,} rows; use a part of it.")
        columns.update(dict.fromkeys(values))
        rows.append(Row(str(len(rows) + 1), values))
    if not rows:
        raise InputError(f"{name} holds no rows.")
    return Source(name, tuple(columns), tuple(rows))


def _separated(text: str, name: str, delimiter: str) -> Iterator[dict[str, str]]:
    csv.field_size_limit(_MAX_CELL_CHARACTERS)
    stated = re.match(r"sep=(.)\r?\n", text)  # a spreadsheet's own line before the header
    if stated is not None and not delimiter:
        text, delimiter = text[stated.end() :], stated.group(1)
    if not delimiter:
        try:
            delimiter = csv.Sniffer().sniff(text[:16_384], delimiters=",;\t|").delimiter
        except csv.Error:
            delimiter = ","
    if _has_open_quote(text, delimiter):
        reason = 'a quotation mark (") is opened and never closed, so that rows would be lost'
        raise InputError(f"{name} is damaged: {reason}.")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        yield from _with_header(_lines_of_text(reader, delimiter))
    except csv.Error as error:
        raise InputError(f"{name} is damaged in line {reader.line_num}: {error}.") from error


def _has_open_quote(text: str, delimiter: str) -> bool:
    """Whether the last cell begins with a quotation mark that nothing closes: it swallows all rows after it."""
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        return "unexpected end" in str(error)
    return False


def _lines_of_text(rows: Iterable[list[str]], delimiter: str) -> Iterator[list[str]]:
    """The rows; those below a header of one column, whole: they are texts with commas and not cells."""
    is_single: bool | None = None
    for row in rows:
        if is_single is None and any(cell.strip() for cell in row):
            is_single = len(row) == 1
        yield [delimiter.join(row)] if is_single else row


def _with_header(rows: Iterable[list[str]]) -> Iterator[dict[str, str]]:
    """Rows below a header; columns without a name, or with one that is taken, get one."""
    header: list[str] = []
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if not header:
            header = _names(row)
            continue
        while len(header) < len(row):
            header.append(free_name(f"column_{len(header) + 1}", header))
        yield {name: row[index] if index < len(row) else "" for index, name in enumerate(header)}


def _names(row: Sequence[str]) -> list[str]:
    names: list[str] = []
    for index, cell in enumerate(row):
        names.append(free_name(" ".join(cell.split()) or f"column_{index + 1}", names))
    return names


def free_name(name: str, taken: Sequence[str]) -> str:
    """The name, with the first number behind it that makes it another one than those that are taken."""
    number, free = 2, name
    while free in taken:
        free = f"{name}_{number}"
        number += 1
    return free


def _json(text: str, name: str, *, is_lines: bool) -> Iterator[dict[str, str]]:
    if is_lines:
        for number, line in enumerate(text.split("\n"), start=1):  # other line breaks may stand within a text
            if line.strip():
                yield _cells(_parsed(line, f"{name}, line {number}"), f"{name}, line {number}")
        return
    content = _parsed(text, name)
    for index, item in enumerate(content if isinstance(content, list) else [content]):
        yield _cells(item, f"{name}, item {index + 1}")


def _parsed(text: str, where: str) -> Any:
    try:
        return parse_json(text)
    except RepeatedKeyError as error:
        raise InputError(f"{where} has the key “{error.key}” twice in one object; remove one of them.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is no JSON.") from error


def _cells(item: Any, where: str) -> dict[str, str]:
    if isinstance(item, dict):
        return {str(key): _written(value) for key, value in item.items()}
    if isinstance(item, str | int | float):
        return {TEXT_COLUMN: _written(item)}
    raise InputError(f"{where} is neither an object nor a text.")


def _written(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _excel(path: Path) -> Iterator[dict[str, str]]:
    from openpyxl import load_workbook  # only who has such a file should wait for it

    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # a zip of XML: whatever is wrong with it, the library raises as it comes
        raise InputError(f"{path.name} is damaged, locked with a password, or no Excel table.") from error
    try:
        sheet = next((one for one in book.worksheets), None)
        if sheet is not None:
            yield from _with_header([_shown(cell) for cell in row] for row in sheet.iter_rows(values_only=True))
    finally:
        book.close()


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _folder(path: Path) -> Source:
    """A row for each file of text below a folder; what cannot be read is a row with a problem."""
    try:
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in TEXT_SUFFIXES and file.is_file())
    except OSError as error:
        raise InputError(f"{path.name} could not be read: {error.strerror or error}.") from error
    if not files:
        kinds = ", ".join(suffix.removeprefix(".") for suffix in TEXT_SUFFIXES[:5])
        raise InputError(f"{path.name} holds no files of text ({kinds} and the like).")
    if len(files) > MAX_ROWS:
        raise InputError(f"{path.name} holds more than {MAX_ROWS:,} files; use a part of it.")
    rows = []
    for file in files:
        label = well_formed(file.relative_to(path).as_posix())
        try:
            rows.append(Row(label, {"file": label, TEXT_COLUMN: read_text_file(file)}))
        except InputError as error:
            rows.append(Row(label, {"file": label, TEXT_COLUMN: ""}, str(error)))
    return Source(path.name, ("file", TEXT_COLUMN), tuple(rows))
