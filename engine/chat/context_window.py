"""Which messages of a conversation that has outgrown the context are still read.

The system prompt and the newest turns stay; whole turns leave, the oldest first, and when some must, so many that a
quarter of the context is free again. Then the beginning stays the same for many turns, and what is read of it stays
in the KV cache. Where the cuts fall depends on the messages alone: a conversation is cut at the same places in each
of its turns, after a restart, and in each of its branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.protocol import Message, Role

ANSWER_SHARE = 8  # one part in so many is left for the answer
KEPT_SHARE = 0.75  # of what prompts may fill, that is left when turns leave
TEMPLATE_TOKENS = 8  # that a template adds to a message, about


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Indices at which turns begin: the user's messages after the system prompt, and the first message after it."""
    first = next((i for i, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    later = [i for i in range(first + 1, len(messages)) if messages[i].role is Role.USER]
    return [first, *later] if first < len(messages) else []


def without(messages: Sequence[Message], dropped: range) -> tuple[Message, ...]:
    """The messages whose indices are not in ``dropped``."""
    return (*messages[: dropped.start], *messages[dropped.stop :])


def dropped_messages(
    messages: Sequence[Message],
    count_tokens: Callable[[str], int],
    context_length: int,
    num_answer_tokens: int = 0,
) -> range:
    """Indices of the messages that leave the context, empty where all fit.

    Args:
        messages: a whole conversation.
        count_tokens: tokens of a text.
        context_length: tokens that prompt and answer may take together.
        num_answer_tokens: of an answer to the last message that is being written and needs its room, too.
    """
    starts = turn_starts(messages)
    if not starts:
        return range(0)
    sizes = [count_tokens(each.content) + count_tokens(each.reasoning) + TEMPLATE_TOKENS for each in messages]
    sizes[-1] += num_answer_tokens
    limit = context_length - context_length // ANSWER_SHARE
    num_system = sum(sizes[: starts[0]])
    cut = 0
    for turn, start in enumerate(starts):  # as the conversation grew, request by request
        end = len(messages) if turn == len(starts) - 1 else start + 1
        if num_system + sum(sizes[starts[cut] : end]) <= limit:
            continue
        while cut < turn and num_system + sum(sizes[starts[cut] : end]) > KEPT_SHARE * limit:
            cut += 1
    return range(starts[0], starts[cut])
