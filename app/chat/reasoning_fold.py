"""What the model thought before it answered, folded under one line."""

from __future__ import annotations

from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.chat.blocks import displayable
from app.chat.prose import LINE_PX
from app.chat.text_view import TextView
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import TextButton


class ReasoningFold(QWidget):
    """What the model thought, folded under one line with its time."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown = ""
        self._toggle = TextButton(theme, tr("Thinking"), "chevron-right")
        self._toggle.setProperty("look", "fold")
        self._toggle.setCheckable(True)
        self._toggle.toggled.connect(self._on_toggled)
        self._text = TextView(theme)
        self._text.setAccessibleName(tr("What the model thought"))
        self._text.hide()
        self._reasoning = ""
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(theme.px(4))
        self._toggle.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        column.addWidget(self._toggle)
        inside = QVBoxLayout()  # under the title, not under its arrow, and apart from the answer
        inside.setContentsMargins(theme.px(14), 0, 0, theme.px(10))
        inside.addWidget(self._text)
        column.addLayout(inside)

    @property
    def is_open(self) -> bool:
        """What was thought can be read."""
        return self._toggle.isChecked()

    @property
    def text_view(self) -> TextView:
        """What was thought, as a text to select in."""
        return self._text

    def open(self) -> None:
        """Unfold what was thought."""
        self._toggle.setChecked(True)

    @property
    def title(self) -> str:
        """The line it is folded under."""
        return self._toggle.text()

    def set_reasoning(self, text: str) -> None:
        """Show ``text``; laid out only while it is unfolded."""
        self._reasoning = text
        if self._toggle.isChecked():
            self._show_text()

    def set_title(self, title: str) -> None:
        """The line it is folded under."""
        self._toggle.setText(title)
        self._toggle.setAccessibleName(tr("{title}: show what the model thought", title=title))

    def _on_toggled(self, is_open: bool) -> None:
        self._toggle.set_icon_name("chevron-down" if is_open else "chevron-right")
        self._show_text()
        self._text.setVisible(is_open)

    def _show_text(self) -> None:
        text = self._reasoning.lstrip()
        cursor = QTextCursor(self._text.document())
        if self._shown and text.startswith(self._shown):
            cursor.movePosition(QTextCursor.MoveOperation.End)
            text, self._shown = text[len(self._shown) :], text
        else:
            self._shown = text
            cursor.select(QTextCursor.SelectionType.Document)
            lines = QTextBlockFormat()
            lines.setLineHeight(self._theme.px(LINE_PX), int(QTextBlockFormat.LineHeightTypes.MinimumHeight.value))
            cursor.setBlockFormat(lines)
        muted = QTextCharFormat()
        muted.setForeground(self._theme.colour("muted"))
        cursor.insertText(displayable(text), muted)
        self._text.updateGeometry()
