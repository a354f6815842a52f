"""The alphabet of byte-level BPE: every byte as one printable character (Radford et al., GPT-2, 2019)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt


def alphabet() -> dict[int, str]:
    """Character by byte: printable Latin-1 stands for itself, the others for U+0100 and up, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


_TO_LATIN1: Final = {ord(character): byte for byte, character in alphabet().items()}


def byte_by_character() -> npt.NDArray[np.int16]:
    """(0x144,) int16: the byte that each character of the alphabet stands for, -1 for other characters."""
    table = np.full(max(_TO_LATIN1) + 1, -1, np.int16)
    for code, byte in _TO_LATIN1.items():
        table[code] = byte
    return table


def text_to_bytes(token: str) -> bytes:
    """The bytes that a token of a byte-level vocabulary stands for.

    A text with characters outside the alphabet (a token added by hand) stands for itself, in UTF-8.
    """
    if all(ord(character) in _TO_LATIN1 for character in token):
        return token.translate(_TO_LATIN1).encode("latin-1")
    return token.encode("utf-8", "replace")
