"""The line above what stands in a card: quiet, but a text of the message, to select and find words in."""

from __future__ import annotations

from PySide6.QtGui import QTextCharFormat
from PySide6.QtWidgets import QWidget

from app.chat.text_view import TextView
from app.theme import Theme

_TEXT_PX = 12  # as labels of this look have


class CardTitle(TextView):
    """What a card is about, in as many lines as it needs."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        font = theme.font(_TEXT_PX)
        self._look = QTextCharFormat()
        self._look.setFont(font)
        self._look.setForeground(theme.colour("muted"))
        self.document().setDefaultFont(font)

    def show_text(self, text: str) -> None:
        """Show ``text``; a text that is there already keeps what is selected and marked in it."""
        if text == self.toPlainText():
            return
        self.document().clear()
        self.end_cursor().insertText(text, self._look)
        self.rest_cursor()
        self.setAccessibleName(text)
        self.updateGeometry()
