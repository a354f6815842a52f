"""The alphabet of byte-level BPE: every byte as one printable character (Radford et al., GPT-2, 2019)."""

from __future__ import annotations

from typing import Final


def alphabet() -> dict[int, str]:
    """Character by byte: printable Latin-1 stands for itself, the others for U+0100 and up, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


_TO_LATIN1: Final = {ord(character): byte for byte, character in alphabet().items()}


def text_to_bytes(token: str) -> bytes:
    """The bytes that a token of a byte-level vocabulary stands for.

    A text with characters outside the alphabet (a token added by hand) stands for itself, in UTF-8.
    """
    if all(ord(character) in _TO_LATIN1 for character in token):
        return token.translate(_TO_LATIN1).encode("latin-1")
    return token.encode("utf-8", "replace")
