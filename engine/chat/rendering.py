"""One template, compiled: messages in, prompt segments out, within bounds.

Does not know which template to use, nor what to do when it refuses a conversation.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jinja2.exceptions import SecurityError, TemplateSyntaxError

from engine.chat.content import conceal, segments_of
from engine.chat.filters import to_json
from engine.chat.limits import Budget, RenderLimitError
from engine.chat.sandbox import TemplateEnvironment, TemplateRefusedError
from engine.chat.tool_variables import ToolStyle, call_variables, tool_variables
from engine.errors import TemplateError
from engine.protocol import Message, Role, Tool
from engine.tokenizer.text import well_formed

if TYPE_CHECKING:
    from engine.chat.tool_support import ToolSupport

Segments = list[tuple[str, bool]]

_MAX_SOURCE: Final = 131_072  # characters; the longest template in use has 30,000
_PRIVATE: Final = "\U000f0000"  # from here on lies what content is concealed as


@dataclass(frozen=True)
class RenderedPrompt:
    """A conversation as the model reads it.

    Attributes:
        segments: pieces ``(text, is_scaffolding)``: what the template wrote, and what the messages hold.
        opens_reasoning: the prompt ends inside the model's reasoning, so that its output starts there.
        notices: what was mended so that the template takes the conversation, one sentence each.
    """

    segments: tuple[tuple[str, bool], ...]
    opens_reasoning: bool = False
    notices: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole prompt."""
        return "".join(text for text, _ in self.segments)


class CompiledTemplate:
    """A template that can be rendered.

    Attributes:
        source: as the file has it.
        uses_parts: content is handed over as a list of parts (``{"type": "text", "text": ...}``), for templates
            that take nothing else.
        keeps_system: the template has a place for a system prompt.
        variables: what the template sees beside the conversation. Tools are None where there are none; templates
            made for tools alone want an empty list.
        tool_style: how calls are handed over.
        tool_support: what it knows of tools; None until that was found out.
        describes_parameters: each parameter of a tool gets a description, if only an empty one.
    """

    def __init__(self, source: str, special_texts: Mapping[str, str]) -> None:
        """``special_texts``: ``bos_token`` and its like. Raises TemplateError where the source is broken."""
        self.source = source
        self.uses_parts = False
        self.keeps_system = True
        self.variables: dict[str, Any] = {"tools": None, "documents": None, **special_texts}
        self.tool_style = ToolStyle()
        self.tool_support: ToolSupport | None = None
        self.describes_parameters = False
        self._environment = TemplateEnvironment()
        self._lock = threading.Lock()  # the environment holds the budget of one render at a time
        if len(source) > _MAX_SOURCE:
            raise TemplateError(f"the chat template is {len(source):,} characters long")
        if max(source, default="") >= _PRIVATE:
            source = "".join("�" if each >= _PRIVATE else each for each in source)
        try:
            self._template = self._environment.from_string(well_formed(source))
        except TemplateSyntaxError as error:
            raise TemplateError(f"the chat template is broken in line {error.lineno}: {error.message}") from error
        except TemplateError:
            raise
        except (Exception, RecursionError) as error:  # compiling foreign code: anything may come
            raise TemplateError(f"the chat template cannot be compiled: {describe(error)}") from error

    def render(
        self, messages: Sequence[Message], add_generation_prompt: bool, tools: Sequence[Tool] = ()
    ) -> Segments:
        """The prompt.

        Raises:
            TemplateRefusedError: the template does not take this conversation.
            RenderLimitError: it is too slow or too large.
            TemplateError: it fails in another way.
        """
        with self._lock:
            return self._render(messages, add_generation_prompt, tools)

    def _render(self, messages: Sequence[Message], add_generation_prompt: bool, tools: Sequence[Tool]) -> Segments:
        budget = Budget(sum(map(_num_characters, messages)) + sum(map(_num_characters, tools)))
        self._environment.budget = budget
        variables = {
            **{name: list(value) if isinstance(value, list) else value for name, value in self.variables.items()},
            **(self._offered(tools) if tools else {}),
            "messages": [self._variables_of(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
        }
        parts: list[str] = []
        length = 0
        try:
            for part in self._template.root_render_func(self._template.new_context(variables)):
                budget.tick()
                length += len(part)
                budget.reserve_text(length)
                parts.append(part)
        except TemplateError:
            raise
        except SecurityError as error:
            raise TemplateError(f"the chat template does what it may not: {describe(error)}") from error
        except (Exception, RecursionError) as error:  # running foreign code: anything may come
            raise TemplateError(f"the chat template fails: {describe(error)}") from error
        return segments_of("".join(parts))

    def _offered(self, tools: Sequence[Tool]) -> dict[str, Any]:
        """The variables that tell of tools; a few templates want them as JSON text under another name."""
        listed = tool_variables(tools, self.describes_parameters)
        return {"tools": listed, "functions": to_json([tool["function"] for tool in listed], indent=4)}

    def _variables_of(self, message: Message) -> dict[str, Any]:
        content: Any = conceal(message.content)
        if self.uses_parts:
            content = [{"type": "text", "text": content}]
        variables: dict[str, Any] = {"role": message.role.value, "content": content}
        if message.role is Role.ASSISTANT and message.reasoning:
            reasoning = conceal(message.reasoning)
            # Families disagree on the name.
            variables |= {"reasoning_content": reasoning, "reasoning": reasoning, "thinking": reasoning}
        return variables | call_variables(message, self.tool_style)


def _num_characters(item: Message | Tool) -> int:
    if isinstance(item, Tool):
        return len(item.name) + len(item.description) + len(item.parameters)
    calls = sum(len(call.name) + len(call.arguments) + len(call.call_id) for call in item.tool_calls)
    return len(item.content) + len(item.reasoning) + calls


def describe(error: BaseException) -> str:
    """An exception in a few words, on one line."""
    words = " ".join(str(error).split())[:200]
    return words or type(error).__name__


__all__ = ["CompiledTemplate", "RenderLimitError", "RenderedPrompt", "Segments", "TemplateRefusedError", "describe"]
