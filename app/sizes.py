"""Bytes in words: the one way in which the app writes them."""

from __future__ import annotations

from app.translation import localised


def size_text(num_bytes: int) -> str:
    """Bytes as people read them: "98 MB", "4.4 GB"."""
    if num_bytes >= 1e9:
        return localised(f"{num_bytes / 1e9:.1f}") + " GB"
    if num_bytes >= 1e6 or not num_bytes:
        return f"{round(num_bytes / 1e6)} MB"
    return f"{max(1, round(num_bytes / 1e3))} kB"
