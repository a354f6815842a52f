"""A code block as a card: its language, Copy and Save, colours when its fence closes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import (
    QBrush,
    QGuiApplication,
    QResizeEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextOption,
)
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from app.chat.blocks import Block, displayable
from app.chat.highlight import Span, file_suffix
from app.chat.highlighter import shared_highlighter
from app.chat.selection import selected_text
from app.chat.text_view import TextView
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import TextButton
from app.widgets.file_dialogs import choose_target
from app.widgets.label import Label

_CODE_LINE_PX = 20
_RIM_PX = 12  # the rounded corners


class _CodeText(TextView):
    """The code itself: never wrapped, left to right, scrolling sideways."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.language = ""
        self.setLineWrapMode(QTextBrowser.LineWrapMode.NoWrap)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        option = QTextOption()
        option.setTextDirection(Qt.LayoutDirection.LeftToRight)
        option.setWrapMode(QTextOption.WrapMode.NoWrap)
        document = self.document()
        document.setDefaultTextOption(option)
        font = theme.mono_font()
        document.setDefaultFont(font)
        self.setFont(font)
        self._plain = QTextCharFormat()
        self._plain.setFont(font)
        self._plain.setForeground(QBrush(theme.colour("text")))
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))

    def selected_markdown(self) -> str:
        return f"```{self.language}\n{selected_text(self.textCursor())}\n```"

    def append_text(self, text: str) -> bool:
        """Write ``text`` behind the code; True where that needs another height."""
        before = self.heightForWidth(self.width())
        cursor = self.end_cursor()
        if cursor.position() == 0:
            block = QTextBlockFormat()
            at_least = int(QTextBlockFormat.LineHeightTypes.MinimumHeight.value)
            block.setLineHeight(self._theme.px(_CODE_LINE_PX), at_least)
            cursor.setBlockFormat(block)
            cursor.setBlockCharFormat(self._plain)
        cursor.insertText(text, self._plain)
        self.rest_cursor()
        return self.heightForWidth(self.width()) != before

    def colour(self, code: str, spans: Sequence[Span]) -> None:
        # Positions in the document are UTF-16 units; those of the code are characters.
        wide = [index for index, character in enumerate(code) if ord(character) > 0xFFFF]
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        for span in spans:
            start, end = _utf16(span.start, wide), _utf16(span.start + span.length, wide)
            cursor.setPosition(start)
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            colour = QTextCharFormat()
            colour.setForeground(QBrush(self._theme.colour(span.colour)))
            cursor.mergeCharFormat(colour)
        cursor.endEditBlock()

    def _extra_height(self, width: int) -> int:
        return self._theme.px(12) if self.document().idealWidth() > width > 0 else 0


class CodeCard(QFrame):
    """A code block as a card with its language, Copy and Save.

    Signals:
        notice(text): saving failed.
    """

    notice = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "code")
        self.setAttribute(
            Qt.WidgetAttribute.WA_StaticContents
        )  # but for its rim, code that grows is not drawn anew
        self._theme = theme
        px = theme.px
        self._code = ""
        self._shown = ""
        self._is_coloured = False
        self._language = ""
        self._label = Label("", "muted")
        self._copy = TextButton(theme, tr("Copy"))
        self._copy.setAccessibleName(tr("Copy the code"))
        self._save = TextButton(theme, tr("Save"))
        self._save.setAccessibleName(tr("Save the code as a file"))
        self._copy.clicked.connect(self._on_copy)
        self._save.clicked.connect(self._on_save)
        head = QFrame()
        head.setProperty("look", "code-head")
        self._head = row = QHBoxLayout(head)
        row.setContentsMargins(px(12), px(3), px(9), px(3))
        row.setSpacing(px(6))
        row.addWidget(self._label, 1)
        row.addWidget(self._copy)
        row.addWidget(self._save)
        self._text = _CodeText(theme)
        self._text.setAccessibleName(tr("Code"))
        self._text.set_ground("code")
        self._inside = QVBoxLayout()
        self._inside.setContentsMargins(px(12), px(9), px(12), px(11))
        self._inside.addWidget(self._text)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(1, 1, 1, 1)
        whole.setSpacing(0)
        whole.addWidget(head)
        whole.addLayout(self._inside)

    @property
    def code(self) -> str:
        """Exactly what Copy and Save give."""
        return self._code

    @property
    def text_view(self) -> TextView:
        """The code as a text to select in."""
        return self._text

    def set_block(self, block: Block) -> None:
        """Show ``block``; what is added at the end is appended, and colours come when the fence is closed."""
        self._code = block.text
        self._language = self._text.language = block.language
        self._label.setText(displayable(block.language or "code")[:40])
        shown = displayable(block.text)
        if shown.startswith(self._shown) and self._shown:
            if len(shown) > len(self._shown):
                self._append(shown[len(self._shown) :])
        elif shown != self._shown:
            self._text.document().clear()
            self._append(shown)
        self._shown = shown
        if block.is_closed and not self._is_coloured:
            self._is_coloured = True
            shared_highlighter().colour(shown, block.language, partial(self._on_spans, shown))

    def add_text(self, text: str) -> None:
        """Show ``text``, which has nothing that is shown as something else, behind the code."""
        self._code += text
        self._shown += text
        self._append(text)

    def _append(self, text: str) -> None:
        if self._text.append_text(text):
            self._inside.invalidate()  # at once: it is asked before Qt would tell it
            self._text.updateGeometry()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        rim = self._theme.px(_RIM_PX)
        for bottom in (event.oldSize().height(), event.size().height()):
            self.update(0, bottom - rim, self.width(), rim)
        if event.oldSize().width() != event.size().width():
            self.update()

    def set_title(self, title: QWidget) -> None:
        """Say something else than the language over the code."""
        self._label.hide()
        self._head.insertWidget(0, title, 1, Qt.AlignmentFlag.AlignVCenter)

    def set_caret(self, is_shown: bool) -> None:
        """Show where the code is being written."""
        self._text.set_caret(is_shown)

    def _on_spans(self, code: str, spans: list[Span]) -> None:
        if isValid(self) and code == self._shown:
            self._text.colour(code, spans)

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self._code)
        self._copy.setText(tr("Copied"))
        QTimer.singleShot(1200, self._copy, lambda: self._copy.setText(tr("Copy")))

    def _on_save(self) -> None:
        suggestion = f"snippet{file_suffix(self._language)}"
        path = choose_target(self, tr("Save the code"), suggestion)
        if path is None:
            return
        try:
            path.write_text(self._code + "\n", encoding="utf-8")
        except OSError as error:
            self.notice.emit(
                tr("{name} could not be saved: {strerror}.", name=path.name, strerror=error.strerror or error)
            )


def _utf16(position: int, wide: Sequence[int]) -> int:
    return position + bisect_left(wide, position)
