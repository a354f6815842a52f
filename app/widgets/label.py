"""A label whose text is text: what models, files and people wrote is never read as markup."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

_BETWEEN = " · "


class Label(QLabel):
    """Plain text in one of the stylesheet's looks."""

    def __init__(self, text: str = "", look: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        if look:
            self.setProperty("look", look)


class WrappingLabel(Label):
    """Plain text in as many lines as it needs; a long word asks for no more room than there is."""

    def __init__(self, text: str = "", look: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, look, parent)
        self.setWordWrap(True)
        self.setMinimumWidth(1)


class ElidingLabel(Label):
    """A label that cuts its text short where it has no room; its tooltip is whole then, and has the details.

    Of parts with " · " between them one with a number is shown whole or not at all: cut it reads as another number.

    Attributes:
        whole_text: what it shows where there is room.
    """

    def __init__(self, text: str = "", look: str = "", parent: QWidget | None = None) -> None:
        super().__init__("", look, parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.whole_text = ""
        self._details = ""
        self.set_whole_text(text)

    def set_whole_text(self, text: str) -> None:
        """Show another text."""
        if text != self.whole_text:
            self.whole_text = text
            self._elide()

    def set_details(self, text: str) -> None:
        """What the tooltip says in any case; ``setToolTip`` would not last."""
        self._details = text
        self._tell()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def _elide(self) -> None:
        self.ensurePolished()
        metrics, parts = self.fontMetrics(), self.whole_text.split(_BETWEEN)
        shown = metrics.elidedText(self.whole_text, Qt.TextElideMode.ElideRight, self.width())
        cut = parts[shown.count(_BETWEEN)] if shown != self.whole_text else ""
        if any(character.isdigit() for character in cut):
            fewer = (_BETWEEN.join(parts[:number]) + " …" for number in range(len(parts) - 1, 0, -1))
            shown = next(
                (text for text in fewer if metrics.horizontalAdvance(text) <= self.width()),
                "…" if len(parts) > 1 else shown,
            )
        if metrics.horizontalAdvance(shown) > self.width():
            shown = ""  # not even the dots have room
        if shown != self.text():
            self.setText(shown)
        self._tell()

    def _tell(self) -> None:
        whole = self.whole_text if self.text() != self.whole_text else ""
        self.setToolTip(plain_tooltip("\n".join(text for text in (whole, self._details) if text)))


def plain_tooltip(text: str) -> str:
    """``text`` for a tooltip, which Qt would read as markup when it looks like it: then there is none."""
    return "" if "<" in text else text
