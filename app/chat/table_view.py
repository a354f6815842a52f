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
from engine.plain_data import dataclass

if TYPE_CHECKING:
    from markdown_it.token import Token

TableRow = list[tuple["Token", str]]
"""The cells of a row: the token of what is inside, and the style that has its alignment."""


_LEAST_COLUMN_PX = 84  # of each column, on average


@dataclass(frozen=True)
class RowPlace:
    """Where a row stands: at the top, at the bottom, or as the first one of a part below another."""

    is_head: bool
    is_last: bool
    is_below_another: bool


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

    def make_table(
        self, cursor: QTextCursor, num_rows: int, num_columns: int, columns: Sequence[float] = ()
    ) -> QTextTable:
        """Put an empty table into an empty document, with ``columns`` so many pixels wide or as the text needs."""
        return cursor.insertTable(num_rows, num_columns, self.table_format(columns))

    def write_row(self, table: QTextTable, index: int, cells: TableRow, place: RowPlace) -> None:
        """Write a row of a table, in place of what it holds."""
        self.set_place(table, index, place)
        for column, (token, style) in enumerate(cells):
            cell = table.cellAt(index, table.columns() - 1 - column if self.is_rtl else column)
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
            if place.is_head:
                text.setFontWeight(QFont.Weight.DemiBold)
                text.setForeground(QBrush(self._theme.colour("muted")))
            self._prose.write_inline(inside, token.children or (), text)

    def set_place(self, table: QTextTable, index: int, place: RowPlace) -> None:
        """Give a row the rims of its place."""
        looks = self._cell_format(place)
        for column in range(table.columns()):
            table.cellAt(index, column).setFormat(looks)

    def _alignment(self, style: str) -> Qt.AlignmentFlag:
        """On which side a column's cells stand, whatever they say; sides are meant for tables read to the right."""
        if "center" in style:
            return Qt.AlignmentFlag.AlignHCenter
        is_left = ("right" in style) == self.is_rtl
        side = Qt.AlignmentFlag.AlignLeft if is_left else Qt.AlignmentFlag.AlignRight
        return side | Qt.AlignmentFlag.AlignAbsolute

    @property
    def padding(self) -> tuple[int, int]:
        """Pixels to the left and to the right of what is in a cell."""
        leading, trailing = self._theme.px(8), self._theme.px(12)
        return (trailing, leading) if self.is_rtl else (leading, trailing)

    def table_format(self, columns: Sequence[float] = ()) -> QTextTableFormat:
        """The looks of a table whose columns are so many pixels wide, with padding; or as their texts need it."""
        result = QTextTableFormat()
        if columns:
            fixed = QTextLength.Type.FixedLength
            result.setColumnWidthConstraints([QTextLength(fixed, width) for width in columns])
        result.setBorderCollapse(True)
        result.setBorder(0)
        result.setCellSpacing(0)
        result.setCellPadding(self._theme.px(6))
        result.setMargin(0)
        result.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
        return result

    def _cell_format(self, place: RowPlace) -> QTextTableCellFormat:
        result = QTextTableCellFormat()
        px, line = self._theme.px, QBrush(self._theme.colour("hairline"))
        result.setTopPadding(px(5))
        result.setBottomPadding(px(9))
        left, right = self.padding
        result.setLeftPadding(left)
        result.setRightPadding(right)
        if not place.is_last:
            result.setBottomBorder(1)
            result.setBottomBorderStyle(QTextTableFormat.BorderStyle.BorderStyle_Solid)
            result.setBottomBorderBrush(line)
        if place.is_below_another:
            result.setTopBorder(1)
            result.setTopBorderStyle(QTextTableFormat.BorderStyle.BorderStyle_Solid)
            result.setTopBorderBrush(line)
        return result


