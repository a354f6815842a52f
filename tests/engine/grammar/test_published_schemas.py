"""Published schemas and instances: none that a schema rules out can be generated, those that it allows can."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.gguf import open_model
from engine.grammar.compiler import violations
from engine.grammar.library import TokenTable
from engine.grammar.model_grammars import token_table
from engine.grammar.schema_check import CheckedSchema, check_schema
from engine.grammar.schema_tree import walk
from engine.tokenizer import load_tokenizer
from tests.engine.grammar.vocabulary import encode, table

# Published for drafts that differ in a word; an instance counts as published for them.
_DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}
_MOST_PERMUTED = 4  # properties; more are tried in the order in which they come


def _can_generate(made: TokenTable, to_ids: Callable[[str], list[int]], grammar: str, text: str) -> bool:
    matcher = made.matcher("json_schema", grammar)
    ids = to_ids(text)
    if matcher.num_valid(ids) < len(ids):
        return False
    for token_id in ids:
        matcher.consume(token_id)
    return matcher.is_accepting


def _texts(instance: Any) -> Iterator[str]:
    """Ways to write an instance: a grammar wants properties in the schema's order."""
    orders: Any = [instance]
    if isinstance(instance, dict) and len(instance) <= _MOST_PERMUTED:
        orders = (dict(order) for order in itertools.permutations(instance.items()))
    for order in orders:
        yield json.dumps(order, ensure_ascii=False)


def _says_why(checked: CheckedSchema) -> bool:
    return all(problem.path.startswith("#") and problem.message.endswith(".") for problem in checked.problems)


@pytest.mark.parametrize(
    "folder", ["draft2020-12", "draft2020-12/optional/format", "draft7", "draft7/optional/format"]
)
def test_nothing_that_a_schema_of_the_suite_rules_out_can_be_generated(folder: str, shared_data: Path) -> None:
    draft = _DRAFTS[folder.partition("/")[0]]
    tests = shared_data / "json_schema" / "JSON-Schema-Test-Suite" / "tests" / folder
    num_honoured, wrong = 0, []
    for file in sorted(tests.glob("*.json")):
        for group in json.loads(file.read_text(encoding="utf-8")):
            schema = group["schema"]
            if isinstance(schema, dict):
                schema.setdefault("$schema", draft)
            checked = check_schema(json.dumps(schema))
            assert _says_why(checked), group["description"]
            if checked.grammar is None:
                continue
            num_honoured += not checked.problems
            for test in group["tests"]:
                if test["valid"] or (checked.problems and violations(checked.schema, test["data"])):
                    continue
                if any(_can_generate(table(), encode, checked.grammar, text) for text in _texts(test["data"])):
                    wrong.append((file.name, group["description"], test["description"]))
    assert wrong == []
    assert num_honoured >= 10


@functools.cache
def _published(path: Path) -> list[tuple[dict[str, Any], CheckedSchema]]:
    with path.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [(record, check_schema(json.dumps(record["schema"]))) for record in records]


def _in_order(value: Any, known: list[list[str]]) -> Any:
    """The same instance, the properties of each object in the order of the schema that names most of them."""
    if isinstance(value, dict):
        order = max(known, key=lambda names: len(value.keys() & set(names)), default=[])
        names = sorted(value, key=lambda name: order.index(name) if name in order else len(order))
        return {name: _in_order(value[name], known) for name in names}
    return [_in_order(item, known) for item in value] if isinstance(value, list) else value


def _orders(schema: Any) -> list[list[str]]:
    """The properties of each schema in this one."""
    parts = [part for _, part in walk(schema) if isinstance(part, dict)]
    return [list(part["properties"]) for part in parts if isinstance(part.get("properties"), dict)]


@pytest.mark.parametrize(("model", "step"), [("smollm2_path", 1), ("gemma3_path", 4)])
def test_instances_from_the_wild_are_told_apart(
    model: str, step: int, request: pytest.FixtureRequest, shared_data: Path
) -> None:
    with open_model(request.getfixturevalue(model)) as file:
        tokenizer = load_tokenizer(file.metadata)
    made = token_table(tokenizer, slices=())
    num_honoured, wrong = 0, []
    for record, checked in _published(shared_data / "json_schema" / "maskbench_sample.jsonl")[::step]:
        assert _says_why(checked), record["name"]
        if checked.grammar is None:
            continue
        num_honoured += not checked.problems
        known = _orders(checked.schema)
        for test in record["tests"]:
            texts = [
                json.dumps(data, ensure_ascii=False) for data in (test["data"], _in_order(test["data"], known))
            ]
            follows = any(
                _can_generate(made, tokenizer.encode_continuation, checked.grammar, text)
                for text in dict.fromkeys(texts)
            )
            if checked.problems:
                follows = follows and not violations(checked.schema, test["data"])
            if follows != test["valid"]:
                wrong.append((record["name"], test["valid"], json.dumps(test["data"])[:80]))
    assert wrong == []
    assert num_honoured >= 190 // step
