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
OPENED = "This model wants the person to speak first, so an empty message was put in front of the conversation."


def tellings(messages: Sequence[Message]) -> Iterator[Mended]:
    """The conversation as it is, then mended more and more; each with the notices for it."""
    told = tuple(messages)
    notices: tuple[str, ...] = ()
    yield told, notices
    merged = merge_turns(told)
    if merged != told:
        yield merged, (MERGED,)
    folded = fold_system(told)
    if folded != told:
        yield folded, (FOLDED,)
    both = merge_turns(folded)
    notices = ((FOLDED,) if folded != told else ()) + ((MERGED,) if both != folded else ())
    if both not in (merged, folded, told):
        yield both, notices
    if both and both[0].role is Role.ASSISTANT:
        yield (Message(Role.USER, ""), *both), (*notices, OPENED)


def merge_turns(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Neighbouring messages of one role as one, a blank line between their texts."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role is message.role:
            before = merged.pop()
            message = replace(
                message,
                content="\n\n".join(filter(None, (before.content, message.content))),
                reasoning="\n\n".join(filter(None, (before.reasoning, message.reasoning))),
            )
        merged.append(message)
    return tuple(merged)


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
