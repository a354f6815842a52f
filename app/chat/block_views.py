"""The widgets that show blocks: prose that grows at its end, code cards, tables.

Each is as tall as its text at the width it is given, never scrolls vertically, and loads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QBrush,
    QDesktopServices,
    QFocusEvent,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QSizePolicy,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from app.chat.blocks import Block, displayable
from app.chat.highlight import file_suffix, highlight
from app.chat.maths import Formula
from app.chat.maths_text import replace_formula, shared_setter
from app.chat.prose import IS_RULE, QUOTE_LEVEL, ProseWriter
from app.theme import Theme
from app.widgets.buttons import TextButton
from app.widgets.label import Label

_SAFE_SCHEMES = {"http", "https", "mailto"}
_CODE_LINE_PX = 20


class TextView(QTextBrowser):
    """A read-only text as tall as its content, selectable, with links that open outside on a click."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._has_caret = False
        self._heights: dict[int, int] = {}
        self.document().contentsChanged.connect(self._heights.clear)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(0)
        policy = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.viewport().setAutoFillBackground(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.DefaultContextMenu)
        self.anchorClicked.connect(_open_outside)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        """The height of the text at ``width``; asked for often, so it is kept until the text changes."""
        height = self._heights.get(width)
        if height is None:
            height = self._heights[width] = self._measure(width)
        return height

    def _measure(self, width: int) -> int:
        document = self.document()
        wraps = self.lineWrapMode() == QTextBrowser.LineWrapMode.WidgetWidth
        if width > 0 and wraps:
            document.setTextWidth(width)
        height = max(1, math.ceil(document.size().height()))
        if wraps and self.viewport().width() not in {width, 0}:
            document.setTextWidth(self.viewport().width())  # only a question: what is drawn keeps its width
        return height + self._extra_height(width)

    def sizeHint(self) -> QSize:
        width = max(self.width(), 1)
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:
        """Nothing: an answer cannot make the app read a file or an address."""
        return None

    def wheelEvent(self, event: QWheelEvent) -> None:
        delta = event.angleDelta()
        if abs(delta.x()) > abs(delta.y()) and self.horizontalScrollBar().maximum() > 0:
            super().wheelEvent(event)
        else:
            event.ignore()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() not in {Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason}:
            cursor = self.textCursor()
            cursor.clearSelection()
            self.setTextCursor(cursor)

    def set_caret(self, is_shown: bool) -> None:
        """Show where the answer is being written."""
        if is_shown != self._has_caret:
            self._has_caret = is_shown
            self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._has_caret:
            end = QTextCursor(self.document())
            end.movePosition(QTextCursor.MoveOperation.End)
            px = self._theme.px
            place = self.cursorRect(end)
            caret = QRectF(place.left() + px(2), place.bottom() - px(17), px(4), px(16))
            painter = QPainter(self.viewport())
            painter.fillRect(caret, self._theme.colour("text"))
            painter.end()

    def rest_cursor(self) -> None:
        """Put the cursor to the start, where no selection is: the view would scroll after it."""
        cursor = self.textCursor()
        if cursor.position() and not cursor.hasSelection():
            cursor.setPosition(0)
            self.setTextCursor(cursor)

    def _extra_height(self, _width: int) -> int:
        return 0


class ProseView(TextView):
    """Paragraphs, headings, lists and quotes in one document, whose end can be written anew while it streams."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._writer = ProseWriter(theme)
        self._frozen_end = 0
        self._has_frozen = False
        self.num_frozen_blocks = 0
        self.document().setIndentWidth(theme.px(22))
        self.document().setDefaultFont(theme.font())
        self.setAccessibleName("Text of the answer")
        shared_setter().was_set.connect(self._on_formula)

    def update_blocks(self, finished: Sequence[Block], open_blocks: Sequence[Block]) -> None:
        """Keep what was finished before, append ``finished`` for good and ``open_blocks`` for now."""
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        cursor.setPosition(self._frozen_end)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        for block in finished:
            self._writer.write(cursor, block.tokens, is_first=not self._has_frozen)
            self._has_frozen = True
            self.num_frozen_blocks += 1
        self._frozen_end = cursor.position()
        is_first = not self._has_frozen
        for block in open_blocks:
            self._writer.write(cursor, block.tokens, is_first=is_first)
            is_first = False
        cursor.endEditBlock()
        self.rest_cursor()
        self.updateGeometry()

    def _on_formula(self, formula: Formula) -> None:
        changes = replace_formula(self.document(), formula, self._theme)
        self._frozen_end += sum(growth for position, growth in changes if position < self._frozen_end)
        if changes:
            self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        layout = self.document().documentLayout()
        px = self._theme.px
        block = self.document().begin()
        visible = event.rect()
        while block.isValid():
            level, is_rule = block.blockFormat().property(QUOTE_LEVEL), block.blockFormat().property(IS_RULE)
            if level or is_rule:
                box = layout.blockBoundingRect(block)
                if box.top() > visible.bottom():
                    break
                if is_rule:
                    line = QRectF(0, round(box.center().y()), self.viewport().width(), 1)
                    painter.fillRect(line, self._theme.colour("hairline"))
                for index in range(int(level or 0)):
                    stripe = QRectF(px(16) * index, box.top(), px(3), box.height())
                    painter.fillRect(stripe, self._theme.colour("hairline"))
            block = block.next()
        painter.end()
        super().paintEvent(event)


class TableView(TextView):
    """One table; scrolls sideways when its columns do not fit."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._writer = ProseWriter(theme)
        self._num_columns = 1
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setAccessibleName("Table")
        shared_setter().was_set.connect(self._on_formula)

    def set_block(self, block: Block) -> None:
        """Show the table of ``block``."""
        self.document().clear()
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        self._num_columns = self._writer.write_table(cursor, block.tokens)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        after = QTextBlockFormat()
        after.setLineHeight(1, int(QTextBlockFormat.LineHeightTypes.FixedHeight.value))
        cursor.setBlockFormat(after)
        cursor.endEditBlock()
        self.rest_cursor()
        self.updateGeometry()

    def _on_formula(self, formula: Formula) -> None:
        if replace_formula(self.document(), formula, self._theme):
            self.updateGeometry()

    def _measure(self, width: int) -> int:
        wanted = self._num_columns * self._theme.px(84)
        if wanted > width > 0:
            self.setLineWrapMode(QTextBrowser.LineWrapMode.FixedPixelWidth)
            self.setLineWrapColumnOrWidth(wanted)
        else:
            self.setLineWrapMode(QTextBrowser.LineWrapMode.WidgetWidth)
        return super()._measure(width) + (self._theme.px(12) if wanted > width else 0)


