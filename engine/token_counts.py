"""How many tokens a text has, for somebody who is still writing it: the newest text alone is counted.

A long text is counted in pieces. A count that a newer one takes the place of ends with the piece it is at, and of a
text that grew at its end the last piece alone is new to the tokenizer, which remembers the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from engine.errors import sentence_of
from engine.protocol import CountTokens, Event, RequestFailed, TokensCounted
from engine.request import NO_MODEL
from engine.request_desk import InBackground

if TYPE_CHECKING:
    from engine.loader import LoadedModel

PIECE_CHARACTERS = 32_768
_LINE = re.compile(r"(?<=[^\W_]\n)(?=[^\W\d_])")
_WORD = re.compile(r"(?<=[^\W\d_])(?= [^\W\d_])")
"""Where no vocabulary's token goes across: between two lines, and before the space between two words."""


class TokenCounts:
    """Answers ``CountTokens``, the newest alone.

    ``in_background`` should be a thread that nobody waits for.
    """

    def __init__(self, emit: Callable[[Event], None], in_background: InBackground) -> None:
        self._emit = emit
        self._in_background = in_background
        self._newest: CountTokens | None = None

    def count(self, command: CountTokens, model: LoadedModel | None) -> None:
        """Count, and answer unless another command comes before that."""
        self._newest = command
        if model is None:
            self._emit(RequestFailed(command.request_id, NO_MODEL))
            return

        def answer(counted: Future[int | None]) -> None:
            try:
                number = counted.result()
            except Exception as error:
                self._emit(RequestFailed(command.request_id, sentence_of(error)))
                return
            if number is not None and self._newest is command:
                self._emit(TokensCounted(command.request_id, number))

        self._in_background(lambda: self._number(command, model), answer)

    def stop(self) -> None:
        """Nobody wants to know anything any more."""
        self._newest = None

    def _number(self, command: CountTokens, model: LoadedModel) -> int | None:
        """The number of tokens; None where nobody wants to know it any more."""
        number = 0
        for piece in pieces(command.text):
            if self._newest is not command:
                return None
            number += len(
                model.tokenizer.encode_continuation(piece) if number else model.tokenizer.encode(piece),
            )
        return number


def pieces(text: str, size: int = PIECE_CHARACTERS) -> Iterator[str]:
    """``text`` in pieces of at most ``size`` characters whose tokens together are those of the text.

    But where half a piece has neither two lines nor two words: there a token may be one too many.
    """
    start = 0
    while len(text) - start > size:
        half = start + size // 2
        ends = [match.start() for match in _LINE.finditer(text, half, start + size)] or [
            match.start() for match in _WORD.finditer(text, half, start + size)
        ]
        end = ends[-1] if ends else start + size
        yield text[start:end]
        start = end
    yield text[start:]
