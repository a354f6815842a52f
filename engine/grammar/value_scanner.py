"""Which tokens of a JSON text carry a value, while it is written: the others need no logits of their own."""

from __future__ import annotations

from typing import Final

_NUMBER: Final = frozenset(b"-+.eE0123456789")
_STARTS_NUMBER: Final = frozenset(b"-0123456789")
_STRUCTURE: Final = frozenset(b"{}[],: \t\r\n")
_QUOTE, _ESCAPE = ord('"'), ord("\\")


class ValueScanner:
    """Follows a JSON text byte by byte.

    What carries a value is what ``certainty`` counts: of a string what is between the quotes and the closing one,
    of a number also the character after it, of other scalars everything; nothing of names and punctuation.
    """

    def __init__(self) -> None:
        self._closers: list[int] = []  # of the objects and arrays that are open
        self._is_name_due = False
        self._is_in_string = self._is_name = self._is_escaped = False
        self._is_in_number = False

    def feed(self, data: bytes) -> bool:
        """Go on by a token's bytes; whether any of them carries a value."""
        num_carrying = sum(self._take(byte) for byte in data)  # every byte moves the state
        return num_carrying > 0

    def _take(self, byte: int) -> bool:
        if self._is_in_string:
            if self._is_escaped:
                self._is_escaped = False
            elif byte == _ESCAPE:
                self._is_escaped = True
            elif byte == _QUOTE:
                self._is_in_string = False
            return not self._is_name
        was_in_number = self._is_in_number
        self._is_in_number = byte in _NUMBER if was_in_number else byte in _STARTS_NUMBER
        if byte == _QUOTE:
            self._is_in_string, self._is_name = True, self._is_name_due
        elif byte in b"{[":
            self._closers.append(byte)
            self._is_name_due = byte == ord("{")
        elif byte in b"}]":
            del self._closers[-1:]
        elif byte == ord(","):
            self._is_name_due = self._closers[-1:] == [ord("{")]
        elif byte == ord(":"):
            self._is_name_due = False
        return was_in_number or (byte != _QUOTE and byte not in _STRUCTURE)
