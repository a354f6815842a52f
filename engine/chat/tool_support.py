"""Whether a template knows tools, calls and results, found by trying; what it does not know is told in words.

Three things may be missing, each for itself: a place where tools are offered, the model's own calls, and the
results. A tool that is offered in the system prompt is called as the text there says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.chat.rendering import CompiledTemplate
from engine.chat.tool_variables import STYLES
from engine.errors import TemplateError
from engine.protocol import Message, Role, Tool, ToolCall

OFFERED: Final = (
    "This model's chat template knows no tools, so they were described in the system prompt; "
    "the model may not call them reliably."
)
TOLD: Final = "This model's chat template leaves calls of tools out, so they and their results were told as text."

_NAME: Final = "fireside_probe"
_KEY: Final = "fireside_key"
_VALUE: Final = "fireside-value"
_RESULT: Final = "fireside-result"
_CALL_ID: Final = "fireside9"  # nine letters and digits, as Mistral's templates demand
_SCHEMA: Final = {"type": "object", "properties": {_KEY: {"type": "string"}}}
_TOOL: Final = Tool(_NAME, "Probes.", json.dumps(_SCHEMA))
_QUESTION: Final = Message(Role.USER, "Hi")
_CALL: Final = Message(Role.ASSISTANT, "", tool_calls=(ToolCall(_NAME, json.dumps({_KEY: _VALUE}), _CALL_ID),))
_ANSWERED: Final = Message(Role.TOOL, _RESULT, name=_NAME, call_id=_CALL_ID)
_INSTRUCTIONS: Final = """\
You may call functions. They are, one a line, as JSON:
{tools}
To call one, write nothing but its name and arguments as JSON between these tags, and the result will follow:
<tool_call>
{{"name": "name of the function", "arguments": {{"argument": "value"}}}}
</tool_call>"""


@dataclass(frozen=True)
class ToolSupport:
    """What a template writes: tools that are offered, calls, calls of messages that say something, results."""

    offers: bool
    calls: bool
    calls_beside_content: bool
    results: bool


def find_support(template: CompiledTemplate) -> ToolSupport:
    """Try a short conversation with a tool; sets the style of handing calls over that works best."""
    offers = _writes(template, [_QUESTION], _NAME)
    if not offers:
        template.describes_parameters = True  # some read a description that schemas need not have
        offers = _writes(template, [_QUESTION], _NAME)
    best: tuple[int, bool, bool] = (0, False, False)
    chosen = template.tool_style
    for style in STYLES:
        template.tool_style = style
        calls = _writes(template, [_QUESTION, _CALL, _ANSWERED], _VALUE, is_offered=offers)
        results = _writes(template, [_QUESTION, _CALL, _ANSWERED], _RESULT, is_offered=offers)
        if 2 * calls + results > best[0]:
            best, chosen = (2 * calls + results, calls, results), style
    template.tool_style = chosen
    speaking = [_QUESTION, replace(_CALL, content="Hm"), _ANSWERED]
    beside_content = _writes(template, speaking, _VALUE, is_offered=offers)
    return ToolSupport(offers, best[1], beside_content, best[2])


def _writes(template: CompiledTemplate, messages: Sequence[Message], wanted: str, is_offered: bool = True) -> bool:
    """Whether ``wanted`` is in the prompt, and arguments neither as Python writes them nor as JSON in JSON."""
    try:
        segments = template.render(messages, True, [_TOOL] if is_offered else [])
    except TemplateError:
        return False
    text = "".join(text for text, _ in segments)
    return wanted in text and f"'{_KEY}': '{_VALUE}" not in text and f'\\"{_KEY}\\"' not in text


def fit_tools(
    support: ToolSupport, messages: Sequence[Message], tools: Sequence[Tool]
) -> tuple[list[Message], Sequence[Tool], list[str]]:
    """The conversation and the tools as a template takes them, and what was told in words."""
    told, notices = list(messages), []
    if not support.calls and any(message.tool_calls for message in told):
        told = [_call_as_text(message) for message in told]
        notices.append(TOLD)
    elif not support.calls_beside_content:
        told = [part for message in told for part in _silent_calls(message)]
    if not support.results:
        told = [_result_as_text(message) for message in told]
    if tools and not support.offers:
        offer = _INSTRUCTIONS.format(tools="\n".join(map(_described, tools)))
        is_first = bool(told) and told[0].role is Role.SYSTEM
        content = f"{told[0].content}\n\n{offer}" if is_first else offer
        told = [Message(Role.SYSTEM, content), *told[is_first:]]
        tools = ()
        notices.append(OFFERED)
    return told, tools, notices


def _described(tool: Tool) -> str:
    parameters = json.loads(tool.parameters)
    return json.dumps(
        {"name": tool.name, "description": tool.description, "parameters": parameters}, ensure_ascii=False
    )


def _call_as_text(message: Message) -> Message:
    calls = [
        f'<tool_call>\n{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}\n</tool_call>'
        for call in message.tool_calls
    ]
    return replace(message, content="\n".join(filter(None, (message.content, *calls))), tool_calls=())


def _silent_calls(message: Message) -> list[Message]:
    """A message that says something and calls as two."""
    if not (message.tool_calls and message.content):
        return [message]
    return [replace(message, tool_calls=()), replace(message, content="", reasoning="")]


def _result_as_text(message: Message) -> Message:
    if message.role is not Role.TOOL:
        return message
    return Message(Role.USER, f"Result of {message.name or 'the function'}:\n{message.content}")
