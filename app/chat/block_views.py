"""The widget that shows prose, which grows at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, QRectF
from PySide6.QtGui import QPainter, QTextBlock, QTextCursor
from PySide6.QtWidgets import QWidget

from app.chat.blocks import Block, displayable
from app.chat.maths import Formula
from app.chat.maths_text import replace_formula, shared_setter
from app.chat.prose import IS_RULE, QUOTE_LEVEL, QUOTE_PX, ProseWriter
from app.chat.prose_marks import Mark, kept_marks
from app.chat.text_view import TextView
from app.theme import Theme
from app.translation import tr

if TYPE_CHECKING:
    from markdown_it.token import Token


class ProseView(TextView):
    """Paragraphs, headings, lists and quotes in one document, whose end can be written anew while it streams."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._writer = ProseWriter(theme)
        self._frozen_end = 0
        self._has_frozen = False
        self._open_tokens: Sequence[Token] = ()  # of the first block that is open
        self._open_marks: list[Mark] = []  # what stands of it
        self._frozen_marks = False  # whether there are quotes or rules, which are painted here
        self.num_frozen_blocks = 0
        self.document().setIndentWidth(theme.px(22))
        self.document().setDefaultFont(theme.font())
        self.setAccessibleName(tr("Text of the answer"))
        shared_setter().was_set.connect(self._on_formula)

    def update_blocks(self, finished: Sequence[Block], open_blocks: Sequence[Block]) -> None:
        """Keep what was finished before, append ``finished`` for good and ``open_blocks`` for now."""
        self._frozen_marks = self._frozen_marks or _has_marks(finished)
        self._is_marked = self._frozen_marks or _has_marks(open_blocks)
        blocks = [*finished, *open_blocks]
        cursor = QTextCursor(self.document())
        kept = kept_marks(self._open_tokens, blocks[0].tokens, self._open_marks, cursor) if blocks else []
        cursor.beginEditBlock()
        cursor.setPosition(kept[-1].place if kept else self._frozen_end)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        self._open_tokens, self._open_marks = (), []
        is_first = not self._has_frozen
        for index, block in enumerate(blocks):
            marks = self._writer.write(cursor, block.tokens, is_first=is_first, kept=kept)
            is_first, kept = False, []
            if index < len(finished):
                self._has_frozen = True
                self.num_frozen_blocks += 1
                self._frozen_end = cursor.position()
            elif index == len(finished):
                self._open_tokens, self._open_marks = block.tokens, marks
        cursor.endEditBlock()
        self.rest_cursor()

    def add_text(self, text: str) -> None:
        """Write ``text`` behind the last words, in their looks, until the open end is written anew."""
        self.end_cursor().insertText(displayable(text))

    def _on_formula(self, formula: Formula) -> None:
        changes = replace_formula(self.document(), formula, self._theme)
        self._frozen_end += sum(growth for position, growth in changes if position < self._frozen_end)
        if changes:
            self._open_marks = []  # their places are others
            self.tell_height()

    def _paint_marks(self, painter: QPainter, visible: QRect) -> None:
        """The stripes beside quotes, and rules."""
        layout = self.document().documentLayout()
        block, above = self.document().begin(), 0
        while block.isValid():
            level, is_rule = _quote_level(block), block.blockFormat().property(IS_RULE)
            if level or is_rule:
                box = layout.blockBoundingRect(block)
                if box.top() > visible.bottom():
                    break
                if is_rule:
                    line = QRectF(0, round(box.center().y()), self.viewport().width(), 1)
                    painter.fillRect(line, self._theme.colour("hairline"))
                below = _quote_level(block.next())
                for index in range(level):
                    stripe = self._stripe(block, index, goes_on=below > index, begins=above <= index)
                    painter.fillRect(stripe, self._theme.colour("hairline"))
            block, above = block.next(), level

    def _stripe(self, block: QTextBlock, index: int, *, goes_on: bool, begins: bool) -> QRectF:
        """The line beside a block of a quote, from its first line of text, or what is above, to the next block."""
        px, layout = self._theme.px, self.document().documentLayout()
        left: float = px(QUOTE_PX) * index
        if block.blockFormat().rightMargin():  # a quote that is read from right to left
            left = self.viewport().width() - px(3) - left
        top, lines = layout.blockBoundingRect(block).top(), block.layout()
        if goes_on:
            bottom = layout.blockBoundingRect(block.next()).top()
        else:
            bottom = top + lines.lineAt(lines.lineCount() - 1).rect().bottom()
        if begins:
            top += lines.lineAt(0).rect().top()
        return QRectF(left, top, px(3), bottom - top)


def _quote_level(block: QTextBlock) -> int:
    return int(block.blockFormat().property(QUOTE_LEVEL) or 0) if block.isValid() else 0


def _has_marks(blocks: Sequence[Block]) -> bool:
    return any(token.type in {"blockquote_open", "hr"} for block in blocks for token in block.tokens)
