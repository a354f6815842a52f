"""The colour tokens of both palettes, and which text may stand on which surface. Plain data, no Qt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """One colour for each role, as ``#RRGGBB``.

    Surfaces are ``background`` to ``code``; ``TEXT_SURFACES`` says which text colours stand on them.
    ``found`` lies behind words that were looked for. ``hairline`` and ``outline`` are borders at rest and in
    use, ``track`` is the empty part of a meter: no text.
    """

    is_dark: bool
    background: str
    sidebar: str
    card: str
    hover: str
    own_message: str
    code: str
    accent_wash: str
    found: str
    accent: str
    accent_hover: str
    on_accent: str
    text: str
    muted: str
    good: str
    caution: str
    hairline: str
    outline: str
    track: str


LIGHT = Palette(
    is_dark=False,
    background="#FBFAF8",
    sidebar="#F3F1ED",
    card="#FFFFFF",
    hover="#ECE8E2",
    own_message="#EFEAE2",
    code="#F5F3EF",
    accent_wash="#F6E7DC",
    found="#F8DC82",
    accent="#A34818",
    accent_hover="#8C3C12",
    on_accent="#FFFFFF",
    text="#22201D",
    muted="#6B665E",
    good="#276C44",
    caution="#855B00",
    hairline="#E4E0D9",
    outline="#C9C2B7",
    track="#E4DED6",
)

DARK = Palette(
    is_dark=True,
    background="#1C1B1A",
    sidebar="#161514",
    card="#242220",
    hover="#262422",
    own_message="#2C2926",
    code="#171615",
    accent_wash="#3A2A20",
    found="#5E4C17",
    accent="#E58A54",
    accent_hover="#F09C69",
    on_accent="#1C1B1A",
    text="#ECE8E1",
    muted="#A39C91",
    good="#6CC28F",
    caution="#D9A441",
    hairline="#35322E",
    outline="#57524B",
    track="#35322E",
)

_PLAIN_SURFACES = ("background", "sidebar", "card", "hover", "own_message", "code", "accent_wash")

TEXT_SURFACES: dict[str, tuple[str, ...]] = {
    "text": (*_PLAIN_SURFACES, "found"),
    "muted": _PLAIN_SURFACES,
    "accent": ("background", "sidebar", "card", "code", "own_message", "accent_wash"),
    "good": ("background", "card", "code"),
    "caution": ("background", "card", "code", "accent_wash"),
    "on_accent": ("accent", "accent_hover"),
}
"""Every surface that each text colour may stand on; a test holds each pair to 4.5:1."""


def contrast_ratio(first: str, second: str) -> float:
    """The contrast of two ``#RRGGBB`` colours from 1 to 21, as WCAG 2.2 defines it."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
