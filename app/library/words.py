"""The engine's words for states, fit and quality, in the language of the interface."""

from __future__ import annotations

from app.translation import localised, tr

_WORDS = {
    "fits": tr("fits"),
    "tight": tr("tight"),
    "too large": tr("too large"),
    "exact": tr("exact"),
    "nearly exact": tr("nearly exact"),
    "very good": tr("very good"),
    "good, as it was trained": tr("good, as it was trained"),
    "good": tr("good"),
    "fair": tr("fair"),
    "noticeably worse": tr("noticeably worse"),
    "much worse": tr("much worse"),
    "good only for models trained for it": tr("good only for models trained for it"),
    "hardly usable": tr("hardly usable"),
    "unknown": tr("unknown"),
    "files are missing": tr("files are missing"),
    "incomplete": tr("incomplete"),
    "not supported yet": tr("not supported yet"),
    "damaged": tr("damaged"),
    "an image part, not a chat model": tr("an image part, not a chat model"),
    "cannot be read": tr("cannot be read"),
    "its file is gone": tr("its file is gone"),
    "Get the rest": tr("Get the rest"),
    "Complete it": tr("Complete it"),
    "Get it again": tr("Get it again"),
    "Find it": tr("Find it"),
    "Find another": tr("Find another"),
    "Show it": tr("Show it"),
    "Remove": tr("Remove"),
}


def word(text: str) -> str:
    """The translation of one of the engine's words; another text stays as it is."""
    return _WORDS.get(text, text)


def rate_text(rate: float) -> str:
    """Tokens a second, with a decimal where it matters."""
    return localised(f"{rate:,.{0 if rate >= 10 else 1}f}")


def time_text(seconds: float) -> str:
    """A length of time in the unit that people would say it in."""
    if seconds < 1:
        return tr("less than a second")
    if seconds < 120:
        return tr("{count} s", count=round(seconds))
    if seconds < 7200:
        return tr("{count} min", count=round(seconds / 60))
    return tr("{count} h", count=localised(f"{seconds / 3600:,.0f}"))


def context_text(num_tokens: int) -> str:
    """A context length as people say it: "8k", and the number where it is less than a thousand."""
    return f"{num_tokens // 1024}k" if num_tokens >= 1024 else str(num_tokens)
