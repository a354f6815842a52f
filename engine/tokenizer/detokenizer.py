"""Text from a stream of tokens, never half a character."""

from __future__ import annotations

import codecs
from collections.abc import Collection

from engine.tokenizer.tokenizer import Tokenizer


class StreamingDetokenizer:
    """Turns tokens into text one by one; all pieces together equal ``Tokenizer.decode`` of all tokens.

    Bytes of a character that is not complete are held until it is; ``flush`` gives what is left of it as U+FFFD.
    """

    def __init__(
        self, tokenizer: Tokenizer, shown_control_ids: Collection[int] = (), continues_text: bool = False
    ) -> None:
        """Control tokens are hidden, except ``shown_control_ids`` (the markers that separate channels).

        With ``continues_text`` the tokens follow a text, so that the space in front of the first is kept.
        """
        self._tokenizer = tokenizer
        self._shown = frozenset(shown_control_ids)
        self._drops_space = tokenizer.add_space_prefix and not continues_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The text that became complete with this token; may be empty."""
        if self._tokenizer.is_control(token_id) and token_id not in self._shown:
            return ""
        data = self._tokenizer.token_bytes(token_id)
        if self._drops_space and data:
            self._drops_space = False
            data = data[1:] if data.startswith(b" ") else data
        return self._decoder.decode(data)

    def text_of(self, token_id: int) -> str:
        """One token's text on its own, control tokens included; bytes that are no whole character are U+FFFD."""
        return self._tokenizer.token_bytes(token_id).decode("utf-8", "replace")

    def flush(self) -> str:
        """What is held back, at the end of a generation: U+FFFD for an incomplete character, else nothing."""
        return self._decoder.decode(b"", final=True)
