"""A label whose text is text: what models, files and people wrote is never read as markup."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget


class Label(QLabel):
    """Plain text in one of the stylesheet's looks."""

    def __init__(self, text: str = "", look: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        if look:
            self.setProperty("look", look)


class ElidingLabel(Label):
    """A label that cuts its text short where it has no room; its tooltip is whole then.

    Attributes:
        whole_text: what it shows where there is room.
    """

    def __init__(self, text: str = "", look: str = "", parent: QWidget | None = None) -> None:
        super().__init__("", look, parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.whole_text = ""
        self.set_whole_text(text)

    def set_whole_text(self, text: str) -> None:
        """Show another text."""
        self.whole_text = text
        self._elide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        self.ensurePolished()
        shown = self.fontMetrics().elidedText(self.whole_text, Qt.TextElideMode.ElideRight, self.width())
        if shown != self.text():
            self.setText(shown)
            self.setToolTip(plain_tooltip(self.whole_text) if shown != self.whole_text else "")


def plain_tooltip(text: str) -> str:
    """``text`` for a tooltip, which Qt would read as markup when it looks like it: then there is none."""
    return "" if "<" in text else text
