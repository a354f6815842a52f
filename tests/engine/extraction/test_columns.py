from __future__ import annotations

import json

import pytest

from engine.extraction.answers import parse_answer
from engine.extraction.columns import Column, as_cell, columns_of, flat, value_at


def names_of(schema: object) -> list[str]:
    return [column.name for column in columns_of(json.dumps(schema))]


def test_groups_become_columns() -> None:
    place = {"type": "object", "properties": {"city": {"type": "string"}}}
    assert names_of({"properties": {"name": {}, "place": place, "tags": {"type": "array"}}}) == [
        "name", "place.city", "tags",
    ]  # fmt: skip
    assert names_of({"$defs": {"row": place}, "$ref": "#/$defs/row"}) == ["city"]
    assert names_of({"$defs": {"p": place}, "properties": {"p": {"$ref": "#/$defs/p"}, "q": True}}) == [
        "p.city",
        "q",
    ]
    assert names_of({"allOf": [place, {"properties": {"n": {}}}], "properties": {"m": {}}}) == ["city", "n", "m"]


def test_what_is_no_object_has_one_column() -> None:
    for schema in ({"type": "array"}, {"enum": ["a"]}, {}, [], {"$ref": "#"}):
        assert names_of(schema) == ["value"]
    assert columns_of("no") == []
    tree = {"properties": {"left": {"$ref": "#"}, "value": {}}}
    assert len(names_of(tree)) < 20  # a recursive schema ends


def test_values_are_found_where_the_columns_say() -> None:
    value = {"a.b": 1, "a": {"b": 2, "c/d": 3}, "e": {}, "f": [1, "x"], "g": [{"h": 1}]}
    row = flat(value)
    assert {column.name: cell for column, cell in row.items() if column.path != ("a", "b")} == {
        "a.b": 1, "a.c/d": 3, "e": "{}", "f": "1; x", "g": '[{"h": 1}]',
    }  # fmt: skip
    assert row[Column(("a", "b"))] == 2
    assert {column: as_cell(value_at(value, column)) for column in row} == row
    assert value_at(value, Column(("f", "x"))) is None
    assert Column(("a", "c/d")).pointer == "/a/c~1d"
    assert flat([1]) == {Column(()): "1"}
    assert flat({}) == {}


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "1e999", "{", "", "[" * 100_000])
def test_what_no_file_could_hold_is_no_answer(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_answer(text)


def test_half_characters_are_mended() -> None:
    assert parse_answer(r'{"a\ud800": ["\udc00b", "\ud83e\udd99"], "n": 12345678901234567890}') == {
        "a\ufffd": ["\ufffdb", "🦙"],
        "n": 12345678901234567890,
    }
