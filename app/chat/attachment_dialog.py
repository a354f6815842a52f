"""The text that is attached to a message, to be read in the window itself."""

from __future__ import annotations

from pathlib import PurePath

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from app.chat.block_parts import place_in_text
from app.chat.blocks import displayable
from app.chat.figures import count
from app.storage.records import AttachmentRecord
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.label import ElidingLabel, Label
from app.widgets.use_dialog import size_on_screen

MAX_SHOWN_CHARACTERS = 200_000
"""Laying out more takes so long that the window would stand still."""
MAX_LINE_CHARACTERS = 2000
"""A longer line is shown in parts: each is laid out as a whole as soon as any of it is seen."""
_PROSE_ENDINGS = {"", ".txt", ".md", ".pdf"}


class AttachmentDialog(QDialog):
    """Shows one attached text; Escape closes it.

    Attributes:
        edit: holds the text; it can be selected and not be changed.
    """

    def __init__(self, record: AttachmentRecord, text: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(record.name)
        px = theme.px
        name = ElidingLabel(displayable(record.name), "section")
        shown = text[:MAX_SHOWN_CHARACTERS]
        figures = (
            tr("{count} characters", count=count(len(text)))
            if len(shown) == len(text)
            else tr("the first {shown} of {count} characters", shown=count(len(shown)), count=count(len(text)))
        )
        shown = displayable(shown)
        in_parts = _long_lines_in_parts(shown)
        if in_parts != shown:
            figures += " · " + tr("very long lines in parts")
        self.edit = QPlainTextEdit()
        self.edit.setProperty("look", "field")
        self.edit.setReadOnly(True)
        self.edit.setTabChangesFocus(True)
        self.edit.setAccessibleName(tr("Attached text"))
        if PurePath(record.name).suffix.lower() not in _PROSE_ENDINGS:
            self.edit.setFont(theme.mono_font())
            self.edit.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.edit.setPlainText(in_parts)
        copy = LookButton(theme, tr("Copy"))
        copy.setAutoDefault(False)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(text))
        close = LookButton(theme, tr("Close"))
        close.setDefault(True)
        close.clicked.connect(self.reject)
        head = QHBoxLayout()
        head.setSpacing(px(12))
        head.addWidget(name, 1)
        head.addWidget(Label(figures, "muted"))
        foot = QHBoxLayout()
        foot.setSpacing(px(8))
        foot.addStretch(1)
        foot.addWidget(copy)
        foot.addWidget(close)
        column = QVBoxLayout(self)
        column.setContentsMargins(px(16), px(16), px(16), px(16))
        column.setSpacing(px(12))
        column.addLayout(head)
        column.addWidget(self.edit, 1)
        column.addLayout(foot)
        self.resize(size_on_screen(self, QSize(px(720), px(560))))
        self.edit.setFocus()


def _long_lines_in_parts(text: str) -> str:
    """``text`` with a line end more wherever a line is too long, after a word where one ends nearby."""
    lines: list[str] = []
    for line in text.split("\n"):
        rest = line
        while len(rest) > MAX_LINE_CHARACTERS:
            place = place_in_text(rest, MAX_LINE_CHARACTERS)
            lines.append(rest[:place])
            rest = rest[place:]
        lines.append(rest)
    return "\n".join(lines)
