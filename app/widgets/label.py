"""A label whose text is text: what models, files and people wrote is never read as markup."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget


class Label(QLabel):
    """Plain text in one of the stylesheet's looks."""

    def __init__(self, text: str = "", look: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        if look:
            self.setProperty("look", look)


def plain_tooltip(text: str) -> str:
    """``text`` for a tooltip, which Qt would read as markup when it looks like it: then there is none."""
    return "" if "<" in text else text
