"""What a model may call, and its calls: plain data, part of the protocol. Nothing here runs a tool."""

from __future__ import annotations

import json
import re
from typing import Any

from engine.errors import InputError
from engine.json_text import RepeatedKeyError, parse_json
from engine.plain_data import dataclass

NO_PARAMETERS = '{"type": "object", "properties": {}}'


@dataclass(frozen=True)
class Tool:
    """A function that the model is told of.

    Attributes:
        name: letters, digits, ``_``, ``-`` and ``.``.
        description: when to call it, for the model.
        parameters: JSON Schema of its arguments, an object, as text.
    """

    name: str
    description: str = ""
    parameters: str = NO_PARAMETERS


@dataclass(frozen=True)
class ToolCall:
    """A call that the model wrote.

    Attributes:
        name: of the function; need not be one that it was told of.
        arguments: JSON as text, an object unless the model wrote something else.
        call_id: tells the calls of a conversation apart; its result names it.
    """

    name: str
    arguments: str = "{}"
    call_id: str = ""


_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")


def parse_tools(text: str) -> tuple[Tool, ...]:
    """The tools of a JSON list of functions, each bare or as ``{"type": "function", "function": {...}}``.

    Raises InputError with a sentence that says which one is at fault.
    """
    try:
        listed = parse_json(text)
    except RepeatedKeyError as error:
        raise InputError(
            f"The functions have the key “{error.key}” twice in one object; remove one of them."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"The functions are no JSON: {error}.") from error
    if not isinstance(listed, list):
        raise InputError("The functions must be a JSON list, each with a name, a description and parameters.")
    tools = tuple(_parse_tool(item, number) for number, item in enumerate(listed, start=1))
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"The function {name} is listed twice.")
    return tools


def _parse_tool(item: Any, number: int) -> Tool:
    function = item.get("function", item) if isinstance(item, dict) else item
    if not isinstance(function, dict):
        raise InputError(f"Function {number} is no JSON object.")
    name, description = function.get("name"), function.get("description") or ""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InputError(f"Function {number} needs a name of letters, digits, “_”, “-” and “.”.")
    if not isinstance(description, str):
        raise InputError(f"The description of {name} must be a text.")
    parameters = function.get("parameters") or json.loads(NO_PARAMETERS)
    if not isinstance(parameters, dict):
        raise InputError(f"The parameters of {name} must be a JSON Schema, an object.")
    return Tool(name, description, json.dumps(parameters, ensure_ascii=False))
