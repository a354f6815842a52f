"""Where the answer begins, for models that think first: the answer is constrained, the thinking is not.

A gate is closed while the model thinks. It opens with the marker that ends the thinking, or with the header of the
answer's part in families that write headers. A model that may think but has not begun to may open its thinking or
begin the answer.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.chat.channel_markers import Channels, HeaderMarkers
from engine.errors import GenerationError
from engine.protocol import Channel

_KEPT = 400  # characters in which a marker is looked for


class AnswerGate:
    """Follows a completion up to its answer.

    Attributes:
        is_open: the answer has begun, or the next token may begin it.
        opening_ids: tokens that may begin the thinking now, beside those of the answer.
    """

    def __init__(
        self,
        channels: Channels,
        template: str,
        opens_reasoning: bool,
        token_id: Callable[[str], int | None],
        token_bytes: Callable[[int], bytes],
    ) -> None:
        """``template`` is the model's own; ``opens_reasoning`` where the prompt ends inside the thinking."""
        rows = [row for row in channels.markers if row.channel is Channel.REASONING]
        openings = {token_id(row.opening): row.closing for row in rows if row.opening in template}
        self._token_bytes = token_bytes
        self._header = channels.header
        self._closings = tuple(row.closing for row in rows)
        self._openings = {found: closing for found, closing in openings.items() if found is not None}
        self._text = ""
        self.is_open = not opens_reasoning and self._header is None
        self.opening_ids = frozenset(self._openings) if self.is_open else frozenset()

    def push(self, token_id: int) -> None:
        """Take up a token that came while the gate was closed, or that began the answer or the thinking.

        Raises GenerationError where the answer begins within the token that ends the thinking: it was not
        constrained.
        """
        if self.is_open:
            if token_id in self.opening_ids:
                self.is_open = False
                self._closings = (self._openings[token_id],)
            self.opening_ids = frozenset()
            return
        self._text = (self._text + self._token_bytes(token_id).decode("utf-8", "replace"))[-_KEPT:]
        end = self._end_of_header(self._header) if self._header is not None else self._end_of_thinking()
        if end is None:
            return
        self.is_open = True
        if self._text[end:].strip():
            raise GenerationError("The model ended its thinking in mid-token, so its answer cannot be constrained.")

    def _end_of_thinking(self) -> int | None:
        ends = [self._text.find(closing) + len(closing) for closing in self._closings if closing in self._text]
        return min(ends) if ends else None

    def _end_of_header(self, header: HeaderMarkers) -> int | None:
        """Position after the header of the answer's part, where that has come."""
        before, found, _ = self._text.rpartition(header.end)
        if not found:
            return None
        words = max((before.rpartition(start)[2] for start in header.starts), key=lambda text: -len(text))
        if header.callee.search(words) or any(word in words for word in header.reasoning_words):
            return None
        return len(before) + len(found)
