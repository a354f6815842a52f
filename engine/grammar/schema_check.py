"""What of a JSON Schema can be honoured while an answer is generated, and what of it cannot, each with its path.

Fails closed: a schema is refused before anything is generated unless every keyword that constrains is honoured. The
person may agree that some are checked when the answer is there; then they are left out of the grammar alone.
No model is needed, so that an editor can check while its person types.
"""

from __future__ import annotations

import copy
import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from engine.grammar import formats
from engine.grammar.base_case import endless_paths
from engine.grammar.schema_tree import (
    MAX_SCHEMAS,
    REFERENCES,
    References,
    Schema,
    SchemaProblem,
    SchemaTextError,
    parse_schema,
    walk,
)

# Keywords that the grammar library cannot honour, each with what makes it say nothing.
_UNSUPPORTED: Final[dict[str, Any]] = {
    "not": False,
    "if": None,
    "then": None,
    "else": None,
    "uniqueItems": False,
    "contains": None,
    "minContains": None,
    "maxContains": None,
    "dependentRequired": {},
    "dependentSchemas": {},
    "dependencies": {},
    "propertyNames": True,
    "unevaluatedItems": True,
    "unevaluatedProperties": True,
}
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_MAX_PROBLEMS: Final = 20
_MAX_TRIALS: Final = 200  # compilations spent on finding what the library objects to
_STYLE: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


@dataclass(frozen=True)
class CheckedSchema:
    """What became of a schema's check.

    Attributes:
        problems: why it cannot be honoured; empty where it can.
        notices: what the person should know though it can.
        grammar: the schema as the library takes it; where every problem can be checked afterwards, without the
            keywords that are. None where the schema cannot be used at all.
        schema: the document itself.
    """

    problems: tuple[SchemaProblem, ...]
    notices: tuple[str, ...] = ()
    grammar: str | None = None
    schema: Any = None


def check_schema(text: str) -> CheckedSchema:
    """Check a schema; every fault is a problem in the result, none is raised."""
    try:
        schema = parse_schema(text)
    except SchemaTextError as error:
        return CheckedSchema((SchemaProblem("#", "", str(error)),))
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        return CheckedSchema((SchemaProblem("#", "", 'A schema is a JSON object, such as {"type": "object"}.'),))
    problems = _check_size(schema) or _check_meaning(schema) or _check_references(schema)
    if problems:
        return CheckedSchema(tuple(problems[:_MAX_PROBLEMS]), schema=schema)
    honoured = copy.deepcopy(schema)
    notices = _simplify(honoured)
    problems = _take_out_unsupported(honoured) + _take_out_refused(honoured)
    fatal = [problem for problem in problems if not problem.can_check_afterwards]
    honoured["x-guidance"] = _STYLE
    grammar = None if fatal else json.dumps(honoured, ensure_ascii=False)
    return CheckedSchema(tuple((fatal or problems)[:_MAX_PROBLEMS]), tuple(notices), grammar, schema)


def _problem(path: str, keyword: str, reason: str, can_check_afterwards: bool = False) -> SchemaProblem:
    where = f"{path}/{keyword}" if keyword else path
    hint = " It can be checked when the answer is there." if can_check_afterwards else ""
    return SchemaProblem(path, keyword, f"{where}: {reason}{hint}", can_check_afterwards)


def _check_size(schema: Schema) -> list[SchemaProblem]:
    for count, _ in enumerate(walk(schema)):
        if count >= MAX_SCHEMAS:
            return [_problem("#", "", f"there are more than {MAX_SCHEMAS:,} schemas in this one; make it smaller.")]
    return []


