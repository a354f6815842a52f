"""How Fireside looks: colour tokens, one stylesheet, icons and the zoom. Knows nothing of chats or models."""

from app.theme.icons import icon, pixmap
from app.theme.theme import Theme, apply_theme
from app.theme.tokens import DARK, LIGHT, TEXT_SURFACES, Palette, contrast_ratio

__all__ = [
    "DARK",
    "LIGHT",
    "TEXT_SURFACES",
    "Palette",
    "Theme",
    "apply_theme",
    "contrast_ratio",
    "icon",
    "pixmap",
]
