from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from openpyxl import Workbook

from engine.errors import InputError
from engine.extraction.sources import Row, read_source, source_of_lines


def _write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_table_with_quotes_commas_emoji_and_empty_cells(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "a.csv",
        '\ufeffname,note,note,\r\n"Müller, ""Max""",🙂 yes,,x\r\n\r\nEmpty,,,\r\n"two\nlines",a,b,c,extra\r\n',
    )
    source = read_source(path)
    assert source.columns == ("name", "note", "note_2", "column_4", "column_5")
    assert [row.cells["name"] for row in source.rows] == ['Müller, "Max"', "Empty", "two\nlines"]
    assert source.rows[0].text() == 'name: Müller, "Max"\nnote: 🙂 yes\ncolumn_4: x'
    assert source.rows[0].text(["note"]) == "🙂 yes"
    assert source.rows[2].cells["column_5"] == "extra"
    assert [row.label for row in source.rows] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("name", "data", "cells"),
    [
        ("semicolon.csv", "a;b\n1,5;2\n3,5;4\n", {"a": "1,5", "b": "2"}),
        ("tab.tsv", "a\tb\n1,5\t2\n", {"a": "1,5", "b": "2"}),
        ("utf16.csv", "a,b\n1,é\n".encode("utf-16"), {"a": "1", "b": "é"}),
        ("latin.csv", "a,b\n1,é\n".encode("latin-1"), {"a": "1", "b": "é"}),
        ("nul.csv", b"a,b\n1\x00,2\n", {"a": "1", "b": "2"}),
        ("long.csv", "a,b\n" + "x" * 300_000 + ",2\n", {"a": "x" * 300_000, "b": "2"}),
        ("one.csv", "text\nhello, you\n", {"text": "hello, you"}),
        ("lines.jsonl", '{"a": "1", "b": {"c": [2]}}\n\n', {"a": "1", "b": '{"c": [2]}'}),
        ("texts.jsonl", '"one"\n"two"\n', {"text": "one"}),
        ("list.json", '[{"a": null, "b": 2.5}]', {"a": "", "b": "2.5"}),
    ],
)
def test_tables_of_every_kind(tmp_path: Path, name: str, data: str | bytes, cells: dict[str, str]) -> None:
    assert read_source(_write(tmp_path / name, data)).rows[0].cells == cells


def test_an_excel_table(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.active
    sheet.append(["name", "when", "amount", "sum"])
    sheet.append(["Ada", datetime.datetime(2026, 11, 2), 3.0, "=1+1"])
    sheet.append([None, None, None, None])
    sheet.append(["Bob", datetime.datetime(2026, 11, 2, 8, 30), 2.5, True])
    book.save(tmp_path / "t.xlsx")
    source = read_source(tmp_path / "t.xlsx")
    assert [row.cells for row in source.rows] == [
        {"name": "Ada", "when": "2026-11-02", "amount": "3", "sum": ""},
        {"name": "Bob", "when": "2026-11-02 08:30:00", "amount": "2.5", "sum": "True"},
    ]


def test_a_folder_of_texts_keeps_the_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    _write(tmp_path / "in" / "b.txt", "two")
    _write(tmp_path / "in" / "sub" / "a.md", "one")
    _write(tmp_path / "in" / "broken.pdf", b"%PDF-1.4")
    _write(tmp_path / "in" / "photo.png", b"\x89PNG")
    source = read_source(tmp_path / "in")
    assert [(row.label, row.text(["text"]), bool(row.problem)) for row in source.rows] == [
        ("b.txt", "two", False),
        ("broken.pdf", "", True),
        ("sub/a.md", "one", False),
    ]
    assert source.rows[1].problem == "broken.pdf is damaged, or no PDF that can be read."


def test_one_text_is_one_row_and_lines_are_many(tmp_path: Path) -> None:
    assert read_source(_write(tmp_path / "letter.txt", "a\nb")).rows == (Row("letter.txt", {"text": "a\nb"}),)
    assert [row.text() for row in source_of_lines("one\n\n  two \r\n").rows] == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("empty.csv", "", "empty.csv holds no rows."),
        ("header.csv", "a,b\n", "header.csv holds no rows."),
        ("bad.jsonl", '{"a": 1}\nno\n', "bad.jsonl, line 2 is no JSON."),
        ("bad.json", "{", "bad.json is no JSON."),
        (
            "two.jsonl",
            '{"a": 1}\n{"b": 1, "b": 2}\n',
            "two.jsonl, line 2 has the key “b” twice in one object; remove one of them.",
        ),
        ("two.csv", b"a,b\n1,\x81\n", "two.csv is no Windows-1252 text: byte 7 does not fit. Save it as UTF-8."),
        ("null.json", "[null]", "null.json, item 1 is neither an object nor a text."),
        ("bad.xlsx", "no zip", "bad.xlsx is damaged, locked with a password, or no Excel table."),
        (
            "binary.csv",
            bytes(range(1, 256)) * 9,
            "binary.csv is no text: text, Markdown, code, tables (CSV) and PDF can be read.",
        ),
    ],
)
def test_what_cannot_be_used_says_why(tmp_path: Path, name: str, data: str | bytes, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_source(_write(tmp_path / name, data))
    assert str(caught.value) == sentence


def test_missing_and_empty_places(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.csv could not be read: No such file"):
        read_source(tmp_path / "gone.csv")
    (tmp_path / "void").mkdir()
    with pytest.raises(InputError, match="void holds no files of text"):
        read_source(tmp_path / "void")
    with pytest.raises(InputError, match="Pasted lines holds no rows"):
        source_of_lines(" \n")


def test_json_numbers_keep_their_digits(tmp_path: Path) -> None:
    path = _write(tmp_path / "n.jsonl", json.dumps({"a": 12345678901234567890, "b": True}))
    assert read_source(path).rows[0].cells == {"a": "12345678901234567890", "b": "true"}


def test_a_quotation_mark_that_nothing_closes_loses_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text('a,b\n"one,1\ntwo,2\n', encoding="utf-8")
    with pytest.raises(InputError, match="opened and never closed"):
        read_source(path)
    path.write_text('a,b\n"one" ,1\ntw"o,2\n', encoding="utf-8")  # sloppy, yet whole
    assert [row.cells["b"] for row in read_source(path).rows] == ["1", "2"]


def test_texts_below_a_single_header_are_not_cut_at_commas(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("text\nhello, world\nfoo\n", encoding="utf-8")
    assert [row.cells for row in read_source(path).rows] == [{"text": "hello, world"}, {"text": "foo"}]


def test_a_spreadsheet_may_state_the_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("sep=;\r\na;b\r\n1,5;2\r\n", encoding="utf-8")
    assert read_source(path).rows[0].cells == {"a": "1,5", "b": "2"}


def test_lines_of_json_end_only_at_line_feeds(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": "x\u2028y"}\r\n{"a": "z\x85"}\n', encoding="utf-8", newline="")
    assert [row.cells["a"] for row in read_source(path).rows] == ["x\u2028y", "z\x85"]
