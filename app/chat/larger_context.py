"""The way out of a full context: the model loaded again with a larger one, and what that costs, said before."""

from __future__ import annotations

from app.chat.figures import count, seconds, size
from app.translation import tr
from engine.plain_data import dataclass
from engine.protocol import ModelInfo

_ROOM_TOKENS = 256
"""What is left for an answer at the least where a message alone has outgrown the context."""


@dataclass(frozen=True)
class LargerContext:
    """What loading the model again would bring and cost.

    Attributes:
        context_length: tokens of one conversation at most.
        more_bytes: that the KV cache takes in addition when it is full; 0 when it has the room already.
        free_bytes: memory that is free now.
        load_ms: how long the last load took; 0 unknown.
        read_ms: how long reading a chat takes that fills the context of now; 0 unknown.
    """

    context_length: int
    more_bytes: int
    free_bytes: int
    load_ms: float = 0.0
    read_ms: float = 0.0

    @property
    def sentence(self) -> str:
        """All of it, for a person who is to decide."""
        parts = [tr("With a context of {count} tokens this chat can go on.", count=count(self.context_length))]
        if self.more_bytes:
            parts.append(tr("Up to {size} of memory are taken in addition.", size=size(self.more_bytes)))
        else:
            parts.append(tr("It needs no more memory than is set aside already."))
        if self.more_bytes > self.free_bytes:
            parts.append(tr("Only {size} are free now.", size=size(self.free_bytes)))
        if self.load_ms and self.read_ms:
            time = seconds(self.load_ms + self.read_ms)
            parts.append(tr("Loading the model and reading the chat again takes about {time}.", time=time))
        else:
            parts.append(tr("The model is loaded and the chat read again."))
        return " ".join(parts)


def larger_context(
    info: ModelInfo, free_bytes: int, num_wanted: int = 0, load_s: float = 0.0, reading_rate: float = 0.0
) -> LargerContext | None:
    """The next larger context that has room for ``num_wanted`` tokens; None where the model knows none.

    ``reading_rate`` is in tokens a second; 0, as for ``load_s``, is unknown.
    """
    length = info.context_length
    while length <= info.context_length or length < num_wanted + _ROOM_TOKENS:
        if length >= info.trained_context_length:
            return None
        length = min(2 * length, info.trained_context_length)
    token_bytes = info.kv_bytes / info.num_kv_tokens if info.num_kv_tokens else 0.0
    more_bytes = round(max(0, length - info.num_kv_tokens) * token_bytes)
    read_ms = info.context_length / reading_rate * 1000 if reading_rate else 0.0
    return LargerContext(length, more_bytes, free_bytes, load_s * 1000, read_ms)
