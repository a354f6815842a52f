"""Whose turn it is, what happens to a conversation that outgrows the context, and why something was read again."""

from __future__ import annotations

from enum import Enum, IntEnum


class RereadReason(str, Enum):
    """Why a request read what it read."""

    NOTHING = "nothing"  # only what was new in the conversation was read
    FIRST_TIME = "first_time"  # nothing of the conversation had been read
    CHANGED = "changed"  # the prompt goes on differently than what was read: an edit, another branch
    EVICTED = "evicted"  # other conversations needed the memory
    RELOADED = "reloaded"  # the model was loaded anew, or another one, or with other settings
    DAMAGED = "damaged"  # its snapshot on the disk was damaged
    CONTEXT_SHIFTED = "context_shifted"  # the oldest turns left the context


class ContextPolicy(str, Enum):
    """What happens when a conversation outgrows the context; a single message that cannot fit is refused always."""

    # A prompt that leaves no room is refused with ``ContextOverflow``, so that the person can be asked; an answer
    # that fills the context ends with ``FinishReason.CONTEXT``, and its figures say how long everything is.
    STOP = "stop"
    KEEP_RECENT = "keep_recent"  # the oldest turns leave, the system prompt stays; ``ContextShifted`` says which


class Priority(IntEnum):
    """Whose request is computed first."""

    BACKGROUND = 0  # only while nothing else is to be computed
    NORMAL = 1
    VISIBLE = 2  # the person is looking at it