def _check_meaning(schema: Schema) -> list[SchemaProblem]:
    """Faults against the specification: unknown types, counts that are no numbers, and the like."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    kind = validator_for(schema, default=Draft202012Validator)
    problems = []
    for error in kind(kind.META_SCHEMA).iter_errors(schema):
        steps = [str(step) for step in error.absolute_path]
        parents, keyword = "/".join(["#", *steps[:-1]]), steps[-1] if steps else ""
        problems.append(_problem(parents, keyword, f"{_short(error.message)}."))
    return problems


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _check_references(schema: Schema) -> list[SchemaProblem]:
    references = References(schema)
    problems = []
    for path, part in walk(schema):
        for keyword in REFERENCES if isinstance(part, dict) else ():
            if keyword not in part or not isinstance(part[keyword], str):
                continue
            if keyword != "$ref":
                problems.append(_problem(path, keyword, "dynamic references are not supported; use $ref."))
            elif references.find(part[keyword]) is None:
                reason = f"{_short(part[keyword])!r} is not in this schema, and nothing is fetched from elsewhere"
                problems.append(_problem(path, keyword, f"{reason}; put it below $defs."))
            elif "$id" in part and part is not schema:
                problems.append(_problem(path, "$id", 'beside "$ref" drafts read it differently; take it out.'))
    if not problems:
        reason = "this recursion has no end: every instance would have to contain another; make a part optional."
        problems = [_problem(path, "$ref", reason) for path in endless_paths(schema, references)]
    return problems


def _simplify(schema: Schema) -> list[str]:
    """Drop what says nothing and write whole numbers as such, in place; returns notices."""
    notices = []
    for path, part in list(walk(schema)):
        if not isinstance(part, dict):
            continue
        for keyword, nothing in _UNSUPPORTED.items():
            if keyword in part and part[keyword] == nothing and type(part[keyword]) is type(nothing):
                del part[keyword]
        if "if" not in part:
            part.pop("then", None)
            part.pop("else", None)
        elif "then" not in part and "else" not in part:
            del part["if"]
        if "contains" not in part:
            part.pop("minContains", None)
            part.pop("maxContains", None)
        for keyword in _COUNTS:
            if isinstance(part.get(keyword), float) and math.isfinite(part[keyword]):
                part[keyword] = int(part[keyword])
        given = part.get("format")
        if isinstance(given, str) and not formats.is_defined(given):
            del part["format"]
            notices.append(f"{path}/format: {_short(given)!r} is no format of JSON Schema and is only a remark.")
    return notices


def _take_out_unsupported(schema: Schema) -> list[SchemaProblem]:
    """Remove the keywords that the library does not know, in place; one problem for each."""
    problems = []
    for path, part in walk(schema):
        if not isinstance(part, dict):
            continue
        for keyword in [keyword for keyword in _UNSUPPORTED if keyword in part]:
            del part[keyword]
            reason = f'"{keyword}" cannot be honoured while an answer is generated.'
            problems.append(_problem(path, keyword, reason, can_check_afterwards=True))
        if part.get("format") in formats.UNKNOWN:
            reason = f"the format {part.pop('format')!r} cannot be honoured."
            problems.append(_problem(path, "format", reason))
        formats.put_exactly(part)
    return problems


# What the library may object to, and what takes its place in the grammar; None: nothing.
_REPLACEABLE: Final[dict[str, str | None]] = {
    "oneOf": "anyOf",
    "multipleOf": None,
    "pattern": None,
    "patternProperties": None,
    "minProperties": None,
    "maxProperties": None,
    "minimum": None,
    "maximum": None,
    "exclusiveMinimum": None,
    "exclusiveMaximum": None,
}
_CULPRITS: Final = (*_REPLACEABLE, "required", "minItems", "enum", "const", "anyOf", "allOf", "type")


def _take_out_refused(schema: Schema) -> list[SchemaProblem]:
    """Remove what the library refuses for what it says, in place: overlapping ``oneOf``, look-ahead and so on."""
    problems: list[SchemaProblem] = []
    for _ in range(_MAX_PROBLEMS):
        objection = library_objection(schema)
        if objection is None:
            return problems
        refused = _find_refused(schema, objection)
        if not refused:
            return [*problems, _problem("#", "", f"the schema cannot be honoured: {objection}.")]
        for path, part, keyword in refused:
            is_replaceable = (
                keyword in _REPLACEABLE and "nsatisfiable" not in objection and _can_be_checked(part, keyword)
            )
            reason = _in_words(part, keyword, objection)
            problems.append(_problem(path, keyword, f"{reason}.", can_check_afterwards=is_replaceable))
            if not is_replaceable:
                return problems
            _replace(part, keyword)
    return problems


def _can_be_checked(part: Schema, keyword: str) -> bool:
    """Whether ``violations`` could judge what is left out: not where Python does not know an expression."""
    value = part[keyword]
    expressions = [value] if keyword == "pattern" else list(value) if keyword == "patternProperties" else []
    try:
        for expression in expressions:
            re.compile(expression)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _in_words(part: Schema, keyword: str, reason: str) -> str:
    """The library's reason in words for a person."""
    if keyword == "oneOf" and "oneOf" in reason:
        return 'the choices of "oneOf" may overlap, which cannot be ruled out while an answer is generated'
    if keyword == "pattern":
        return f"the pattern {_short(str(part.get('pattern')))!r} uses what cannot be honoured while generating"
    return f'"{keyword}" cannot be honoured ({reason})' if keyword else reason


def library_objection(schema: Any) -> str | None:
    """Why the grammar library refuses a schema, None where it takes it."""
    from llguidance import LLMatcher

    is_error, messages = LLMatcher.validate_grammar_with_warnings(
        json.dumps({"grammars": [{"json_schema": schema}]})
    )
    if not is_error:
        return None
    return " ".join(messages[0].partition("while processing")[0].split()).rstrip(".")[:300]


def _find_refused(schema: Schema, objection: str) -> list[tuple[str, Schema, str]]:
    """Path, schema and keyword of what the library objects to: it is content once all of them are gone."""
    parts = [(path, part) for path, part in walk(schema) if isinstance(part, dict)]
    num_trials = 0
    for keyword in _CULPRITS:
        places = [(path, part, dict(part)) for path, part in parts if keyword in part]
        for _, part, _ in places:
            _replace(part, keyword)
        is_cause = bool(places) and library_objection(schema) != objection
        found = []
        for path, part, whole in places:
            without = dict(part)
            _restore(part, whole)
            num_trials += 1
            if is_cause and num_trials <= _MAX_TRIALS and library_objection(schema) == objection:
                found.append((path, part, keyword))
                _restore(part, without)
        for _, part, whole in places:
            _restore(part, whole)
        if found:
            return found
    return []


def _restore(part: Schema, whole: Schema) -> None:
    part.clear()
    part.update(whole)


def _replace(part: Schema, keyword: str) -> None:
    """Take ``keyword`` out of ``part``, and put in what may take its place."""
    value = part.pop(keyword)
    substitute = _REPLACEABLE.get(keyword)
    if substitute is not None:
        part["allOf"] = [*part.get("allOf", []), {substitute: value}]
