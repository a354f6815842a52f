"""A schema as a form sees it: fields with a type, in objects. Pure data; what no form can show is kept as text.

A schema can be shown as a form when it is an object whose properties need nothing but a type, a description, an
enumeration, a format and lists of those. Bounds and patterns are kept and shown; they and everything else, such as
``anyOf``, are edited as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from app.translation import tr

DEPTH_LIMIT = 6
FIELD_LIMIT = 150  # rows that a form is made of without a pause


class FieldKind(str, Enum):
    """What a field holds."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    DATE = "date"
    CHOICE = "choice"
    OBJECT = "object"


KIND_WORDS = {
    FieldKind.TEXT: tr("Text"),
    FieldKind.NUMBER: tr("Number"),
    FieldKind.INTEGER: tr("Whole number"),
    FieldKind.BOOLEAN: tr("Yes or no"),
    FieldKind.DATE: tr("Date"),
    FieldKind.CHOICE: tr("One of"),
    FieldKind.OBJECT: tr("Group of fields"),
}
_TYPES: dict[FieldKind, dict[str, Any]] = {
    FieldKind.TEXT: {"type": "string"},
    FieldKind.NUMBER: {"type": "number"},
    FieldKind.INTEGER: {"type": "integer"},
    FieldKind.BOOLEAN: {"type": "boolean"},
    FieldKind.DATE: {"type": "string", "format": "date"},
}


_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
_RULES = {
    FieldKind.TEXT: {"minLength", "maxLength", "pattern"},
    FieldKind.NUMBER: _BOUNDS,
    FieldKind.INTEGER: _BOUNDS,
}
_LIST_RULES = {"minItems", "maxItems", "uniqueItems"}


class NotAFormError(Exception):
    """A schema has parts that no form shows; the message says which, in one sentence."""


@dataclass(frozen=True)
class Field:
    """One field of an object.

    Attributes:
        is_list: any number of them.
        choices: the values of a CHOICE.
        fields: the fields of an OBJECT.
        rules: further keywords about a value, as they are in the schema.
        list_rules: likewise about the list.
    """

    name: str
    kind: FieldKind = FieldKind.TEXT
    is_required: bool = True
    is_list: bool = False
    description: str = ""
    choices: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    rules: tuple[tuple[str, Any], ...] = ()
    list_rules: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Form:
    """A schema as a form: its fields, and what describes the whole."""

    fields: tuple[Field, ...] = ()
    title: str = ""
    description: str = ""


def form_of(schema: Any) -> Form:
    """The form that shows ``schema``; raises NotAFormError."""
    if not isinstance(schema, dict):
        raise NotAFormError(tr("The schema is no object, so it has no form."))
    head = {key: schema[key] for key in ("$schema", "title", "description") if key in schema}
    fields = _fields({key: value for key, value in schema.items() if key not in head}, "#", 0)
    if _count(fields) > FIELD_LIMIT:
        raise NotAFormError(tr("There are more than {limit} fields; edit the schema as text.", limit=FIELD_LIMIT))
    return Form(fields, _text(head.get("title")), _text(head.get("description")))


def schema_of(form: Form) -> dict[str, Any]:
    """The schema that a form stands for."""
    head = {"title": form.title, "description": form.description}
    return {key: value for key, value in head.items() if value} | _object(form.fields)


def unnamed(fields: Sequence[Field]) -> str:
    """What is wrong with the fields' names, in one sentence; "" when nothing is."""
    names = [field.name for field in fields]
    if "" in names:
        return tr("A field has no name yet.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return tr("Two fields are called “{twice}”.", twice=twice)
    for field in fields:
        if field.kind is FieldKind.CHOICE and not field.choices:
            return tr("“{name}” has no values to choose from yet.", name=field.name)
        if field.kind is FieldKind.OBJECT and not field.fields:
            return tr("“{name}” has no fields yet.", name=field.name)
        if problem := unnamed(field.fields):
            return problem
    return ""


def free_name(fields: Sequence[Field], wanted: str = "field") -> str:
    """A name that no field has yet."""
    names = {field.name for field in fields}
    number = 2
    name = wanted
    while name in names:
        name = f"{wanted}_{number}"
        number += 1
    return name


def _count(fields: Sequence[Field]) -> int:
    return sum(1 + _count(field.fields) for field in fields)


def _object(fields: Sequence[Field]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field.name: _property(field) for field in fields},
        "required": [field.name for field in fields if field.is_required],
        "additionalProperties": False,
    }


