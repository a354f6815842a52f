from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook

from engine.errors import InputError
from engine.extraction.export import FORMATS, write_results
from engine.extraction.journal import Journal, RowResult, Task
from engine.extraction.sources import Source, source_of_lines

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "place": {"type": "object", "properties": {"city": {"type": "string"}}},
            "tags": {"type": "array"},
            "n": {"type": "number"},
        },
    }
)
VALUE: dict[str, Any] = {
    "name": '=HYPERLINK("x"), ü "q"\n2',
    "place": {"city": "-1"},
    "tags": ["a", "b"],
    "n": -5,
    "extra": [{"x": 1}],
    "ok": True,
}


@pytest.fixture
def filled(tmp_path: Path) -> tuple[Source, Journal]:
    journal = Journal.create(tmp_path / "j.jsonl", Task("n", "", SCHEMA, ""))
    journal.add(RowResult(2, error="Too long."), RowResult(0, VALUE, {"/name": 0.5}))
    return source_of_lines("one\ntwo\nthree"), journal


def test_csv_is_a_table_that_runs_no_formula(filled: tuple[Source, Journal], tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    assert write_results(path, *filled) == 2
    assert path.read_bytes().startswith(b"\xef\xbb\xbf"), "spreadsheets take it for UTF-8 only with a mark"
    with path.open(encoding="utf-8-sig", newline="") as stream:
        first, second = csv.DictReader(stream)
    assert first == {
        "row": "1", "name": '\'=HYPERLINK("x"), ü "q"\n2', "place.city": "'-1", "tags": "a; b", "n": "-5",
        "extra": '[{"x": 1}]', "ok": "true", "certainty": "0.5", "error": "",
    }  # fmt: skip
    assert (second["row"], second["name"], second["error"]) == ("3", "", "Too long.")


def test_excel_keeps_types_and_runs_no_formula(filled: tuple[Source, Journal], tmp_path: Path) -> None:
    filled[1].add(RowResult(1, {"name": "a\x07b" + "x" * 40_000, "n": 2.5}))
    write_results(tmp_path / "out.xlsx", *filled)
    sheet = load_workbook(tmp_path / "out.xlsx").active
    header = [cell.value for cell in sheet[1]]
    assert header == ["row", "name", "place.city", "tags", "n", "extra", "ok", "certainty", "error"]
    assert [cell.value for cell in sheet[2]][:5] == [1, VALUE["name"], "-1", "a; b", -5]
    assert sheet["B2"].data_type == "s"
    assert sheet["B3"].value.startswith("abxx")
    assert sheet["E3"].value == 2.5


def test_json_and_json_lines_are_valid(filled: tuple[Source, Journal], tmp_path: Path) -> None:
    write_results(tmp_path / "out.json", *filled)
    write_results(tmp_path / "out.JSONL", *filled)
    records = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert records == [
        {"input": "1", "value": VALUE, "certainty": 0.5},
        {"input": "3", "error": "Too long."},
    ]
    lines = (tmp_path / "out.JSONL").read_text("utf-8").split("\n")
    assert [json.loads(line) for line in lines if line] == records


def test_what_cannot_be_written_is_said(filled: tuple[Source, Journal], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"out\.doc: choose one of the endings \.jsonl, \.json, \.csv, \.xlsx"):
        write_results(tmp_path / "out.doc", *filled)
    with pytest.raises(InputError, match=r"out\.csv could not be written: No such file"):
        write_results(tmp_path / "gone" / "out.csv", *filled)


@pytest.mark.parametrize(
    "text",
    [
        "=cmd|'/c calc'!A0",
        "+1",
        "-1+1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff20A",
    ],
)
def test_no_text_runs_as_a_formula(text: str, tmp_path: Path) -> None:
    schema = json.dumps({"type": "object", "properties": {"=a": {"type": "string"}}})
    journal = Journal.create(tmp_path / "j.jsonl", Task("n", "", schema, ""))
    journal.add(RowResult(0, {"=a": text}), RowResult(1, error="=1 failed"))
    source = source_of_lines("one\ntwo")
    write_results(tmp_path / "out.csv", source, journal)
    with (tmp_path / "out.csv").open(encoding="utf-8-sig", newline="") as stream:
        header, first, second = csv.reader(stream)
    assert (header[1], first[1], second[-1]) == ("'=a", f"'{text}", "'=1 failed")
    write_results(tmp_path / "out.xlsx", source, journal)
    sheet = load_workbook(tmp_path / "out.xlsx").active
    assert {sheet["B1"].data_type, sheet["B2"].data_type, sheet["D3"].data_type} == {"s"}


def test_every_value_can_be_written_and_read_back(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "j.jsonl", Task("n", "", SCHEMA, ""))
    journal.add(
        RowResult(0, {"name": "a\ud800b\0", "n": 2**53 + 1}, error=""),
        RowResult(1, {"name": "\ud83e\udd99", "n": math.nan, "tags": [math.inf]}),
        RowResult(2, error="\udcff failed"),
    )
    assert Journal.open(journal.path).results == journal.results
    source = source_of_lines("one\ntwo\nthree")
    for suffix in FORMATS:
        assert write_results(tmp_path / f"out{suffix}", source, journal) == 3
    records = json.loads((tmp_path / "out.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert records[0]["value"] == {"name": "a\ufffdb\0", "n": 9007199254740993}
    assert records[1]["value"] == {"name": "🦙", "n": None, "tags": [None]}
    with (tmp_path / "out.csv").open(encoding="utf-8-sig", newline="") as stream:
        first, second, _ = csv.DictReader(stream)
    assert (first["name"], first["n"], second["name"]) == ("a\ufffdb", "9007199254740993", "🦙")
    assert load_workbook(tmp_path / "out.xlsx").active["E2"].value == "9007199254740993"  # a double would round it


def test_columns_of_the_answer_keep_their_names(tmp_path: Path) -> None:
    names = ["certainty", "row", "error", "a.b"]
    properties = {name: {"type": "string"} for name in names} | {"a": {"type": "object", "properties": {"b": {}}}}
    task = Task("n", "", json.dumps({"type": "object", "properties": properties}), "")
    journal = Journal.create(tmp_path / "j.jsonl", task)
    journal.add(RowResult(0, {"certainty": "sure", "row": "r", "error": "e", "a.b": "dot", "a": {"b": "group"}}))
    write_results(tmp_path / "out.csv", source_of_lines("one"), journal)
    with (tmp_path / "out.csv").open(encoding="utf-8-sig", newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert row == {
        "row_2": "1", "certainty": "sure", "row": "r", "error": "e", "a.b": "dot", "a.b_2": "group",
        "certainty_2": "1.0", "error_2": "",
    }  # fmt: skip


def test_a_row_of_nothing_but_a_long_text_has_no_certainty(filled: tuple[Source, Journal], tmp_path: Path) -> None:
    source, journal = filled
    journal.add(RowResult(0, {"name": "It says. " * 20}, {"/name": 0.01}))
    write_results(tmp_path / "out.jsonl", source, journal)
    first = json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first["certainty"] is None
