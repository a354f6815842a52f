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
    for text in ("", "\n\n"):
        with pytest.raises(NoExampleError, match="header"):
            form_from_table(text)
