"""A request that failed, as an event."""

from __future__ import annotations

from engine.errors import ContextOverflowError, sentence_of
from engine.protocol import ContextOverflow, RequestFailed


def failed(request_id: str, error: BaseException) -> RequestFailed:
    """The event for an error, with what the request needs where it does not fit into the context."""
    overflow = None
    if isinstance(error, ContextOverflowError):
        counts = error.num_tokens, error.is_least, error.context_length
        overflow = ContextOverflow(*counts, error.can_drop_turns)
    return RequestFailed(request_id, sentence_of(error), overflow)
