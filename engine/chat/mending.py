"""Ways to tell a conversation so that a strict template takes it, without losing anything.

Some templates refuse a system prompt, or two turns of one role in a row (as after a stopped answer), or leave the
system prompt out without a word. The conversation that the person sees is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.protocol import Message, Role

Mended = tuple[tuple[Message, ...], tuple[str, ...]]

FOLDED = (
    "This model has no place for a system prompt, so it was put in front of the first message; "
    "the model may follow it less strictly."
)
MERGED = "This model wants turns to alternate, so neighbouring messages of one side were read as one."
SPLIT = "This model makes one call of a tool at a time, so calls made together were read one after the other."
OPENED = "This model wants the person to speak first, so an empty message was put in front of the conversation."


def tellings(messages: Sequence[Message]) -> Iterator[Mended]:
    """The conversation as it is, then mended more and more; each with the notices for it."""
    told = tuple(messages)
    notices: tuple[str, ...] = ()
    yield told, notices
    split = split_calls(told)
    if split != told:
        yield split, (SPLIT,)
        told, notices = split, (SPLIT,)
    merged = merge_turns(told)
    if merged != told:
        yield merged, (*notices, MERGED)
    folded = fold_system(told)
    if folded != told:
        yield folded, (*notices, FOLDED)
    both = merge_turns(folded)
    notices += ((FOLDED,) if folded != told else ()) + ((MERGED,) if both != folded else ())
    if both not in (merged, folded, told):
        yield both, notices
    if both and both[0].role is Role.ASSISTANT:
        yield (Message(Role.USER, ""), *both), (*notices, OPENED)


def merge_turns(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Neighbouring messages of one role as one, a blank line between their texts."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role is message.role and message.role is not Role.TOOL:
            before = merged.pop()
            message = replace(
                message,
                content="\n\n".join(filter(None, (before.content, message.content))),
                reasoning="\n\n".join(filter(None, (before.reasoning, message.reasoning))),
                tool_calls=(*before.tool_calls, *message.tool_calls),
            )
        merged.append(message)
    return tuple(merged)


def split_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Each call in a message of its own, followed by its result; beside a text, calls without their reasoning."""
    results = {message.call_id: message for message in messages if message.role is Role.TOOL and message.call_id}
    split: list[Message] = []
    moved: set[str] = set()
    for message in messages:
        if message.role is Role.TOOL and message.call_id in moved:
            continue
        if not message.tool_calls:
            split.append(message)
            continue
        first, *others = message.tool_calls
        reasoning = "" if message.content else message.reasoning
        split.append(replace(message, reasoning=reasoning, tool_calls=(first,)))
        for call in others:
            before = results.get(split[-1].tool_calls[0].call_id)
            if before is not None and before.call_id not in moved:
                split.append(before)
                moved.add(before.call_id)
            split.append(Message(Role.ASSISTANT, "", tool_calls=(call,)))
    return tuple(split)


def fold_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """System prompts in front of the next message of the person, or as such a message where none follows."""
    folded: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if message.role is Role.SYSTEM:
            waiting.append(message.content)
            continue
        if waiting and message.role is Role.USER:
            message = replace(message, content="\n".join(filter(None, (*waiting, message.content))))
            waiting = []
        folded.append(message)
    if waiting:
        folded.append(Message(Role.USER, "\n".join(waiting)))
    return tuple(folded)
