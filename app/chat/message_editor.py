"""Where a message is written anew: a field in the message's place with two buttons."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.growing_edit import GrowingEdit


class MessageEditor(QFrame):
    """A message being written anew.

    Signals:
        submitted(text): Enter or the button, with something to take.
        cancelled: Escape or the other button.
    """

    submitted = Signal(str)
    cancelled = Signal()

    def __init__(self, theme: Theme, text: str, word: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        px = theme.px
        self.edit = GrowingEdit(theme, max_lines=14)
        self.edit.setAccessibleName(tr("Edit the message"))
        self.edit.setPlainText(text)
        self.edit.moveCursor(QTextCursor.MoveOperation.End)
        take = LookButton(theme, word, "primary")
        cancel = LookButton(theme, tr("Cancel"))
        buttons = QHBoxLayout()
        buttons.setSpacing(px(8))
        buttons.addStretch(1)
        buttons.addWidget(cancel)
        buttons.addWidget(take)
        inside = QVBoxLayout(self)
        inside.setContentsMargins(px(13), px(11), px(11), px(10))
        inside.setSpacing(px(8))
        inside.addWidget(self.edit)
        inside.addLayout(buttons)
        self.edit.submitted.connect(self._on_take)
        self.edit.cancelled.connect(self.cancelled)
        take.clicked.connect(self._on_take)
        cancel.clicked.connect(self.cancelled)

    def _on_take(self) -> None:
        if text := self.edit.toPlainText().strip():
            self.submitted.emit(text)
