"""Calls out of what a model wrote between the markers of a tool call.

Families write calls as JSON, as tags, as Python or in ways of their own; which of them a text is shows in the text.
Each way is a function here that gives the calls it finds, or none. What no way reads is no call.
"""

from __future__ import annotations

import ast
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from engine.protocol import Tool, ToolCall

Types = Mapping[str, Mapping[str, str]]  # of each tool, JSON types of its parameters
Found = tuple[str, Any, str]  # name, arguments (an object, or text), id
_MAX_CHARACTERS: Final = 1 << 20

_KIMI: Final = re.compile(
    r"<\|tool_call_begin\|>\s*(?P<id>(?:functions\.)?(?P<name>[\w.\-]+?)(?::\d+)?)\s*"
    r"<\|tool_call_argument_begin\|>(?P<arguments>.*?)(?:<\|tool_call_end\|>|\Z)",
    re.DOTALL,
)
_DEEPSEEK: Final = re.compile(
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?(?P<name>[^\s<]+?)\s*(?:<｜tool▁sep｜>|\n)(?P<arguments>.*?)"
    r"(?:<｜tool▁call▁end｜>|\Z)",
    re.DOTALL,
)
_SOLAR: Final = re.compile(
    r"<\|tool_call:begin\|>(?P<id>[^<]*)<\|tool_call:name\|>(?P<name>[^<]+)<\|tool_call:args\|>(?P<arguments>.*?)"
    r"(?:<\|tool_call:end\|>|\Z)",
    re.DOTALL,
)
_MISTRAL: Final = re.compile(
    r"(?<![\w.\-])(?P<name>[\w.\-]++)(?:\[CALL_ID\](?P<id>[^\[]*))?\[ARGS\]"
    r"(?P<arguments>.*?)(?=\[TOOL_CALLS\]|\Z)",
    re.DOTALL,
)
_NAME_AND_JSON: Final = re.compile(
    r"\A(?:functions\.)?(?P<name>[\w.\-]+)\s*(?:>|<\w+>)?\s*(?P<arguments>(?:```(?:json)?\s*)?\{.*)", re.DOTALL
)
_INVOKE: Final = re.compile(
    r'<[\w｜:]*invoke name="(?P<name>[^"]+)"\s*>(?P<body>.*?)(?:</[\w｜:]*invoke>|\Z)', re.DOTALL
)
_NAMED_PARAMETER: Final = (
    re.compile(r'<[\w｜:]*parameter name="(?P<key>[^"]+)"(?: string="(?P<is_text>true|false)")?\s*>'),
    re.compile(r"</[\w｜:]*parameter>"),
)
_TAG: Final = re.compile(r"<(?P<key>[\w.\-]+)>")
_FUNCTION: Final = re.compile(r"<function=(?P<name>[^>\s]+)>(?P<body>.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER: Final = re.compile(r"<parameter=(?P<key>[^>]+)>"), re.compile("</parameter>")
_ARGUMENT: Final = re.compile("<arg_key>"), re.compile("</arg_value>")
_ARGUMENT_MIDDLE: Final = re.compile(r"</arg_key>\s*<arg_value>")
_KIMI_3: Final = re.compile(
    r'<\|open\|>call tool="(?P<name>[^"]+)"[^<]*<\|sep\|>(?P<body>.*?)(?:<\|close\|>call<\|sep\|>|\Z)', re.DOTALL
)
_KIMI_3_ARGUMENT: Final = (
    re.compile(r'<\|open\|>argument key="(?P<key>[^"]+)"(?: type="(?P<type>\w+)")?[^<]*<\|sep\|>'),
    re.compile(r"<\|close\|>argument<\|sep\|>"),
)
_GEMMA_CALL: Final = re.compile(r"call:(?P<name>[\w.\-]+)\s*(?=\{)")
_GEMMA_WORD: Final = re.compile(r'<\|"\|>(?P<text>.*?)<\|"\|>|(?P<bare>[^{}\[\]:,]+)', re.DOTALL)
_MAX_GEMMA_FAILURES: Final = 16  # beginnings of calls that are none
_FENCE: Final = re.compile(r"\A\s*```\w*\s*|\s*```\s*\Z")


def parse_calls(text: str, tools: Sequence[Tool] = (), name: str = "") -> list[ToolCall]:
    """The calls in ``text``, in order; none where it is no call.

    ``name`` is the function's where the model wrote it before the text. ``tools`` say which arguments are text
    where the way of writing does not.
    """
    text = text[:_MAX_CHARACTERS].replace("]<]minimax[>[", "").strip().removeprefix("functools")
    types = {tool.name: _types_of(tool) for tool in tools}
    for read in _WAYS:
        found = list(read(text, types))
        if found:
            return [_call(*item) for item in found]
    return [_call(name, text, "")] if name else []


def _call(name: str, arguments: Any, call_id: str) -> ToolCall:
    if isinstance(arguments, str):
        arguments = _FENCE.sub("", arguments).strip()
        parsed = _json_or_none(arguments)
        if isinstance(parsed, str):  # JSON in a JSON string
            arguments = parsed
        text = arguments or "{}"
    else:
        text = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(name.strip(), text, call_id.strip() or uuid.uuid4().hex[:9])


def _types_of(tool: Tool) -> dict[str, str]:
    schema = _json_or_none(tool.parameters)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {key: str(value.get("type", "")) for key, value in properties.items() if isinstance(value, dict)}


def _json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _value(text: str, declared: str) -> Any:
    """An argument that was written as bare text: text where it is declared so, else what JSON makes of it."""
    if declared == "string":
        return text
    value = _json_or_none(text.strip())
    return text if value is None and text.strip() != "null" else value


def _enclosed(text: str, marks: tuple[re.Pattern[str], re.Pattern[str]]) -> Iterator[tuple[re.Match[str], str]]:
    """Matches of an opening mark, each with the text up to the closing one; in time with the length of ``text``."""
    opening, closing = marks
    start = opening.search(text)
    while start is not None and (end := closing.search(text, start.end())) is not None:
        yield start, text[start.end() : end.start()]
        start = opening.search(text, end.end())


def _tags(text: str) -> Iterator[tuple[str, str]]:
    """Names and contents of tags that are closed, outer ones."""
    unclosed: set[str] = set()
    start = _TAG.search(text)
    while start is not None:
        name, position = start["key"], start.end()
        end = -1 if name in unclosed else text.find(f"</{name}>", position)
        if end < 0:
            unclosed.add(name)
        else:
            yield name, text[position:end]
            position = end + len(name) + 3
        start = _TAG.search(text, position)


# ------------------------------------------------------------------------------------------------------- ways


def _by_pattern(pattern: re.Pattern[str], mark: str) -> Callable[[str, Types], Iterator[Found]]:
    """A way whose calls are matches with a name, arguments and perhaps an id."""

    def read(text: str, types: Types) -> Iterator[Found]:
        if mark in text:
            for match in pattern.finditer(text):
                groups = match.groupdict()
                yield groups["name"], groups["arguments"], groups.get("id") or ""

    return read


def _invokes(text: str, types: Types) -> Iterator[Found]:
    """``<invoke name="f"><parameter name="a">1</parameter></invoke>``, or a tag for each parameter."""
    for match in _INVOKE.finditer(text):
        declared = types.get(match["name"], {})
        arguments: dict[str, Any] = {}
        for mark, value in _enclosed(match["body"], _NAMED_PARAMETER):
            is_text = {"true": "string", "false": ""}.get(mark["is_text"], declared.get(mark["key"], ""))
            arguments[mark["key"]] = _value(value, is_text)
        for key, value in _tags(match["body"]) if not arguments else ():
            arguments[key] = _value(value, declared.get(key, ""))
        yield match["name"], arguments, ""


def _functions(text: str, types: Types) -> Iterator[Found]:
    """``<function=f>`` with ``<parameter=a>`` inside, or with JSON."""
    for match in _FUNCTION.finditer(text):
        declared = types.get(match["name"], {})
        arguments: Any = {}
        for mark, value in _enclosed(match["body"], _PARAMETER):
            value = value.removeprefix("\n").removesuffix("\n")
            arguments[mark["key"]] = _value(value, declared.get(mark["key"], ""))
        yield match["name"], arguments or match["body"].strip() or "{}", ""


def _arguments(text: str, types: Types) -> Iterator[Found]:
    """``f<arg_key>a</arg_key><arg_value>1</arg_value>``."""
    if "<arg_key>" in text:
        name = text.partition("<arg_key>")[0].strip()
        declared = types.get(name, {})
        arguments: dict[str, Any] = {}
        for _, pair in _enclosed(text, _ARGUMENT):
            middle = _ARGUMENT_MIDDLE.search(pair)
            if middle is not None:
                key = pair[: middle.start()].rpartition("<arg_key>")[2].strip()
                arguments[key] = _value(pair[middle.end() :], declared.get(key, ""))
        yield name, arguments, ""


def _kimi_3(text: str, types: Types) -> Iterator[Found]:
    for match in _KIMI_3.finditer(text):
        pairs = _enclosed(match["body"], _KIMI_3_ARGUMENT)
        yield match["name"], {mark["key"]: _value(value, mark["type"] or "") for mark, value in pairs}, ""


def _gemma(text: str, types: Types) -> Iterator[Found]:
    """``call:f{a:<|"|>text<|"|>,b:[1,2]}``."""
    num_failures = 0
    for match in _GEMMA_CALL.finditer(text):
        try:
            arguments, _ = _gemma_value(text, match.end(), 0)
        except ValueError:
            num_failures += 1
            if num_failures == _MAX_GEMMA_FAILURES:
                return
            continue
        yield match["name"], arguments, ""


def _gemma_value(text: str, position: int, depth: int) -> tuple[Any, int]:
    """A value from ``position`` and where it ends. Raises ValueError where there is none."""
    if depth > 50 or position >= len(text):
        raise ValueError("no value")
    if text[position] not in "{[":
        match = _GEMMA_WORD.match(text, position)
        if match is None:
            raise ValueError("no value")
        return (match["text"] if match["text"] is not None else _value(match["bare"].strip(), "")), match.end()
    is_object = text[position] == "{"
    closing, items, keys = "}" if is_object else "]", [], []
    position += 1
    while position < len(text) and text[position] != closing:
        if is_object:
            key, position = _gemma_value(text, position, depth + 1)
            keys.append(str(key))
            if text[position : position + 1] != ":":
                raise ValueError("no value")
            position += 1
        item, position = _gemma_value(text, position, depth + 1)
        items.append(item)
        if text[position : position + 1] == ",":
            position += 1
    return (dict(zip(keys, items)) if is_object else items), position + 1


def _json(text: str, types: Types) -> Iterator[Found]:
    """Objects or lists of them, one after the other, in the shapes that families use."""
    text = _FENCE.sub("", text)
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        if text[position] not in "{[":
            if not (text[position].isspace() or text[position] in ",;"):
                return
            position += 1
            continue
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        for item in value if isinstance(value, list) else [value]:
            found = _shaped(item)
            if found is not None:
                yield found


def _shaped(item: Any) -> Found | None:
    if not isinstance(item, dict):
        return None
    function = item.get("function")
    if isinstance(function, dict):
        item = {"id": item.get("id"), **function}
    name = item.get("name") or item.get("tool_name") or (function if isinstance(function, str) else None)
    if isinstance(name, str):
        keys = ("arguments", "parameters", "args", "input")
        arguments: Any = next((item[key] for key in keys if item.get(key) is not None), {})
        call_id = item.get("id") or item.get("tool_call_id") or ""
        return name, arguments, str(call_id)
    if len(item) == 1:
        ((name, arguments),) = item.items()
        return (name, arguments, "") if isinstance(arguments, dict) else None
    return None


def _python(text: str, types: Types) -> Iterator[Found]:
    """``[f(a=1), g()]``."""
    if len(text) > 100_000 or "(" not in text:
        return
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        calls = tree.elts if isinstance(tree, ast.List) else [tree]
        if all(isinstance(call, ast.Call) and not call.args for call in calls):
            for call in calls:
                assert isinstance(call, ast.Call)
                if any(keyword.arg is None for keyword in call.keywords):
                    return
                arguments = {str(k.arg): _literal(k.value) for k in call.keywords}
                json.dumps(arguments)  # sets, bytes and complex numbers are none
                yield ast.unparse(call.func), arguments, ""
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        return


class _JsonNames(ast.NodeTransformer):
    """Constants as JSON names them."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        constants = {"true": True, "false": False, "null": None}
        return ast.Constant(constants[node.id]) if node.id in constants else node


def _literal(node: ast.expr) -> Any:
    return ast.literal_eval(_JsonNames().visit(node))


_WAYS: Final[tuple[Callable[[str, Types], Iterator[Found]], ...]] = (
    _by_pattern(_KIMI, "<|tool_call_begin|>"),
    _by_pattern(_DEEPSEEK, "<｜tool▁call▁begin｜>"),
    _by_pattern(_SOLAR, "<|tool_call:begin|>"),
    _by_pattern(_MISTRAL, "[ARGS]"),
    _kimi_3,
    _invokes,
    _functions,
    _arguments,
    _gemma,
    _json,
    _python,
    _by_pattern(_NAME_AND_JSON, "{"),
)
