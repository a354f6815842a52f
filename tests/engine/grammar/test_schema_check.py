"""What is refused before anything is generated, and with which path and keyword."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.errors import GrammarError
from engine.grammar.compiler import violations
from engine.grammar.schema_check import check_schema
from engine.grammar.schema_tree import MAX_DEPTH
from tests.engine.grammar.vocabulary import grammar_of


def problems_of(schema: Any) -> list[tuple[str, str, bool]]:
    found = check_schema(schema if isinstance(schema, str) else json.dumps(schema)).problems
    return [(problem.path, problem.keyword, problem.can_check_afterwards) for problem in found]


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("not", {"type": "null"}),
        ("uniqueItems", True),
        ("contains", {"type": "null"}),
        ("dependentRequired", {"a": ["b"]}),
        ("dependentSchemas", {"a": {"required": ["b"]}}),
        ("dependencies", {"a": ["b"]}),
        ("propertyNames", {"maxLength": 3}),
        ("unevaluatedProperties", False),
        ("unevaluatedItems", False),
    ],
)
def test_what_cannot_be_honoured_is_named_with_its_path(keyword: str, value: Any) -> None:
    schema = {"type": "object", "properties": {"a/b": {"type": "array", "items": {keyword: value}}}}
    assert problems_of(schema) == [("#/properties/a~1b/items", keyword, True)]
    with pytest.raises(GrammarError, match=rf'#/properties/a~1b/items/{keyword}: "{keyword}" cannot be honoured'):
        grammar_of(schema)
    assert len(grammar_of(schema, check_afterwards=True).checked_afterwards) == 1


def test_conditions_are_refused_each_by_its_keyword() -> None:
    schema = {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}
    assert problems_of(schema) == [("#", "if", True), ("#", "then", True), ("#", "else", True)]


def test_choices_that_may_overlap_are_refused_and_disjoint_ones_taken() -> None:
    overlapping = {"oneOf": [{"type": "string", "maxLength": 5}, {"type": "string", "minLength": 3}]}
    assert problems_of({"properties": {"x": overlapping, "y": overlapping}}) == [
        ("#/properties/x", "oneOf", True),
        ("#/properties/y", "oneOf", True),
    ]
    assert problems_of({"oneOf": [{"type": "string"}, {"type": "integer"}]}) == []


def test_what_says_nothing_is_no_reason_to_refuse() -> None:
    schema = {"uniqueItems": False, "not": False, "if": True, "minContains": 2, "maxItems": 2.0, "$comment": "x"}
    assert problems_of(schema) == []


@pytest.mark.parametrize(
    ("schema", "path", "keyword"),
    [
        ({"properties": {"a": {"type": "text"}}}, "#/properties/a", "type"),
        ({"required": "a"}, "#", "required"),
        ({"items": {"minItems": -1}}, "#/items", "minItems"),
        (
            {"items": {"type": "integer", "minimum": 5, "maximum": 3}, "minItems": 1, "type": "array"},
            "#/items",
            "minimum",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "#/properties/a", "$ref"),
        ({"$ref": "https://example.org/schema.json"}, "#", "$ref"),
        ({"$dynamicRef": "#x"}, "#", "$dynamicRef"),
    ],
)
def test_faults_cannot_be_agreed_to(schema: Any, path: str, keyword: str) -> None:
    assert problems_of(schema) == [(path, keyword, False)]
    with pytest.raises(GrammarError, match=keyword.replace("$", r"\$")):
        grammar_of(schema, check_afterwards=True)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/n", "$defs": {"n": {"$ref": "#/$defs/n"}}},
        {"type": "object", "properties": {"c": {"$ref": "#"}}, "required": ["c"]},
        {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"$ref": "#/$defs/x"}]}},
            "$defs": {"x": {"$ref": "#/$defs/x"}},
        },
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_recursion_without_an_end_is_refused(schema: Any) -> None:
    found = check_schema(json.dumps(schema)).problems
    assert found
    assert all(problem.keyword == "$ref" and "no end" in problem.message for problem in found)


def test_recursion_with_an_end_is_taken() -> None:
    tree = {
        "$ref": "#/$defs/t",
        "$defs": {
            "t": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
                "required": ["v", "kids"],
                "additionalProperties": False,
            }
        },
    }
    chain = {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"next": {"$ref": "#"}}}]}
    assert problems_of(tree) == problems_of(chain) == []


def test_a_schema_of_ten_thousand_levels_is_refused_by_its_depth() -> None:
    deep = '{"type":"object","properties":{"a":' * 10_000 + "{}" + "}}" * 10_000
    (problem,) = check_schema(deep).problems
    assert f"deeper than {MAX_DEPTH} levels" in problem.message
    assert check_schema('["' + "[" * 1000 + '"]').problems  # brackets within a string are no levels


@pytest.mark.parametrize("text", ["", "{", '"x"', "[]", "false", '{"a": NaN}', "{'a': 1}", "\x00", "1" * 5000])
def test_what_is_no_schema_gets_one_sentence(text: str) -> None:
    (problem,) = check_schema(text).problems
    assert problem.message.endswith(".")
    assert "\n" not in problem.message


def test_an_unknown_format_is_a_remark_and_a_known_one_a_rule() -> None:
    checked = check_schema('{"type": "string", "format": "semver"}')
    assert checked.problems == ()
    assert "semver" in checked.notices[0]
    assert problems_of({"type": "string", "format": "json-pointer"}) == [("#", "format", False)]
    assert problems_of({"type": "string", "format": "regex"}) == [("#", "format", False)]


def test_a_large_bound_is_a_counter() -> None:
    assert problems_of({"type": "string", "maxLength": 10**6, "minLength": 10**3}) == []
    assert problems_of({"type": "array", "items": {"type": "integer"}, "maxItems": 10**6}) == []


def test_references_may_point_anywhere_in_the_document() -> None:
    schema = {"properties": {"a": {"$ref": "#/components/A"}}, "components": {"A": {"uniqueItems": True}}}
    assert problems_of(schema) == [("#/components/A", "uniqueItems", True)]


def test_violations_name_the_place() -> None:
    schema = {"properties": {"tags": {"type": "array", "uniqueItems": True}}}
    assert violations(schema, {"tags": [1, 2]}) == []
    assert violations(schema, {"tags": [1, 1]}) == ["#/tags: [1, 1] has non-unique elements."]


def test_what_cannot_be_checked_is_refused_and_never_valid() -> None:
    # Look-ahead can be checked afterwards; an escape that Python does not know cannot.
    assert problems_of({"type": "string", "pattern": "^(?!a)b$"}) == [("#", "pattern", True)]
    assert problems_of({"type": "string", "pattern": r"^(?!a)\cA$"}) == [("#", "pattern", False)]
    (fault,) = violations({"pattern": r"\cA"}, "a")
    assert "could not be checked" in fault


def test_a_keyword_of_older_drafts_is_checked_whatever_the_draft() -> None:
    schema = {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}
    assert problems_of(schema) == [("#", "dependencies", True)]
    assert violations(schema, {"a": 1, "b": 2}) == []
    assert len(violations(schema, {"a": 1, "c": 2})) == 2


def test_a_name_beside_a_reference_is_refused() -> None:
    schema = {"$defs": {"a": {}}, "properties": {"b": {"$id": "http://x/y", "$ref": "#/$defs/a"}}}
    assert ("#/properties/b", "$id", False) in problems_of(schema)
