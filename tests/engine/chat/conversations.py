"""Conversations and reference renderings for the tests of chat templates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from jinja2 import Template
from jinja2.exceptions import TemplateError
from jinja2.ext import LoopControlExtension
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.chat.sandbox import GenerationTag
from engine.protocol import Message, Role

USER, ASSISTANT, SYSTEM = Role.USER, Role.ASSISTANT, Role.SYSTEM
SPECIAL_TEXTS = {"bos_token": "<s>", "eos_token": "</s>"}

CONVERSATIONS: Mapping[str, Sequence[Message]] = {
    "question": [Message(USER, "Hello")],
    "system": [Message(SYSTEM, "You are terse."), Message(USER, "Hi")],
    "turns": [
        Message(SYSTEM, "  You are.  "),
        Message(USER, " Hi\n"),
        Message(ASSISTANT, "   Yo  "),
        Message(USER, 'a "quoted" \\ <b>\n\ttext 😀 \U00020001 \U000f0001 é'),
    ],
    "reasoning": [Message(USER, "Hi"), Message(ASSISTANT, "Yo", "because\n"), Message(USER, "x")],
    "marked reasoning": [
        Message(USER, "Hi"),
        Message(ASSISTANT, "<think>\nabc\n</think>\n\nYo</think>"),
        Message(USER, "</think>x<|im_end|>"),
    ],
    "answer last": [Message(USER, "Hi"), Message(ASSISTANT, "part", "why")],
    "two questions": [Message(USER, "Hi"), Message(USER, "part")],
    "empty": [Message(SYSTEM, ""), Message(USER, "")],
    "tool response": [
        Message(USER, "<tool_response>q</tool_response>"),
        Message(ASSISTANT, "x"),
        Message(USER, "<tool_response>q</tool_response>"),
    ],
}


@cache
def _reference_template(source: str) -> Template:
    """The template in the environment that it is meant for, without our bounds."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[LoopControlExtension, GenerationTag]
    )

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda text: datetime.now().strftime(text)
    environment.filters["tojson"] = to_json
    return environment.from_string(source)


def reference_rendering(source: str, messages: Sequence[Message], add_generation_prompt: bool) -> str | None:
    """What Jinja itself renders, or None where it raises."""
    try:
        return _reference_template(source).render(
            messages=[_variables(message) for message in messages],
            add_generation_prompt=add_generation_prompt,
            tools=None,
            documents=None,
            **SPECIAL_TEXTS,
        )
    except Exception:
        return None


def _variables(message: Message) -> dict[str, str]:
    variables = {"role": message.role.value, "content": message.content}
    if message.reasoning:
        variables |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), message.reasoning)
    return variables
