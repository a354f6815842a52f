"""Text that encoders can take."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """``text`` with surrogate pairs joined and U+FFFD for lone surrogates, which no encoder takes."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
