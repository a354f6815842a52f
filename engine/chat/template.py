"""The chat template of a model: conversations in, prompts out.

The file's own template is used where it works. Where it is missing, broken, hostile or too slow a built-in format
takes its place, and where it refuses a conversation the conversation is told in another way; both are said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Final

from engine.chat.builtin import choose_format
from engine.chat.channel_markers import MARKERS, Channels, choose_channels, opens_header, opens_reasoning
from engine.chat.channels import ChannelSplitter
from engine.chat.mending import FOLDED, tellings
from engine.chat.rendering import CompiledTemplate, RenderedPrompt, RenderLimitError, Segments, TemplateRefusedError
from engine.chat.tool_support import find_support, fit_tools
from engine.errors import MetadataError, TemplateError
from engine.gguf import Metadata
from engine.protocol import Message, Role, Tool
from engine.tokenizer import Tokenizer
from engine.tokenizer.tokenizer import TEMPLATE_KEY

_PROBE: Final = "Fireside-probe"
_SYSTEM_PROBE: Final = "Fireside-system-probe"
# What templates made for calling functions ask for, where there are none.
_NO_TOOLS: Final = {"tools": [], "documents": [], "functions": "[]", "datetime": "now"}


class ChatTemplate:
    """Renders conversations for one model.

    Attributes:
        source: the template in use.
        is_builtin: it is one of ours, not the file's.
        notice: what a person should know about it, or None.
        channels: how the model marks reasoning and tool calls.
        shown_control_ids: control tokens that ``ChannelSplitter`` must see, for ``StreamingDetokenizer``.
    """

    def __init__(
        self, template: CompiledTemplate | None, fallback: Callable[[], CompiledTemplate], notice: str | None
    ) -> None:
        """``template`` is the file's, or None; ``fallback`` makes the built-in one, for when it must take over."""
        self.is_builtin = template is None
        template = template or fallback()
        self.source = template.source
        self.notice = notice
        self.channels: Channels = choose_channels(template.source)
        self.shown_control_ids: frozenset[int] = frozenset()
        self._template = template
        self._fallback = fallback

    def new_splitter(self, prompt: RenderedPrompt, tools: Sequence[Tool] = ()) -> ChannelSplitter:
        """Splits the answer to a prompt of this template into channels; ``tools`` are those it offered."""
        end, is_scaffolding = prompt.segments[-1] if prompt.segments else ("", True)
        is_in_header = is_scaffolding and not prompt.opens_reasoning and opens_header(end, self.channels)
        return ChannelSplitter(prompt.opens_reasoning, self.channels, opens_header=is_in_header, tools=tools)

    def render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        continue_last: bool = False,
        tools: Sequence[Tool] = (),
    ) -> RenderedPrompt:
        """The prompt for ``messages``.

        Args:
            messages: the conversation.
            add_generation_prompt: end with the opening of the assistant's turn.
            continue_last: the last message is an answer that was cut off: end inside it, so that the model goes on.
            tools: what the model may call.

        Raises:
            InvalidParameterError: the parameters of a tool are no JSON Schema.
            TemplateError: not even the built-in format can render this, or there is nothing to render.
        """
        if not messages:
            raise TemplateError("There is no message to answer; write one.")
        if continue_last and messages[-1].role is Role.ASSISTANT:
            return self._continuation(messages, tools)
        prompt = self._render(messages, add_generation_prompt, tools)
        end, is_scaffolding = prompt.segments[-1] if prompt.segments else ("", True)
        return replace(prompt, opens_reasoning=add_generation_prompt and is_scaffolding and opens_reasoning(end))

    def _render(
        self, messages: Sequence[Message], add_generation_prompt: bool, tools: Sequence[Tool]
    ) -> RenderedPrompt:
        try:
            return _render_with_tools(self._template, messages, add_generation_prompt, tools)
        except TemplateError as error:
            if self.is_builtin:
                raise
            prompt = _render_with_tools(self._fallback(), messages, add_generation_prompt, tools)
            notice = f"A built-in chat format was used, because {_cause(error)}."
            return replace(prompt, notices=(*prompt.notices, notice))

    def _continuation(self, messages: Sequence[Message], tools: Sequence[Tool]) -> RenderedPrompt:
        """A prompt that ends inside the last message, an answer."""
        last = messages[-1]
        if last.content.strip():
            prompt = self._render(messages, add_generation_prompt=False, tools=tools)
            cut = _cut_after(prompt.segments, last.content)
            if cut is not None:
                return replace(prompt, segments=cut)
        opened = self.render(messages[:-1], tools=tools) if len(messages) > 1 else RenderedPrompt(())
        segments = list(opened.segments)
        is_thinking = bool(last.reasoning) and not last.content.strip()
        if last.reasoning:
            row = next((row for row in MARKERS if row.opening in self.source), MARKERS[0])
            if not opened.opens_reasoning:
                segments.append((row.opening + "\n", True))
            segments.append((last.reasoning, False))
            if not is_thinking:
                segments.append((f"\n{row.closing}\n\n", True))
        segments.append((last.content, False))
        return replace(
            opened, segments=tuple(segment for segment in segments if segment[0]), opens_reasoning=is_thinking
        )


