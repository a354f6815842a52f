"""The widget that shows a table, and how the table is written into its document.

Qt knows no table that is read from right to left: its columns are put into the document in the other order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextLength,
    QTextTable,
    QTextTableCellFormat,
    QTextTableFormat,
)
from PySide6.QtWidgets import QTextBrowser, QWidget

from app.chat.blocks import Block
from app.chat.maths import Formula
from app.chat.maths_text import replace_formula, shared_setter
from app.chat.prose import AT_LEAST, LINE_PX, ProseWriter
from app.chat.reading_direction import direction_of_inline, direction_of_table
from app.chat.text_view import TextView
from app.theme import Theme
from app.translation import tr

if TYPE_CHECKING:
    from markdown_it.token import Token

TableRow = list[tuple["Token", str]]
"""The cells of a row: the token of what is inside, and the style that has its alignment."""


def table_rows(tokens: Sequence[Token]) -> list[TableRow]:
    """The rows of a table's tokens, its head first."""
    rows: list[TableRow] = []
    alignment = ""
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type in {"th_open", "td_open"}:
            alignment = str(token.attrGet("style") or "")
        elif token.type == "inline":
            rows[-1].append((token, alignment))
    return rows


class TableWriter:
    """Writes the rows of a table in the theme's colours.

    Attributes:
        is_rtl: whether the table is read from right to left; holds for rows that are written from then on.
    """

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._prose = ProseWriter(theme)
        self.is_rtl = False

    def make_table(self, cursor: QTextCursor, num_rows: int, num_columns: int) -> QTextTable:
        """Put an empty table into an empty document."""
        return cursor.insertTable(num_rows, num_columns, self._table_format())

    def write_row(self, table: QTextTable, index: int, cells: TableRow, *, is_last: bool) -> None:
        """Write a row of a table, in place of what it holds; the first one is the head."""
        for column, (token, style) in enumerate(cells):
            cell = table.cellAt(index, table.columns() - 1 - column if self.is_rtl else column)
            cell.setFormat(self._cell_format(is_last_row=is_last))
            inside = cell.firstCursorPosition()
            inside.setPosition(cell.lastCursorPosition().position(), QTextCursor.MoveMode.KeepAnchor)
            inside.removeSelectedText()
            block = QTextBlockFormat()
            block.setAlignment(self._alignment(style))
            block.setLineHeight(self._theme.px(LINE_PX), AT_LEAST)
            if (direction := direction_of_inline(token)) is not None:
                block.setLayoutDirection(direction)
            inside.setBlockFormat(block)
            text = QTextCharFormat(self._prose.plain)
            if index == 0:
                text.setFontWeight(QFont.Weight.DemiBold)
                text.setForeground(QBrush(self._theme.colour("muted")))
            self._prose.write_inline(inside, token.children or (), text)

    def _alignment(self, style: str) -> Qt.AlignmentFlag:
        """On which side a column's cells stand, whatever they say; sides are meant for tables read to the right."""
        if "center" in style:
            return Qt.AlignmentFlag.AlignHCenter
        is_left = ("right" in style) == self.is_rtl
        side = Qt.AlignmentFlag.AlignLeft if is_left else Qt.AlignmentFlag.AlignRight
        return side | Qt.AlignmentFlag.AlignAbsolute

    def _table_format(self) -> QTextTableFormat:
        result = QTextTableFormat()
        result.setBorderCollapse(True)
        result.setBorder(0)
        result.setCellSpacing(0)
        result.setCellPadding(self._theme.px(6))
        result.setMargin(0)
        result.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
        return result

    def _cell_format(self, *, is_last_row: bool) -> QTextTableCellFormat:
        result = QTextTableCellFormat()
        px = self._theme.px
        result.setTopPadding(px(5))
        result.setBottomPadding(px(9))
        leading, trailing = px(8), px(12)
        result.setLeftPadding(trailing if self.is_rtl else leading)
        result.setRightPadding(leading if self.is_rtl else trailing)
        if not is_last_row:
            result.setBottomBorder(1)
            result.setBottomBorderStyle(QTextTableFormat.BorderStyle.BorderStyle_Solid)
            result.setBottomBorderBrush(QBrush(self._theme.colour("hairline")))
        return result


class TableView(TextView):
    """One table; scrolls sideways when its columns do not fit."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._writer = TableWriter(theme)
        self._num_columns = 1
        self._table: QTextTable | None = None
        self._rows: list[TableRow] = []
        self._shown: list[list[tuple[str, str]]] = []  # the source of its cells, and their styles
        self._copied: QTextDocument | None = None  # what was taken last, while a cursor stands in it
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setAccessibleName(tr("Table"))
        shared_setter().was_set.connect(self._on_formula)

    def set_block(self, block: Block) -> None:
        """Show the table of ``block``; rows that stand there already are not written again."""
        rows = self._rows = table_rows(block.tokens) or [[]]
        shown = [[(token.content, style) for token, style in row] for row in rows]
        is_rtl = direction_of_table(rows) == Qt.LayoutDirection.RightToLeft
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        if self._table is None or shown[0] != self._shown[0] or is_rtl != self._writer.is_rtl:
            self._writer.is_rtl = is_rtl
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

    def selected_cursor(self) -> QTextCursor:
        """What is selected, as it is read: of a table from right to left its rows, in a document of their own."""
        cursor = self.textCursor()
        if not (self._writer.is_rtl and self._table is not None and cursor.hasSelection()):
            return cursor
        first = self._table.cellAt(cursor.selectionStart())
        last = self._table.cellAt(cursor.selectionEnd())
        start = first.row() if first.isValid() else 0
        end = last.row() + 1 if last.isValid() else len(self._rows)
        if first.isValid() and first == last:
            return cursor  # it lies in one cell
        return self._as_read(start, end)

    def whole_cursor(self) -> QTextCursor:
        return self._as_read(0, len(self._rows)) if self._writer.is_rtl else super().whole_cursor()

    def _as_read(self, start: int, end: int) -> QTextCursor:
        """Rows of the table in a document of their own, with the columns in the order in which they are read."""
        writer, self._copied = TableWriter(self._theme), QTextDocument()
        cursor = QTextCursor(self._copied)
        table = writer.make_table(cursor, end - start, self._num_columns)
        for index in range(start, end):
            writer.write_row(table, index - start, self._rows[index], is_last=index == end - 1)
        cursor.select(QTextCursor.SelectionType.Document)
        return cursor

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
