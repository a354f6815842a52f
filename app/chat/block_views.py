"""The widgets that show prose, which grows at its end, and tables."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import (
    QPainter,
    QTextBlockFormat,
    QTextCursor,
    QTextTable,
)
from PySide6.QtWidgets import (
    QTextBrowser,
    QWidget,
)

from app.chat.blocks import Block, displayable
from app.chat.maths import Formula
from app.chat.maths_text import replace_formula, shared_setter
from app.chat.prose import IS_RULE, QUOTE_LEVEL, ProseWriter, TableRow, table_rows
from app.chat.text_view import TextView
from app.theme import Theme
from app.translation import tr


class ProseView(TextView):
    """Paragraphs, headings, lists and quotes in one document, whose end can be written anew while it streams."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._writer = ProseWriter(theme)
        self._frozen_end = 0
        self._has_frozen = False
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

    def add_text(self, text: str) -> None:
        """Write ``text`` behind the last words, in their looks, until the open end is written anew."""
        self.end_cursor().insertText(displayable(text))

    def _on_formula(self, formula: Formula) -> None:
        changes = replace_formula(self.document(), formula, self._theme)
        self._frozen_end += sum(growth for position, growth in changes if position < self._frozen_end)
        if changes:
            self.updateGeometry()

    def _paint_marks(self, painter: QPainter, visible: QRect) -> None:
        """The stripes beside quotes, and rules."""
        layout = self.document().documentLayout()
        px = self._theme.px
        block = self.document().begin()
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


def _has_marks(blocks: Sequence[Block]) -> bool:
    return any(token.type in {"blockquote_open", "hr"} for block in blocks for token in block.tokens)


class TableView(TextView):
    """One table; scrolls sideways when its columns do not fit."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._writer = ProseWriter(theme)
        self._num_columns = 1
        self._table: QTextTable | None = None
        self._shown: list[list[tuple[str, str]]] = []  # the source of its cells, and their styles
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setAccessibleName(tr("Table"))
        shared_setter().was_set.connect(self._on_formula)

    def set_block(self, block: Block) -> None:
        """Show the table of ``block``; rows that stand there already are not written again."""
        rows = table_rows(block.tokens) or [[]]
        shown = [[(token.content, style) for token, style in row] for row in rows]
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        if self._table is None or shown[0] != self._shown[0]:
            self._table, first = self._make_table(cursor, rows), 0
        else:
            same = (before == after for before, after in zip(self._shown, shown))
            num_both = min(len(shown), len(self._shown))
            first = next((index for index, is_same in enumerate(same) if not is_same), num_both)
            if (num_more := len(shown) - len(self._shown)) > 0:
                self._table.appendRows(num_more)
            elif num_more < 0:
                self._table.removeRows(len(shown), -num_more)
            if num_more:
                first = min(first, num_both - 1)  # the row that was the last one, or is it now, has another rim
        self._shown = shown
        for index in range(first, len(rows)):
            self._writer.write_row(self._table, index, rows[index], is_last=index == len(rows) - 1)
        cursor.endEditBlock()
        self.rest_cursor()
        self.updateGeometry()

    def _make_table(self, cursor: QTextCursor, rows: Sequence[TableRow]) -> QTextTable:
        self._table = None
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.removeSelectedText()
        self._num_columns = max(1, max(map(len, rows)))
        table = self._writer.make_table(cursor, len(rows), self._num_columns)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        after = QTextBlockFormat()
        after.setLineHeight(1, int(QTextBlockFormat.LineHeightTypes.FixedHeight.value))
        cursor.setBlockFormat(after)
        return table

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
