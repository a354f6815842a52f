"""What became of each row: one file to which every result is added the moment it is known, so that none is lost.

JSON Lines. The first line says what was asked; each further one is about one row, and the last about a row counts.
A line that was being written when the power went is left out when the file is read again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.extraction.answers import parse_answer, value_at_pointer, well_formed

FORMAT_KEY = "fireside_extraction"
FORMAT = 1
PROSE_CHARACTERS = 80
"""A longer text is no name, number or date that is right or wrong, but prose."""


@dataclass(frozen=True)
class RowResult:
    """What became of one row.

    Attributes:
        row: its index in the source.
        value: the answer; None with an error.
        certainty: probability of each value by its JSON pointer.
        error: one sentence why there is no answer; "" with one.
        is_edited: the person changed the value.
    """

    row: int
    value: Any = None
    certainty: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    is_edited: bool = False

    @property
    def judged(self) -> dict[str, float]:
        """``certainty`` without long texts: they could be worded in many ways, so that each is improbable."""
        return {path: share for path, share in self.certainty.items() if not self._is_prose(path)}

    @property
    def doubt(self) -> float:
        """Of its least certain value that is judged, from 0 to 1; what the person wrote is beyond doubt."""
        if self.error:
            return 1.0
        return 0.0 if self.is_edited else 1.0 - min(self.judged.values(), default=1.0)

    @property
    def has_certainty(self) -> bool:
        """Something of it is judged; of long texts alone nothing is."""
        return self.is_edited or not self.certainty or bool(self.judged)

    def _is_prose(self, pointer: str) -> bool:
        value = value_at_pointer(self.value, pointer)
        return isinstance(value, str) and len(value) > PROSE_CHARACTERS


@dataclass(frozen=True)
class Task:
    """What is asked of every row.

    Attributes:
        schema: JSON Schema of an answer, as text.
        source: path of the input, or "" for pasted lines, which ``lines`` has then.
        columns: of the source that the model is shown; none means all.
        check_afterwards: as in ``ResponseFormat``.
        fingerprint: of the source's rows; "" where it was not noted.
    """

    name: str
    instruction: str
    schema: str
    source: str
    lines: str = ""
    columns: tuple[str, ...] = ()
    check_afterwards: bool = False
    fingerprint: str = ""


class Journal:
    """The results of one task.

    Attributes:
        task: what was asked.
        results: by row.
    """

    def __init__(self, path: Path, task: Task, results: Mapping[int, RowResult]) -> None:
        """Use ``create`` and ``open``."""
        self.path = path
        self.task = task
        self.results: dict[int, RowResult] = dict(results)

    @classmethod
    def create(cls, path: Path, task: Task) -> Journal:
        """A new journal; raises InputError when it cannot be written."""
        journal = cls(path, task, {})
        head = {FORMAT_KEY: FORMAT, **_plain(task)}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, [head], "w")
        except OSError as error:
            raise InputError(f"The results cannot be kept in {path.parent}: {error.strerror or error}.") from error
        return journal

    @classmethod
    def open(cls, path: Path) -> Journal:
        """The journal of an earlier session; raises InputError."""
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise InputError(f"{path.name} could not be read: {error.strerror or error}.") from error
        head = _parsed(lines[0])
        if head is None or head.get(FORMAT_KEY) != FORMAT:
            raise InputError(f"{path.name} holds no results that this version can go on with.")
        task = Task(
            str(head.get("name", path.stem)),
            str(head.get("instruction", "")),
            str(head.get("schema", "")),
            str(head.get("source", "")),
            str(head.get("lines", "")),
            tuple(str(column) for column in head.get("columns") or ()),
            head.get("check_afterwards") is True,
            str(head.get("fingerprint", "")),
        )
        journal = cls(path, task, {})
        for line in lines[1:]:
            record = _parsed(line)
            if record is not None and isinstance(record.get("row"), int):
                journal._take(record)
        if lines[-1]:  # the last line was cut off: what is added must not be glued to it
            try:
                _write(path, [], "a", prefix="\n")
            except OSError as error:
                raise InputError(f"{path.name} cannot be written: {error.strerror or error}.") from error
        return journal

    def add(self, *results: RowResult) -> None:
        """Keep results; on the disk when this returns. Raises InputError when the disk refuses them."""
        results = tuple(
            replace(result, value=well_formed(result.value), error=well_formed(result.error)) for result in results
        )
        self.results.update({result.row: result for result in results})
        try:
            _write(self.path, [_record(result) for result in results], "a")
        except OSError as error:
            raise InputError(f"The results could not be saved: {error.strerror or error}.") from error

    def forget(self, row: int) -> None:
        """Take a result back, so that its row is asked about again; raises InputError."""
        if self.results.pop(row, None) is not None:
            try:
                _write(self.path, [{"row": row, "is_forgotten": True}], "a")
            except OSError as error:
                raise InputError(f"The results could not be saved: {error.strerror or error}.") from error

    def _take(self, record: Mapping[str, Any]) -> None:
        row = record["row"]
        if record.get("is_forgotten") is True:
            self.results.pop(row, None)
            return
        certainty = record.get("certainty")
        pairs = certainty.items() if isinstance(certainty, dict) else ()
        self.results[row] = RowResult(
            row,
            record.get("value"),
            {str(path): float(share) for path, share in pairs if isinstance(share, int | float)},
            str(record.get("error", "")),
            record.get("is_edited") is True,
        )


def _plain(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "instruction": task.instruction,
        "schema": task.schema,
        "source": task.source,
        "lines": task.lines,
        "columns": list(task.columns),
        "check_afterwards": task.check_afterwards,
        "fingerprint": task.fingerprint,
    }


def _record(result: RowResult) -> dict[str, Any]:
    record: dict[str, Any] = {"row": result.row}
    if result.error:
        return record | {"error": result.error}
    record["value"] = result.value
    if result.certainty:
        record["certainty"] = {path: round(share, 5) for path, share in result.certainty.items()}
    return record | ({"is_edited": True} if result.is_edited else {})


def _write(path: Path, records: list[dict[str, Any]], mode: str, prefix: str = "") -> None:
    text = prefix + "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    with path.open(mode, encoding="utf-8", errors="replace", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = parse_answer(line.decode("utf-8"))
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
