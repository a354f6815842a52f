"""A JSON Schema as a tree of schemas: parsing within bounds, paths, references, and who is whose child.

Knows where schemas stand in a schema, and nothing of what keywords mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from engine.json_text import RepeatedKeyError, parse_json

Schema = dict[str, Any]

MAX_DEPTH: Final = 100  # levels of JSON; the grammar library ends at 128
MAX_CHARACTERS: Final = 1 << 20
MAX_SCHEMAS: Final = 20_000

ONE_SCHEMA: Final = (
    *("not", "if", "then", "else", "items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"),
)
SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
SCHEMA_MAPS: Final = (
    *("properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"),
)
DEFINITIONS: Final = frozenset(("$defs", "definitions"))
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True)
class SchemaProblem:
    """Why a schema cannot be honoured.

    Attributes:
        path: the schema at fault as a JSON pointer in a fragment, ``#/properties/tags``; ``#`` is the whole.
        keyword: the keyword at fault; "" where it is the whole schema.
        message: one sentence for a person, with both.
        can_check_afterwards: the rest can be honoured, and this be checked when the answer is there.
    """

    path: str
    keyword: str
    message: str
    can_check_afterwards: bool = False


class SchemaTextError(ValueError):
    """A text that is no usable JSON document; the message is one sentence."""


def parse_schema(text: str) -> Any:
    """The document; an object or a boolean where it is a schema.

    Raises SchemaTextError for a text that is too long, too deep or no JSON.
    """
    if len(text) > MAX_CHARACTERS:
        raise SchemaTextError(f"The schema is longer than {MAX_CHARACTERS:,} characters; give a smaller one.")
    too_deep = _too_deep_at(text)
    if too_deep is not None:
        raise SchemaTextError(
            f"The schema is nested deeper than {MAX_DEPTH} levels (line {_line(text, too_deep)}); flatten it, or "
            "describe repeated parts with $defs and $ref."
        )

    def refuse(constant: str) -> Any:
        raise SchemaTextError(f"The schema holds {constant}, which is not JSON.")

    try:
        return parse_json(text, parse_constant=refuse)
    except RepeatedKeyError as error:
        raise SchemaTextError(
            f"The schema has the key “{error.key}” twice in one object; remove one of them."
        ) from error
    except json.JSONDecodeError as error:
        raise SchemaTextError(f"The schema is not JSON: {error.msg} in line {error.lineno}.") from error
    except (RecursionError, ValueError) as error:
        if isinstance(error, SchemaTextError):
            raise
        raise SchemaTextError(f"The schema is not JSON that can be read: {error}.") from error


def _too_deep_at(text: str) -> int | None:
    """Position of the bracket that exceeds ``MAX_DEPTH``, found without recursion."""
    depth = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text, re.DOTALL):
        token = match.group()
        if token in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                return match.start()
        elif token in "]}":
            depth -= 1
    return None


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def children(schema: Any) -> Iterator[tuple[str, Any]]:
    """The schemas directly in ``schema``, each with its step of a JSON pointer, ``properties/name``."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if keyword in SCHEMA_MAPS and isinstance(value, dict):
            for name, child in value.items():
                if isinstance(child, dict | bool):
                    yield f"{keyword}/{escape(name)}", child
        elif keyword in SCHEMA_LISTS and isinstance(value, list):
            for index, child in enumerate(value):
                yield f"{keyword}/{index}", child
        elif keyword in ONE_SCHEMA and isinstance(value, dict | bool):
            yield keyword, value


def walk(root: Any) -> Iterator[tuple[str, Any]]:
    """``root`` and all schemas in it with their paths, outer ones first, then those that only a reference reaches.

    What is taken out of a schema after it was yielded is not walked.
    """
    seen: set[int] = set()
    waiting = {"#": root}
    references: References | None = None
    while waiting:
        found: dict[str, Any] = {}
        for start, schema in waiting.items():
            for path, part in _descend(schema, start):
                if isinstance(part, dict) and id(part) not in seen:
                    seen.add(id(part))
                    yield path, part
                    if isinstance(part.get("$ref"), str):
                        found[part["$ref"]] = part
                elif isinstance(part, bool):
                    yield path, part
        references = references or References(root)
        targets = {reference: references.find(reference) for reference in found}
        waiting = {
            reference: target
            for reference, target in targets.items()
            if isinstance(target, dict) and id(target) not in seen
        }


def _descend(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, schema
    for step, child in children(schema):
        yield from _descend(child, f"{path}/{step}")


def escape(name: str) -> str:
    """A property's name as a step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


class References:
    """Finds what the references of one schema point to, inside it; nothing is ever fetched."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._by_uri: dict[str, Any] = {}
        for _, schema in _descend(root, "#"):
            if isinstance(schema, dict):
                for keyword in ("$id", "id"):
                    if isinstance(schema.get(keyword), str):
                        self._by_uri.setdefault(schema[keyword].rstrip("#"), schema)
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(schema.get(keyword), str):
                        self._by_uri.setdefault("#" + schema[keyword], schema)

    def find(self, reference: str) -> Any | None:
        """The schema that ``reference`` names, None where it is not in here."""
        if reference in self._by_uri:
            return self._by_uri[reference]
        base, _, fragment = reference.partition("#")
        target = self._root if not base else self._by_uri.get(base)
        if target is None:
            # A relative reference to a resource with an absolute name.
            named = [found for uri, found in self._by_uri.items() if uri.endswith("/" + base.lstrip("/"))]
            target = named[0] if len(named) == 1 else None
        if target is None or not fragment:
            return target
        return _at_pointer(target, fragment) if fragment.startswith("/") else self._by_uri.get("#" + fragment)


def _at_pointer(document: Any, pointer: str) -> Any | None:
    for step in pointer.split("/")[1:]:
        step = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list) and step.isdecimal() and int(step) < len(document):
            document = document[int(step)]
        else:
            return None
    return document
