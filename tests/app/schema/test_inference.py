from __future__ import annotations

import pytest

from app.schema.fields import Field, FieldKind
from app.schema.inference import NoExampleError, form_from_example, form_from_table


def test_the_schema_of_an_example() -> None:
    form = form_from_example(
        '{"name": "Ada", "age": 36, "height": 1.7, "born": "1815-12-10", "alive": false, "note": null,'
        ' "tags": ["x"], "empty": [], "jobs": [{"title": "a", "years": 3}], "place": {"city": "London"}}'
    )
    assert form.fields == (
        Field("name"),
        Field("age", FieldKind.INTEGER),
        Field("height", FieldKind.NUMBER),
        Field("born", FieldKind.DATE),
        Field("alive", FieldKind.BOOLEAN),
        Field("note", is_required=False),
        Field("tags", is_list=True),
        Field("empty", is_list=True),
        Field("jobs", FieldKind.OBJECT, is_list=True, fields=(Field("title"), Field("years", FieldKind.INTEGER))),
        Field("place", FieldKind.OBJECT, fields=(Field("city"),)),
    )
    assert form_from_example('[1, {"a": 1}]').fields == (Field("a", FieldKind.INTEGER),)


def test_values_of_several_kinds_have_room_in_the_schema() -> None:
    form = form_from_example(
        '{"mixed": [1, "a"], "numbers": [1, 2.5], "flags": [true, 1], "days": ["2026-01-01", "soon"],'
        ' "gaps": [null, 3],'
        ' "lines": [{"a": 1}, {"a": 2.5, "b": "x"}, {}], "nested": [[1], [2]], "odd": [{"a": 1}, 2]}'
    )
    a, b = Field("a", FieldKind.NUMBER, is_required=False), Field("b", is_required=False)
    assert form.fields == (
        Field("mixed", is_list=True),
        Field("numbers", FieldKind.NUMBER, is_list=True),
        Field("flags", is_list=True),
        Field("days", is_list=True),
        Field("gaps", FieldKind.INTEGER, is_list=True),
        Field("lines", FieldKind.OBJECT, is_list=True, fields=(a, b)),
        Field("nested", is_list=True),
        Field("odd", is_list=True),
    )


def test_several_examples_say_what_is_optional() -> None:
    form = form_from_example('[{"id": 1, "note": null}, {"id": 2.5, "note": "x", "tags": []}]')
    assert form.fields == (
        Field("id", FieldKind.NUMBER),
        Field("note", is_required=False),
        Field("tags", is_required=False, is_list=True),
    )


@pytest.mark.parametrize("text", ["", "no", "3", "[]", "{}", "[" * 50_000])
def test_what_is_no_example_says_so(text: str) -> None:
    with pytest.raises(NoExampleError, match="example"):
        form_from_example(text)


def test_the_schema_of_a_table() -> None:
    rows = "\n".join(
        f'{index};{index}.5;2026-11-{index + 1:02};yes;"M, S";{"A" if index % 2 else "B"};' for index in range(9)
    )
    form = form_from_table(f"id;price;day;paid;size;class;\n{rows}\n\n")
    assert form.fields == (
        Field("id", FieldKind.INTEGER),
        Field("price", FieldKind.NUMBER),
        Field("day", FieldKind.DATE),
        Field("paid", FieldKind.BOOLEAN),
        Field("size"),
        Field("class", FieldKind.CHOICE, choices=("B", "A")),
        Field("column_7", is_required=False),
    )


def test_odd_tables() -> None:
    assert form_from_table("only a header").fields == (Field("only a header"),)
    assert [field.name for field in form_from_table("a,a,\n1,2,3").fields] == ["a", "a_2", "column_3"]
    odd = form_from_table('"two\nlines",=cmd,"a,b","a.b/c~",🦙\n1,2,3,4,5')
    assert [field.name for field in odd.fields] == ["two lines", "=cmd", "a,b", "a.b/c~", "🦙"]
    for text in ("", "\n\n"):
        with pytest.raises(NoExampleError, match="header"):
            form_from_table(text)