def _render_with_tools(
    template: CompiledTemplate, messages: Sequence[Message], add_generation_prompt: bool, tools: Sequence[Tool]
) -> RenderedPrompt:
    """The prompt, what the template does not know of tools told in words."""
    if not tools and all(message.role is not Role.TOOL and not message.tool_calls for message in messages):
        return _render_mended(template, messages, add_generation_prompt)
    if template.tool_support is None:
        template.tool_support = find_support(template)
    told, offered, notices = fit_tools(template.tool_support, messages, tools)
    prompt = _render_mended(template, told, add_generation_prompt, offered)
    return replace(prompt, notices=(*notices, *prompt.notices))


def _render_mended(
    template: CompiledTemplate,
    messages: Sequence[Message],
    add_generation_prompt: bool,
    tools: Sequence[Tool] = (),
) -> RenderedPrompt:
    """The prompt of the first telling that the template takes whole.

    Raises TemplateError of the first telling where it takes none.
    """
    first_error: TemplateError | None = None
    incomplete: RenderedPrompt | None = None
    for told, notices in tellings(messages):
        if not template.keeps_system and any(message.role is Role.SYSTEM for message in told):
            continue
        try:
            segments = template.render(told, add_generation_prompt, tools)
        except RenderLimitError:
            raise
        except TemplateError as error:
            first_error = first_error or error
            continue
        prompt = RenderedPrompt(_merged(segments), notices=notices)
        if _has_all(prompt, told):
            return prompt
        incomplete = incomplete or prompt
    if incomplete is not None:
        return incomplete
    assert first_error is not None, "there is at least one telling"
    raise first_error


def _merged(segments: Segments) -> tuple[tuple[str, bool], ...]:
    """``segments`` without empty ones, neighbours of a kind joined."""
    merged: list[tuple[str, bool]] = []
    for text, is_scaffolding in segments:
        if merged and merged[-1][1] is is_scaffolding:
            merged[-1] = (merged[-1][0] + text, is_scaffolding)
        elif text:
            merged.append((text, is_scaffolding))
    return tuple(merged)


def _has_all(prompt: RenderedPrompt, messages: Sequence[Message]) -> bool:
    """Whether the system prompt and the last message of the person are in the prompt.

    Templates may change a text (trim lines, replace words), so most of its words will do.
    """
    content = "".join(text for text, is_scaffolding in prompt.segments if not is_scaffolding)
    wanted = [message for message in messages if message.role is Role.SYSTEM]
    wanted += [message for message in messages if message.role is Role.USER][-1:]
    return all(message.content.strip() in content or _has_most(content, message.content) for message in wanted)


def _has_most(content: str, text: str) -> bool:
    """Whether nine of ten words of ``text`` are in ``content``."""
    words = set(text.split())
    return sum(word in content for word in words) >= 0.9 * len(words)