class TableView(TextView):
    """One table, or a part of one that is too long for one document; scrolls sideways when its columns do not fit.

    A part below another one has the columns of the first part, and no head.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._writer = TableWriter(theme)
        self._num_columns = 1
        self._table: QTextTable | None = None
        self._rows: list[TableRow] = []
        self._shown: list[list[tuple[str, str]]] = []  # the source of its cells, and their styles
        self._copied: QTextDocument | None = None  # what was taken last, while a cursor stands in it
        self._before: TableView | None = None
        self._below: TableView | None = None
        self._width = 0  # for which everything was laid out last
        self._columns: list[float] = []  # how wide they are there
        self.setAccessibleName(tr("Table"))
        self._show_bar()
        self.horizontalScrollBar().valueChanged.connect(self._scroll_others)
        shared_setter().was_set.connect(self._on_formula)

    def follow(self, before: TableView | None) -> bool:
        """Be the part below ``before``, or a table of its own; True where it was not. Comes before the rows."""
        if before is self._before:
            return False
        for view, below in ((self._before, None), (before, self)):
            if view is not None:
                view._below = below
                view._show_bar()
        self._before = before
        self.is_following = before is not None
        self._table = None  # it has another head
        return True

    def set_block(self, block: Block) -> None:
        """Show the table of ``block``; rows that stand there already are not written again."""
        rows = table_rows(block.tokens) or [[]]
        is_rtl = direction_of_table(rows) == Qt.LayoutDirection.RightToLeft
        if self._before is not None:
            rows, is_rtl = rows[1:], self._before._writer.is_rtl
        self._rows = rows
        shown = [[(token.content, style) for token, style in row] for row in rows]
        cursor = QTextCursor(self.document())
        is_new = self._table is None or shown[0] != self._shown[0] or is_rtl != self._writer.is_rtl
        if is_new:
            self._writer.is_rtl = is_rtl
            self._begin(cursor, rows)
        cursor.beginEditBlock()
        if is_new or self._table is None:
            self._table, first = self._make_table(cursor, rows), 0
        else:
            same = (before == after for before, after in zip(self._shown, shown))
            num_both = min(len(shown), len(self._shown))
            first = next((index for index, is_same in enumerate(same) if not is_same), num_both)
            if (num_more := len(shown) - len(self._shown)) > 0:
                self._table.appendRows(num_more)
            elif num_more < 0:
                self._table.removeRows(len(shown), -num_more)
            if num_more and first == num_both:  # the row that was the last one, or is it now, has another rim
                self._writer.set_place(self._table, num_both - 1, self._place_of(num_both - 1))
        self._shown = shown
        for index in range(first, len(rows)):
            place = self._place_of(index)
            self._writer.write_row(self._table, index, rows[index], place)
        cursor.endEditBlock()
        self.rest_cursor()
        self.updateGeometry()

    def _reading_start(self) -> int:
        if not self._writer.is_rtl or self._table is None:
            return 0
        return int(self._table.cellAt(0, self._num_columns - 1).firstPosition())

    def _place_of(self, index: int) -> RowPlace:
        return RowPlace(
            is_head=not index and self._before is None,
            is_last=index == len(self._rows) - 1,
            is_below_another=not index and self._before is not None,
        )

    def _begin(self, cursor: QTextCursor, rows: Sequence[TableRow]) -> None:
        """Empty the document, and make it as wide as it will be: cells are laid out anew for another width."""
        self._table = None
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.removeSelectedText()
        self._num_columns = max(1, max(map(len, rows)))
        side = Qt.LayoutDirection.RightToLeft if self._writer.is_rtl else Qt.LayoutDirection.LeftToRight
        self.setLayoutDirection(side)  # where scrolling sideways begins
        parent = self.parentWidget()
        self._fit(self._before._width if self._before is not None else parent.width() if parent is not None else 0)

    def _make_table(self, cursor: QTextCursor, rows: Sequence[TableRow]) -> QTextTable:
        columns = self._first_part.columns_at(self._width) if self._before is not None else ()
        self._columns = list(columns)
        table = self._writer.make_table(cursor, len(rows), self._num_columns, columns)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        after = QTextBlockFormat()
        after.setLineHeight(1, int(QTextBlockFormat.LineHeightTypes.FixedHeight.value))
        cursor.setBlockFormat(after)
        return table

    @property
    def _first_part(self) -> TableView:
        view = self
        while view._before is not None:
            view = view._before
        return view

    def columns_at(self, width: int) -> Sequence[float]:
        """How wide each column is, in pixels with its padding, when the table is ``width`` pixels wide."""
        if width != self._width:
            self._measure(width)
        if not self._columns and self._table is not None:
            shown_width = self.document().textWidth()
            if not self._is_wider_than(width):
                self._lay_out(width)
            layout, room = self.document().documentLayout(), sum(self._writer.padding)
            cells = [self._table.cellAt(0, column) for column in range(self._num_columns)]
            boxes = [layout.blockBoundingRect(cell.firstCursorPosition().block()) for cell in cells]
            self._columns = [box.width() + room for box in boxes]
            self._lay_out(round(shown_width))
        return self._columns

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
            writer.write_row(table, index - start, self._rows[index], self._place_of(index))
        cursor.select(QTextCursor.SelectionType.Document)
        return cursor

    def _on_formula(self, formula: Formula) -> None:
        if replace_formula(self.document(), formula, self._theme):
            self.tell_height()
            below = self._below
            while below is not None:
                below._revision = -1  # it has other columns now
                below.tell_height()
                below = below._below

    def _measure(self, width: int) -> int:
        self._fit(width)
        height = super()._measure(width)
        return height + (self._theme.px(12) if self._is_wider_than(width) and self._below is None else 0)

    def _is_wider_than(self, width: int) -> bool:
        return self._num_columns * self._theme.px(_LEAST_COLUMN_PX) > width > 0

    def _fit(self, width: int) -> None:
        """Lay everything out for a width, if it is not: in a wider document where the columns need it."""
        if self._before is None:
            self._columns = []
        elif self._table is not None and (columns := list(self._first_part.columns_at(width))) != self._columns:
            self._columns = columns
            self._table.setFormat(self._writer.table_format(columns))
        self._width = width
        if not self._is_wider_than(width):
            if self.lineWrapMode() != QTextBrowser.LineWrapMode.WidgetWidth:
                self.setLineWrapMode(QTextBrowser.LineWrapMode.WidgetWidth)
            return
        wanted = self._num_columns * self._theme.px(_LEAST_COLUMN_PX)
        if self.lineWrapMode() != QTextBrowser.LineWrapMode.FixedPixelWidth:
            self.setLineWrapMode(QTextBrowser.LineWrapMode.FixedPixelWidth)
        if self.lineWrapColumnOrWidth() != wanted:
            self.setLineWrapColumnOrWidth(wanted)

    def _show_bar(self) -> None:
        """Show where it stands sideways below the last part, for all of them."""
        policy = Qt.ScrollBarPolicy
        self.setHorizontalScrollBarPolicy(
            policy.ScrollBarAsNeeded if self._below is None else policy.ScrollBarAlwaysOff
        )

    def _scroll_others(self, value: int) -> None:
        for view in (self._before, self._below):
            if view is not None:
                view.horizontalScrollBar().setValue(value)