class _CodeText(TextView):
    """The code itself: never wrapped, left to right, scrolling sideways."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
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

    def append_text(self, text: str) -> None:
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if cursor.position() == 0:
            block = QTextBlockFormat()
            at_least = int(QTextBlockFormat.LineHeightTypes.MinimumHeight.value)
            block.setLineHeight(self._theme.px(_CODE_LINE_PX), at_least)
            cursor.setBlockFormat(block)
            cursor.setBlockCharFormat(self._plain)
        cursor.insertText(text, self._plain)
        self.rest_cursor()
        self.updateGeometry()

    def replace_text(self, text: str) -> None:
        self.document().clear()
        self.append_text(text)

    def colour(self, code: str, language: str) -> None:
        # Positions in the document are UTF-16 units; those of the code are characters.
        wide = [index for index, character in enumerate(code) if ord(character) > 0xFFFF]
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        for span in highlight(code, language):
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
        px = theme.px
        self._code = ""
        self._shown = ""
        self._is_coloured = False
        self._language = ""
        self._label = Label("", "muted")
        self._copy = TextButton(theme, "Copy")
        self._copy.setAccessibleName("Copy the code")
        self._save = TextButton(theme, "Save")
        self._save.setAccessibleName("Save the code as a file")
        self._copy.clicked.connect(self._on_copy)
        self._save.clicked.connect(self._on_save)
        head = QFrame()
        head.setProperty("look", "code-head")
        row = QHBoxLayout(head)
        row.setContentsMargins(px(12), px(3), px(9), px(3))
        row.setSpacing(px(6))
        row.addWidget(self._label, 1)
        row.addWidget(self._copy)
        row.addWidget(self._save)
        self._text = _CodeText(theme)
        self._text.setAccessibleName("Code")
        inside = QVBoxLayout()
        inside.setContentsMargins(px(12), px(9), px(12), px(11))
        inside.addWidget(self._text)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(1, 1, 1, 1)
        whole.setSpacing(0)
        whole.addWidget(head)
        whole.addLayout(inside)

    @property
    def code(self) -> str:
        """Exactly what Copy and Save give."""
        return self._code

    def set_block(self, block: Block) -> None:
        """Show ``block``; what is added at the end is appended, and colours come when the fence is closed."""
        self._code = block.text
        self._language = block.language
        self._label.setText(displayable(block.language or "code")[:40])
        shown = displayable(block.text)
        if shown.startswith(self._shown) and self._shown:
            if len(shown) > len(self._shown):
                self._text.append_text(shown[len(self._shown) :])
        elif shown != self._shown:
            self._text.replace_text(shown)
        self._shown = shown
        if block.is_closed and not self._is_coloured:
            self._is_coloured = True
            self._text.colour(shown, block.language)

    def set_caret(self, is_shown: bool) -> None:
        """Show where the code is being written."""
        self._text.set_caret(is_shown)

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self._code)
        self._copy.setText("Copied")
        QTimer.singleShot(1200, self._copy, lambda: self._copy.setText("Copy"))

    def _on_save(self) -> None:
        suggestion = f"snippet{file_suffix(self._language)}"
        name, _ = QFileDialog.getSaveFileName(self, "Save the code", suggestion)
        if not name:
            return
        try:
            Path(name).write_text(self._code + "\n", encoding="utf-8")
        except OSError as error:
            self.notice.emit(f"{Path(name).name} could not be saved: {error.strerror or error}.")


def _utf16(position: int, wide: Sequence[int]) -> int:
    return position + sum(1 for index in wide if index < position) if wide else position


def _open_outside(url: QUrl) -> None:
    if url.scheme().lower() in _SAFE_SCHEMES:
        QDesktopServices.openUrl(url)
