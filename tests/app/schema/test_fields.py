from __future__ import annotations

import json
from typing import Any

import pytest

from app.schema.fields import Field, FieldKind, Form, NotAFormError, form_of, free_name, schema_of, unnamed
from app.schema.form_view import join_choices, split_choices, summary_of
from app.schema.library import GALLERY
from engine.grammar.schema_check import check_schema

FORM = Form(
    (
        Field("title", description="A line"),
        Field("count", FieldKind.INTEGER, is_required=False),
        Field("price", FieldKind.NUMBER),
        Field("paid", FieldKind.BOOLEAN),
        Field("day", FieldKind.DATE),
        Field("size", FieldKind.CHOICE, choices=("S", "M", "L")),
        Field("tags", is_list=True, description="Words"),
        Field(
            "lines",
            FieldKind.OBJECT,
            is_list=True,
            fields=(Field("name"), Field("inner", FieldKind.OBJECT, fields=(Field("x", FieldKind.NUMBER),))),
        ),
    ),
    title="Order",
    description="What was ordered",
)


def test_a_form_and_its_schema_are_two_views_of_one_thing() -> None:
    schema = schema_of(FORM)
    assert form_of(schema) == FORM
    assert form_of(json.loads(json.dumps(schema))) == FORM
    assert schema["required"] == ["title", "price", "paid", "day", "size", "tags", "lines"]
    assert schema["additionalProperties"] is False
    assert check_schema(json.dumps(schema)).problems == ()


@pytest.mark.parametrize("path", sorted(GALLERY.glob("*.json")), ids=lambda path: path.stem)
def test_every_schema_of_the_gallery_has_a_form_and_can_be_honoured(path: Any) -> None:
    text = path.read_text("utf-8")
    schema = json.loads(text)
    assert schema_of(form_of(schema)) == schema
    assert check_schema(text).problems == ()


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (3, "The schema is no object, so it has no form."),
        ({"type": "string"}, "# is no group of fields, which is all that the form shows; edit it as JSON."),
        ({"type": "object", "minProperties": 1}, "#/minProperties is not in the form; edit it as JSON."),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "minLength": 1}}},
            "#/properties/a/minLength is not in the form; edit it as JSON.",
        ),
        (
            {"type": "object", "properties": {"a": {"enum": ["one\ntwo"]}}},
            "#/properties/a/enum has values that no line shows; edit it as JSON.",
        ),
        (
            {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(151)}},
            "There are more than 150 fields; edit the schema as text.",
        ),
        (
            {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
            "#/properties/a has a type that the form does not show; edit it as JSON.",
        ),
        (
            {"type": "object", "properties": {"a": {"enum": [1, 2]}}},
            "#/properties/a/enum has values that are no text; edit it as JSON.",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "array", "items": {}}}}},
            "#/properties/a/items/items has a type that the form does not show; edit it as JSON.",
        ),
        ({"type": "object", "properties": {"a": True}}, "#/properties/a is no object; edit it as JSON."),
        (
            {"type": "object", "additionalProperties": True},
            "#/additionalProperties is not in the form; edit it as JSON.",
        ),
    ],
)
def test_what_no_form_shows_is_named(schema: Any, sentence: str) -> None:
    with pytest.raises(NotAFormError) as caught:
        form_of(schema)
    assert str(caught.value) == sentence


def test_a_deep_nest_is_edited_as_text() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(9):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(NotAFormError, match="deeper than the form shows"):
        form_of(schema)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ((Field(""),), "A field has no name yet."),
        ((Field("a"), Field("a")), "Two fields are called “a”."),
        ((Field("a", FieldKind.CHOICE),), "“a” has no values to choose from yet."),
        ((Field("a", FieldKind.OBJECT),), "“a” has no fields yet."),
        ((Field("a", FieldKind.OBJECT, fields=(Field("b"), Field("b"))),), "Two fields are called “b”."),
        ((Field("a"), Field("b")), ""),
    ],
)
def test_what_is_missing_is_said(fields: tuple[Field, ...], sentence: str) -> None:
    assert unnamed(fields) == sentence


def test_a_new_field_has_a_name_of_its_own() -> None:
    assert free_name(()) == "field"
    assert free_name((Field("field"), Field("field_2"))) == "field_3"


def test_bounds_and_patterns_are_kept() -> None:
    properties = {
        "total": {"type": "number", "minimum": 0, "exclusiveMaximum": 1e6},
        "code": {"type": "string", "pattern": "^[A-Z]+$", "maxLength": 8},
        "tags": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "uniqueItems": False},
    }
    schema = {"type": "object", "properties": properties, "required": [], "additionalProperties": False}
    form = form_of(schema)
    assert schema_of(form) == schema
    assert [summary_of(field) for field in form.fields] == [
        "number ≥ 0, < 1000000.0, optional",
        "text ^[A-Z]+$, ≤ 8, optional",
        "list: text ≥ 1 (≥ 1), optional",
    ]


@pytest.mark.parametrize(
    "choices", [("a", "b"), ("Smith, John", "x"), ('say "hi"', 'a,"b"'), ("don't",), ("=x",), ("a b", "c")]
)
def test_values_to_choose_from_make_the_round_trip(choices: tuple[str, ...]) -> None:
    assert split_choices(join_choices(choices)) == choices