def _property(field: Field) -> dict[str, Any]:
    if field.kind is FieldKind.OBJECT:
        schema = _object(field.fields)
    elif field.kind is FieldKind.CHOICE:
        schema = {"enum": list(field.choices)}
    else:
        schema = dict(_TYPES[field.kind]) | dict(field.rules)
    if field.is_list:
        schema = {"type": "array", "items": schema} | dict(field.list_rules)
    return schema | ({"description": field.description} if field.description else {})


def _fields(schema: Mapping[str, Any], path: str, depth: int) -> tuple[Field, ...]:
    if depth > DEPTH_LIMIT:
        raise NotAFormError(tr("{path} is nested deeper than the form shows; edit it as JSON.", path=path))
    _only(schema, {"type", "properties", "required", "additionalProperties", "description"}, path)
    if schema.get("type") != "object" or not isinstance(schema.get("properties", {}), dict):
        raise NotAFormError(
            tr("{path} is no group of fields, which is all that the form shows; edit it as JSON.", path=path)
        )
    if schema.get("additionalProperties", False) is not False:
        raise NotAFormError(tr("{path}/additionalProperties is not in the form; edit it as JSON.", path=path))
    required = schema.get("required", [])
    if not isinstance(required, list):
        raise NotAFormError(tr("{path}/required is no list.", path=path))
    return tuple(
        replace(_field(name, value, f"{path}/properties/{name}", depth), is_required=name in required)
        for name, value in schema.get("properties", {}).items()
    )


def _field(name: str, schema: Any, path: str, depth: int) -> Field:
    if not isinstance(schema, dict):
        raise NotAFormError(tr("{path} is no object; edit it as JSON.", path=path))
    description = _text(schema.get("description"))
    if schema.get("type") == "array":
        _only(schema, {"type", "items", "description"} | _LIST_RULES, path)
        inner = _field(name, schema.get("items"), f"{path}/items", depth)
        if inner.is_list:
            raise NotAFormError(
                tr("{path} is a list of lists, which the form does not show; edit it as JSON.", path=path)
            )
        rules = _rules(schema, _LIST_RULES)
        return replace(inner, is_list=True, description=description or inner.description, list_rules=rules)
    if schema.get("type") == "object":
        return Field(name, FieldKind.OBJECT, description=description, fields=_fields(schema, path, depth + 1))
    if "enum" in schema:
        _only(schema, {"type", "enum", "description"}, path)
        choices = schema["enum"]
        if schema.get("type", "string") != "string" or not all(isinstance(value, str) for value in choices):
            raise NotAFormError(tr("{path}/enum has values that are no text; edit it as JSON.", path=path))
        if any(value.strip() != value or len(value.splitlines()) != 1 for value in choices):
            raise NotAFormError(tr("{path}/enum has values that no line shows; edit it as JSON.", path=path))
        return Field(name, FieldKind.CHOICE, description=description, choices=tuple(choices))
    bare = {key: schema[key] for key in ("type", "format") if key in schema}
    for kind, wanted in _TYPES.items():
        if bare == wanted:
            _only(schema, {"type", "format", "description"} | _RULES.get(kind, set()), path)
            return Field(name, kind, description=description, rules=_rules(schema, _RULES.get(kind, set())))
    _only(schema, {"type", "format", "description"}, path)
    raise NotAFormError(tr("{path} has a type that the form does not show; edit it as JSON.", path=path))


def _rules(schema: Mapping[str, Any], known: set[str]) -> tuple[tuple[str, Any], ...]:
    return tuple((key, value) for key, value in schema.items() if key in known)


def _only(schema: Mapping[str, Any], known: set[str], path: str) -> None:
    other = next((key for key in schema if key not in known), None)
    if other is not None:
        raise NotAFormError(tr("{path}/{other} is not in the form; edit it as JSON.", path=path, other=other))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
