"""The words for numbers under an answer and in the bar: rates, times, token counts. Text only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.translation import localised, tr, trn
from engine.protocol import RereadReason

_MAX_FIGURE = 2**31  # of tokens and milliseconds; what is more comes from a damaged or a foreign file
_MAX_SEED = 2**53


def count(number: int) -> str:
    """1204 as "1,204"."""
    return localised(f"{number:,}")


def tokens(number: int) -> str:
    """ "1 token", "1,204 tokens"."""
    return trn("1 token", "{count} tokens", number)


def seconds(milliseconds: float) -> str:
    """A duration as a person says it: "0.06 s", "2 s", "1 min 24 s"."""
    value = milliseconds / 1000
    if value < 1:
        return localised(f"{value:.2f} s")
    if value < 10:
        return localised(f"{value:.1f} s".replace(".0 s", " s"))
    if value < 60:
        return f"{value:.0f} s"
    return tr("{minutes} min {seconds} s", minutes=int(value) // 60, seconds=int(value) % 60)


def size(num_bytes: int) -> str:
    """Bytes as file managers show them: "98 MB", "2.5 GB", "12 kB"."""
    if num_bytes >= 1_000_000_000:
        return localised(f"{num_bytes / 1e9:.1f} GB")
    return f"{num_bytes / 1e6:.0f} MB" if num_bytes >= 1_000_000 else f"{num_bytes / 1e3:.0f} kB"


def statistics_line(stats: Mapping[str, Any] | None) -> str:
    """The line under an answer; "" without figures. Knows the fields of ``engine.protocol.RequestStats``."""
    if not stats:
        return ""
    parts: list[str] = []
    rate = figure(stats, "tokens_per_second")
    if rate > 0:
        parts.append(tr("{rate} tok/s", rate=localised(f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}")))
    first = figure(stats, "first_token_ms")
    if first > 0:
        parts.append(tr("first word {seconds}", seconds=seconds(first)))
    total, reused = int(figure(stats, "num_prompt_tokens")), int(figure(stats, "num_reused_tokens"))
    if total > 0:
        num_read = max(total - reused, int(figure(stats, "num_read_tokens")), 0)  # more where some was read twice
        read = tr("{count} read", count=count(num_read))
        parts.append(_reused(stats, reused) + ", " + read if reused else read)
    if again := _read_again(stats):
        parts.append(again)
    if (seed := seed_of(stats)) is not None:
        parts.append(tr("seed {seed}", seed=seed))
    return " · ".join(parts)


def _reused(stats: Mapping[str, Any], num_reused: int) -> str:
    """What was not read, and where most of it was."""
    if 2 * figure(stats, "num_snapshot_tokens") > num_reused:
        return tr("{count} reused from the disk", count=count(num_reused))
    return tr("{count} reused", count=count(num_reused))


def _read_again(stats: Mapping[str, Any]) -> str:
    """Why something was read that had been read before; "" where nothing was."""
    again = int(figure(stats, "num_reread_tokens"))
    if again <= 0:
        return ""
    match stats.get("reread_reason"):
        case RereadReason.EVICTED:
            return tr("{count} again, for the memory was needed", count=count(again))
        case RereadReason.RELOADED:
            return tr("{count} again, for the model was loaded anew", count=count(again))
        case RereadReason.CONTEXT_SHIFTED:
            return tr("{count} again, for the oldest turns left the context", count=count(again))
        case RereadReason.DAMAGED:
            return tr("{count} again, for what the disk had was damaged", count=count(again))
        case _:
            return ""


def cost_line(num_tokens: int, share: float, seconds_to_read: float, *, is_estimate: bool = False) -> str:
    """What a message would cost: "1,204 tokens · 15 % of the context · about 3 s to read".

    ``share`` of the context, 0 when it is not known; a wait below a second, or one that is not known, is left out.
    Of an estimate no digits are shown that it cannot know.
    """
    if is_estimate:
        rounded = round(num_tokens, 2 - len(str(num_tokens)))
        parts = [tr("about {tokens}", tokens=tokens(rounded))]
    else:
        parts = [tokens(num_tokens)]
    if share >= 0.01:
        parts.append(tr("{share} % of the context", share=count(round(share * 100))))
    if seconds_to_read >= 1:
        parts.append(tr("about {seconds} to read", seconds=seconds(round(seconds_to_read) * 1000)))
    return " · ".join(parts)


def reading_line(computed: int, total: int, reused: int) -> str:
    """What is going on while a prompt is read: "reading 1,204 tokens", with what is done and what was known."""
    fresh = max(0, total - reused)
    done = max(0, computed - reused)
    line = (
        tr("reading {tokens}", tokens=tokens(fresh))
        if computed < total
        else tr("read {tokens}", tokens=tokens(fresh))
    )
    if 0 < done < fresh:
        line = tr("reading {count} of {tokens}", count=count(done), tokens=tokens(fresh))
    return line + " · " + tr("{count} reused", count=count(reused)) if reused else line


def seed_of(stats: Mapping[str, Any] | None) -> int | None:
    """The seed that an answer was drawn with; None where that is not known."""
    seed = (stats or {}).get("seed")
    return seed if isinstance(seed, int) and 0 <= seed < _MAX_SEED else None


def figure(stats: Mapping[str, Any], key: str) -> float:
    """A figure of ``stats``, which may come from a file; 0 where it is none."""
    value = stats.get(key)
    return float(value) if isinstance(value, int | float) and abs(value) < _MAX_FIGURE else 0.0
