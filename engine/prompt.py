"""Messages to prompt tokens that fit into the context, under the policy of the request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import ContextOverflowError
from engine.protocol import ContextPolicy, Message, Role, Tool

if TYPE_CHECKING:
    from engine.chat import RenderedPrompt
    from engine.loader import LoadedModel


@dataclass(frozen=True)
class Prompt:
    """A rendered and tokenized conversation.

    Attributes:
        token_ids: of the prompt.
        rendered: what they are tokens of.
        dropped: indices of the messages that have left the context.
    """

    token_ids: list[int]
    rendered: RenderedPrompt
    dropped: range = range(0)


def make_prompt(
    model: LoadedModel,
    messages: Sequence[Message],
    policy: ContextPolicy,
    tools: Sequence[Tool] = (),
    num_answer_tokens: int = 0,
) -> Prompt:
    """The prompt for ``messages``; what does not fit is dropped where the policy says so.

    With ``num_answer_tokens`` an answer that long is being written and goes on behind the prompt. The result may be
    a little longer than the context.

    Raises TemplateError where no template can render the messages, ContextOverflowError for what is far too long.
    """
    from engine.chat.context_window import dropped_messages, turn_starts, without

    tokenizer, context_length = model.tokenizer, model.info.context_length

    def make(dropped: range) -> Prompt:
        kept = without(messages, dropped)
        rendered = model.template.render(kept, continue_last=kept[-1].role is Role.ASSISTANT, tools=tools)
        return Prompt(encode(model, rendered.segments), rendered, dropped)

    def count_tokens(text: str) -> int:
        least = tokenizer.least_num_tokens([text])
        return least if least >= context_length else len(tokenizer.encode(text))

    if policy is not ContextPolicy.KEEP_RECENT:
        return make(range(0))
    dropped = dropped_messages(messages, count_tokens, context_length, num_answer_tokens)
    starts = [start for start in turn_starts(messages) if start > dropped.stop]
    while True:  # a count may have been a little short, and then one turn more has to go
        try:
            prompt = make(dropped)
            if not starts or len(prompt.token_ids) + num_answer_tokens < context_length:
                return prompt
        except ContextOverflowError:
            if not starts:
                raise
        dropped = range(dropped.start or turn_starts(messages)[0], starts.pop(0))


def make_fitting_prompt(
    model: LoadedModel, messages: Sequence[Message], policy: ContextPolicy, tools: Sequence[Tool] = ()
) -> Prompt:
    """As ``make_prompt``, with room for an answer.

    Raises ContextOverflowError where there is none, and says whether dropping turns would make some.
    """
    try:
        prompt = make_prompt(model, messages, policy, tools)
        if len(prompt.token_ids) < model.info.context_length:
            return prompt
        raise ContextOverflowError(len(prompt.token_ids) + 1, model.info.context_length)
    except ContextOverflowError as error:
        if policy is ContextPolicy.KEEP_RECENT or not _fits_without_turns(model, messages, tools):
            raise
        raise ContextOverflowError(
            error.num_tokens, error.context_length, error.is_least, can_drop_turns=True
        ) from None


def _fits_without_turns(model: LoadedModel, messages: Sequence[Message], tools: Sequence[Tool]) -> bool:
    try:
        make_fitting_prompt(model, messages, ContextPolicy.KEEP_RECENT, tools)
    except ContextOverflowError:
        return False
    return True


def encode(model: LoadedModel, segments: Sequence[tuple[str, bool]]) -> list[int]:
    """Tokens of a prompt; one that cannot fit is refused by its length, before it is tokenized for seconds."""
    num_least = model.tokenizer.least_num_tokens(text for text, _ in segments)
    if num_least >= model.info.context_length:
        raise ContextOverflowError(num_least, model.info.context_length, is_least=True)
    return model.tokenizer.encode_prompt(segments)


def stable_prefix(
    model: LoadedModel, messages: Sequence[Message], policy: ContextPolicy, tools: Sequence[Tool] = ()
) -> list[int]:
    """The tokens that a prompt keeps while its last message, a draft, is still being written on."""
    from engine.scheduler.scheduler import num_common_tokens

    *before, draft = messages
    now = make_prompt(model, messages, policy, tools).token_ids
    longer = Message(draft.role, draft.content + "\n\nand more")
    return now[: num_common_tokens(now, make_prompt(model, [*before, longer], policy, tools).token_ids)]
