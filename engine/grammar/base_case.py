"""Whether a recursive schema can come to an end: each schema needs an instance of finite size.

A least fixed point: a schema has a finite instance once those it needs have one. A cycle of needs without a way out
never gets there; it would be admitted by a grammar and then never end.
"""

from __future__ import annotations

from typing import Any, Final

from engine.grammar.schema_tree import References, walk

_MAX_ROUNDS: Final = 500
_SCALARS: Final = frozenset(("string", "number", "integer", "boolean", "null"))


def endless_paths(root: Any, references: References) -> list[str]:
    """Paths of the schemas that use a reference and have no finite instance, the outermost first."""
    schemas = list(walk(root))
    ends: dict[int, bool] = {}
    for _ in range(_MAX_ROUNDS):
        before = sum(ends.values())
        for _, schema in reversed(schemas):  # inner ones first, so that few rounds are needed
            if isinstance(schema, dict) and not ends.get(id(schema), False):
                ends[id(schema)] = _can_end(schema, ends, references)
        if sum(ends.values()) == before:
            break
    return [
        path
        for path, schema in schemas
        if isinstance(schema, dict) and not ends[id(schema)] and isinstance(schema.get("$ref"), str)
    ]


def _can_end(schema: dict[str, Any], ends: dict[int, bool], references: References) -> bool:
    def ending(child: Any) -> bool:
        return ends.get(id(child), False) if isinstance(child, dict) else child is not False

    if "enum" in schema or "const" in schema:
        return True
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = references.find(reference)
        if target is not None and not ending(target):  # an unknown target is another problem
            return False
    if not all(ending(child) for child in _listed(schema, "allOf")):
        return False
    for keyword in ("anyOf", "oneOf"):
        choices = _listed(schema, keyword)
        if choices and not any(ending(child) for child in choices):
            return False
    types = schema.get("type")
    names = {types} if isinstance(types, str) else set(types) if isinstance(types, list) else set()
    if not names or names & _SCALARS:
        return True
    return ("object" in names and _object_ends(schema, ending)) or (
        "array" in names and _array_ends(schema, ending)
    )


def _object_ends(schema: dict[str, Any], ending: Any) -> bool:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    others = schema.get("additionalProperties", True)
    return all(ending(properties.get(name, others) if isinstance(name, str) else True) for name in names)


def _array_ends(schema: dict[str, Any], ending: Any) -> bool:
    smallest = schema.get("minItems", 0)
    smallest = smallest if isinstance(smallest, int) else 0
    first = _listed(schema, "prefixItems") or _listed(schema, "items")
    rest = schema.get("items", True)
    needed = first[:smallest]
    if smallest > len(first) and not isinstance(rest, list):
        needed = [*needed, rest]
    return all(ending(child) for child in needed)


def _listed(schema: dict[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []
