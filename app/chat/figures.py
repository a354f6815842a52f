"""The words for numbers under an answer and in the bar: rates, times, token counts. Text only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def count(number: int) -> str:
    """1204 as "1,204"."""
    return f"{number:,}"


def tokens(number: int) -> str:
    """ "1 token", "1,204 tokens"."""
    return "1 token" if number == 1 else f"{count(number)} tokens"


def seconds(milliseconds: float) -> str:
    """A duration as a person says it: "0.06 s", "2 s", "1 min 24 s"."""
    value = milliseconds / 1000
    if value < 1:
        return f"{value:.2f} s"
    if value < 10:
        return f"{value:.1f} s".replace(".0 s", " s")
    if value < 60:
        return f"{value:.0f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"


def statistics_line(stats: Mapping[str, Any] | None) -> str:
    """The line under an answer; "" without figures. Knows the fields of ``engine.protocol.RequestStats``."""
    if not stats:
        return ""
    parts: list[str] = []
    rate = _number(stats, "tokens_per_second")
    if rate > 0:
        parts.append(f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s")
    first = _number(stats, "first_token_ms")
    if first > 0:
        parts.append(f"first word {seconds(first)}")
    total, reused = int(_number(stats, "num_prompt_tokens")), int(_number(stats, "num_reused_tokens"))
    if total > 0:
        read = f"{count(max(0, total - reused))} read"
        parts.append(f"{count(reused)} reused, {read}" if reused else read)
    return " · ".join(parts)


def cost_line(num_tokens: int, share: float, seconds_to_read: float) -> str:
    """What a message would cost: "1,204 tokens · 15 % of the context · about 3 s to read".

    ``share`` of the context, 0 when it is not known; a wait below a second, or one that is not known, is left out.
    """
    parts = [tokens(num_tokens)]
    if share >= 0.01:
        parts.append(f"{share:.0%} of the context".replace("%", " %"))
    if seconds_to_read >= 1:
        parts.append(f"about {seconds(round(seconds_to_read) * 1000)} to read")
    return " · ".join(parts)


def reading_line(computed: int, total: int, reused: int) -> str:
    """What is going on while a prompt is read: "reading 1,204 tokens", with what is done and what was known."""
    fresh = max(0, total - reused)
    done = max(0, computed - reused)
    line = f"reading {tokens(fresh)}" if computed < total else f"read {tokens(fresh)}"
    if 0 < done < fresh:
        line = f"reading {count(done)} of {tokens(fresh)}"
    return f"{line} · {count(reused)} reused" if reused else line


def _number(stats: Mapping[str, Any], key: str) -> float:
    value = stats.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0