def _cut_after(segments: tuple[tuple[str, bool], ...], content: str) -> tuple[tuple[str, bool], ...] | None:
    """``segments`` up to the end of ``content``, their last content; None where it is not there whole."""
    last = max((number for number, segment in enumerate(segments) if not segment[1]), default=-1)
    if last < 0 or not segments[last][0].rstrip().endswith(content.strip()):
        return None
    kept = segments[last][0].rstrip()
    return (*segments[:last], (kept + content[len(content.rstrip()) :], False))


def _cause(error: TemplateError) -> str:
    """Why a template was not used, as the end of a sentence."""
    text = str(error).rstrip(".")
    if isinstance(error, TemplateRefusedError):
        return f"the chat template of the file refused the conversation ({text})"
    return text[:1].lower() + text[1:]


# ---------------------------------------------------------------------------------------------- loading


def load_template(metadata: Metadata, tokenizer: Tokenizer, name: str | None = None) -> ChatTemplate:
    """The chat template of a file; never raises for a bad one, but falls back and says so in ``notice``.

    ``name`` chooses one of the file's named templates (``tool_use``, ``rag``) instead of the default one.
    """
    special_texts = {
        f"{kind}_token": "" if token_id is None else tokenizer.token_text(token_id)
        for kind, token_id in (("bos", tokenizer.bos_id), ("eos", tokenizer.eos_id))
    }
    builtin = choose_format(lambda text: tokenizer.token_id(text) is not None)
    fallback = cache(lambda: CompiledTemplate(builtin.source, special_texts))
    try:
        source = _read_source(metadata, name)
        if source is None:
            cause = "the file holds no chat template"
        else:
            template = CompiledTemplate(source, special_texts)
            scaffolding = _try_out(template)
            tokenizer.protect_markers(scaffolding)
            return _finish(ChatTemplate(template, fallback, None), tokenizer)
    except TemplateError as error:
        cause = _cause(error)
    except MetadataError as error:
        cause = f"the chat template of the file cannot be read ({error})"
    tokenizer.protect_markers(builtin.source)
    notice = f"The built-in chat format {builtin.name!r} is used, because {cause}."
    return _finish(ChatTemplate(None, fallback, notice), tokenizer)


def _finish(template: ChatTemplate, tokenizer: Tokenizer) -> ChatTemplate:
    ids = (tokenizer.token_id(text) for text in template.channels.texts())
    template.shown_control_ids = frozenset(
        token_id for token_id in ids if token_id is not None and tokenizer.is_control(token_id)
    )
    return template


def _read_source(metadata: Metadata, name: str | None) -> str | None:
    """The template's text: the named one, else the default, else the first that the file names."""
    keys = [f"{TEMPLATE_KEY}.{name}"] if name is not None else []
    keys += [TEMPLATE_KEY, *(key for key in metadata if key.startswith(TEMPLATE_KEY + "."))]
    for key in keys:
        if key in metadata:
            source = metadata.string(key)
            if source.strip():
                return source
    return None


def _try_out(template: CompiledTemplate) -> str:
    """Render short conversations; returns what the template wrote itself.

    Learns how content is handed over, what stands for absent tools, and whether a system prompt is kept. Raises
    TemplateError where the simplest conversation cannot be rendered in any way.
    """
    question = Message(Role.USER, _PROBE)
    first_error: TemplateError | None = None
    seen = template.variables
    for template.uses_parts, variables in product((False, True), ({}, _NO_TOOLS)):
        template.variables = seen | variables
        try:
            written = [_render_mended(template, [question], add_generation_prompt=True)]
        except RenderLimitError:
            raise
        except TemplateError as error:
            first_error = first_error or error
            continue
        if _has_all(written[0], [question]):
            break
    else:
        raise first_error or TemplateError("the chat template of the file leaves out what people write")
    system = Message(Role.SYSTEM, _SYSTEM_PROBE)
    for longer in ([system, question], [system, question, Message(Role.ASSISTANT, _PROBE, _PROBE), question]):
        try:
            written.append(_render_mended(template, longer, add_generation_prompt=True))
            template.keeps_system = template.keeps_system and FOLDED not in written[-1].notices
        except RenderLimitError:
            raise
        except TemplateError:
            pass  # it is mended, or replaced, for each conversation anew
    return "".join(text for prompt in written for text, is_scaffolding in prompt.segments if is_scaffolding)
