"""What a model may call, and its calls: plain data, part of the protocol. Nothing here runs a tool."""

from __future__ import annotations

from dataclasses import dataclass

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
