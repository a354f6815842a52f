"""What a token stands for, as numbers that a kernel reads: how the text of each is taken."""

from __future__ import annotations

from typing import Final

NOTHING: Final = 0
AS_IT_IS: Final = 1
ALPHABET: Final = 2  # in the alphabet of byte-level BPE
SPACED: Final = 3  # with U+2581 for each space
BYTE: Final = 4  # one byte, from BYTE_SHIFT up
BYTE_SHIFT: Final = 8
MARKED: Final = 8  # beside one of these: with 0xFF before it
