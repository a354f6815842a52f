"""Tools and calls as chat templates expect them: OpenAI's shapes, every text of them concealed.

Names, descriptions and schemas may come from programs that the person did not write, so they are content like
any other. Knows nothing of a particular template; ``ToolStyle`` says what one wants.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.chat.content import conceal
from engine.errors import InvalidParameterError
from engine.protocol import Message, Role, Tool, ToolCall

_MAX_DEPTH: Final = 64


@dataclass(frozen=True)
class ToolStyle:
    """What a template wants of an assistant's calls.

    Attributes:
        arguments_as_text: JSON text rather than an object.
        content_as_none: no content rather than an empty one beside calls.
    """

    arguments_as_text: bool = False
    content_as_none: bool = False


STYLES: Final = tuple(ToolStyle(as_text, as_none) for as_text in (False, True) for as_none in (False, True))


def conceal_json(value: Any, depth: int = 0) -> Any:
    """A JSON value with every string concealed, keys included: they are found as before."""
    if depth > _MAX_DEPTH:
        raise InvalidParameterError("A tool's parameters are nested too deeply; simplify them.")
    if isinstance(value, str):
        return conceal(value)
    if isinstance(value, list):
        return [conceal_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {conceal(key): conceal_json(item, depth + 1) for key, item in value.items()}
    return value


def tool_variables(tools: Sequence[Tool], describes_parameters: bool = False) -> list[dict[str, Any]]:
    """The list ``tools`` of a template; with ``describes_parameters`` each parameter has a description.

    Raises InvalidParameterError where parameters are no JSON object.
    """
    return [
        {
            "type": "function",
            "function": {
                "name": conceal(tool.name),
                "description": conceal(tool.description),
                "parameters": conceal_json(_schema(tool, describes_parameters)),
            },
        }
        for tool in tools
    ]


def call_variables(message: Message, style: ToolStyle) -> dict[str, Any]:
    """What a message says beside its content: an assistant's calls, or whose result it is."""
    variables: dict[str, Any] = {}
    if message.role is Role.ASSISTANT and message.tool_calls:
        variables["tool_calls"] = [_call(call, style) for call in message.tool_calls]
        if style.content_as_none and not message.content:
            variables["content"] = None
    if message.role is Role.TOOL:
        variables |= {"name": conceal(message.name), "tool_call_id": conceal(message.call_id)}
    return variables


def _call(call: ToolCall, style: ToolStyle) -> dict[str, Any]:
    arguments: Any = conceal(call.arguments)
    if not style.arguments_as_text:
        try:
            parsed = json.loads(call.arguments)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            arguments = conceal_json(parsed)
    function = {"name": conceal(call.name), "arguments": arguments}
    return {"id": conceal(call.call_id), "type": "function", "function": function}


def _schema(tool: Tool, describes_parameters: bool) -> dict[str, Any]:
    try:
        schema = json.loads(tool.parameters)
    except (ValueError, RecursionError) as error:
        raise InvalidParameterError(f"The parameters of tool {tool.name!r} are no JSON: {error}.") from error
    if not isinstance(schema, dict):
        raise InvalidParameterError(f"The parameters of tool {tool.name!r} must be a JSON Schema object.")
    properties = schema.get("properties")
    if describes_parameters and isinstance(properties, dict):
        described = {
            key: {"description": "", **value} for key, value in properties.items() if isinstance(value, dict)
        }
        schema["properties"] = properties | described
    return schema
