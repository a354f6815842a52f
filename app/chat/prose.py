"""Writes prose into a ``QTextDocument`` with a cursor: no HTML parser, no images, no resources.

Raw HTML is text by construction, and an image is a link that shows its address, so rendering cannot reach the
network. Knows tokens and the theme; not messages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
    QTextList,
    QTextListFormat,
)

from app.chat.blocks import displayable
from app.chat.maths_text import write_formula
from app.chat.reading_direction import direction_inside, direction_of_inline
from app.theme import Theme
from app.translation import tr
from app.widgets.label import plain_tooltip
from engine.plain_data import dataclass

if TYPE_CHECKING:
    from markdown_it.token import Token

QUOTE_LEVEL = int(QTextFormat.Property.UserProperty) + 1
"""Block property: how many quotes the block stands in; the view paints their lines."""
IS_RULE = int(QTextFormat.Property.UserProperty) + 2
"""Block property: the block is a horizontal rule, which the view paints."""

MAX_LEVELS = 8
"""Lists and quotes that stand deeper in one another are indented no further: their text would have no room."""
QUOTE_PX = 16
"""The indent of a quote."""
LINE_PX = 22
"""The least distance of two lines of text, for the design's 14 px."""
_HEADING_PX = {"h1": 18.0, "h2": 16.5, "h3": 15.0}
_BARE_URL = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}*_]")


@dataclass
class _Item:
    """One list the writer stands in; ``is_fresh`` until the item's first block is written."""

    format: QTextListFormat
    direction: Qt.LayoutDirection | None
    list: QTextList | None = None
    is_tight: bool = True
    is_fresh: bool = False


@dataclass
class _State:
    lists: list[_Item] = field(default_factory=list)
    quotes: int = 0
    is_rtl_quote: bool = False  # the outermost one


class ProseWriter:
    """Appends prose blocks at a cursor in the theme's colours.

    Attributes:
        plain: the looks of a text without marks.
    """

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self.plain = QTextCharFormat()
        self.plain.setFont(theme.font())
        self.plain.setForeground(QBrush(theme.colour("text")))

    def write(self, cursor: QTextCursor, tokens: Sequence[Token], *, is_first: bool) -> None:
        """Write the tokens of one or more blocks; ``is_first`` when the document is still empty."""
        state = _State()
        heading = ""
        use_existing = is_first
        for position, token in enumerate(tokens):
            kind = token.type
            if kind in {"bullet_list_open", "ordered_list_open"}:
                direction = direction_inside(tokens, position)
                state.lists.append(_Item(_list_format(token, len(state.lists), direction), direction))
            elif kind in {"bullet_list_close", "ordered_list_close"}:
                state.lists.pop()
            elif kind == "list_item_open":
                state.lists[-1].is_fresh = True
            elif kind == "list_item_close" and state.lists[-1].is_fresh:
                self._begin(cursor, state, use_existing=use_existing)
                cursor.insertText("\u200b", self.plain)  # an empty item still has its marker
                use_existing = False
            elif kind == "blockquote_open":
                if not state.quotes:
                    state.is_rtl_quote = direction_inside(tokens, position) == Qt.LayoutDirection.RightToLeft
                state.quotes += 1
            elif kind == "blockquote_close":
                state.quotes -= 1
            elif kind == "heading_open":
                heading = token.tag
            elif kind == "heading_close":
                heading = ""
            elif kind == "paragraph_open" and state.lists:
                state.lists[-1].is_tight = token.hidden
            elif kind == "inline":
                direction = direction_of_inline(token)
                self._begin(cursor, state, heading=heading, use_existing=use_existing, direction=direction)
                self.write_inline(cursor, token.children or (), self._base_format(heading, state))
                use_existing = False
            elif kind in {"fence", "code_block"}:
                for line in token.content.removesuffix("\n").split("\n"):
                    ltr = Qt.LayoutDirection.LeftToRight
                    self._begin(cursor, state, use_existing=use_existing, is_code=True, direction=ltr)
                    cursor.insertText(displayable(line) or "\u200b", self._code_format(self.plain))
                    use_existing = False
            elif kind == "math_block":
                self._begin(cursor, state, use_existing=use_existing, is_centred=True)
                base = self._base_format("", state)
                write_formula(cursor, token.content, is_display=True, outer=base, theme=self._theme)
                use_existing = False
            elif kind == "hr":
                self._begin(cursor, state, use_existing=use_existing, is_rule=True)
                cursor.insertText("\u200b", self.plain)
                use_existing = False

    def write_inline(self, cursor: QTextCursor, tokens: Sequence[Token], base: QTextCharFormat) -> None:
        """Write the inside of a paragraph, heading or cell."""
        formats = [base]
        for token in tokens:
            kind = token.type
            if token.nesting == 1:
                formats.append(self._nested_format(formats[-1], token))
            elif token.nesting == -1:
                formats.pop()
            elif kind == "text":
                self._write_text(cursor, token.content, formats[-1])
            elif kind == "code_inline":
                cursor.insertText(displayable(token.content), self._code_format(formats[-1]))
            elif kind in {"softbreak", "hardbreak"}:
                cursor.insertText("\u2028", formats[-1])
            elif kind in {"math_inline", "math_inline_double"}:
                is_display = kind == "math_inline_double"
                write_formula(cursor, token.content, is_display=is_display, outer=formats[-1], theme=self._theme)
            elif kind == "image":
                self._write_image(cursor, token, formats[-1])
            elif token.content:
                self._write_text(cursor, token.content, formats[-1])

    # ------------------------------------------------------------------------------------------ blocks

    def _begin(
        self,
        cursor: QTextCursor,
        state: _State,
        *,
        heading: str = "",
        use_existing: bool = False,
        is_rule: bool = False,
        is_code: bool = False,
        is_centred: bool = False,
        direction: Qt.LayoutDirection | None = None,
    ) -> None:
        px = self._theme.px
        block = QTextBlockFormat()
        block.setLineHeight(self._theme.px(LINE_PX), AT_LEAST)
        block.setBottomMargin(px(9))
        if heading:
            block.setTopMargin(0 if use_existing else px(9))
            block.setBottomMargin(px(6))
            block.setHeadingLevel(int(heading[1]))
        if is_code:
            block.setBackground(QBrush(self._theme.colour("code")))
            block.setBottomMargin(0)
        if is_centred:
            block.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        if state.quotes:
            level = min(state.quotes, MAX_LEVELS)
            (block.setRightMargin if state.is_rtl_quote else block.setLeftMargin)(px(QUOTE_PX) * level)
            block.setProperty(QUOTE_LEVEL, level)
        if is_rule:
            block.setProperty(IS_RULE, True)
        item = state.lists[-1] if state.lists else None
        starts_item = item is not None and item.is_fresh
        if item is not None:
            if item.is_tight and not is_code:
                block.setBottomMargin(px(3))
            if not starts_item:
                block.setIndent(min(len(state.lists), MAX_LEVELS))
            elif not is_code:
                direction = item.direction  # the markers of a list stand on one side
        if direction is not None:
            block.setLayoutDirection(direction)
        if use_existing:
            cursor.setBlockFormat(block)
            cursor.setBlockCharFormat(self.plain)
        else:
            cursor.insertBlock(block, self.plain)
        if item is not None and starts_item:
            item.is_fresh = False
            if item.list is None:
                item.list = cursor.createList(item.format)
            else:
                item.list.add(cursor.block())

    # ------------------------------------------------------------------------------------------ characters

    def _base_format(self, heading: str, state: _State) -> QTextCharFormat:
        result = QTextCharFormat(self.plain)
        if heading:
            result.setFont(self._theme.font(_HEADING_PX.get(heading, 14.0), weight=QFont.Weight.DemiBold))
        if state.quotes:
            result.setForeground(QBrush(self._theme.colour("muted")))
        return result

    def _nested_format(self, outer: QTextCharFormat, token: Token) -> QTextCharFormat:
        result = QTextCharFormat(outer)
        if token.type == "strong_open":
            result.setFontWeight(QFont.Weight.Bold)
        elif token.type == "em_open":
            result.setFontItalic(True)
        elif token.type == "s_open":
            result.setFontStrikeOut(True)
        elif token.type == "link_open":
            result = self._link_format(outer, str(token.attrGet("href") or ""))
        return result

    def _link_format(self, outer: QTextCharFormat, address: str) -> QTextCharFormat:
        result = QTextCharFormat(outer)
        result.setAnchor(True)
        result.setAnchorHref(address)
        result.setForeground(QBrush(self._theme.colour("accent")))
        result.setFontUnderline(True)
        result.setToolTip(plain_tooltip(displayable(address)))
        return result

    def _code_format(self, outer: QTextCharFormat) -> QTextCharFormat:
        result = QTextCharFormat(outer)
        mono = self._theme.mono_font()
        result.setFontFamilies(mono.families() or [mono.family()])
        result.setFontFixedPitch(True)
        result.setProperty(int(QTextFormat.Property.FontPixelSize), mono.pixelSize())
        result.setBackground(QBrush(self._theme.colour("own_message")))
        return result

    def _write_text(self, cursor: QTextCursor, text: str, outer: QTextCharFormat) -> None:
        if outer.isAnchor():
            cursor.insertText(displayable(text), outer)
            return
        position = 0
        for match in _BARE_URL.finditer(text):
            cursor.insertText(displayable(text[position : match.start()]), outer)
            cursor.insertText(displayable(match.group()), self._link_format(outer, match.group()))
            position = match.end()
        cursor.insertText(displayable(text[position:]), outer)

    def _write_image(self, cursor: QTextCursor, token: Token, outer: QTextCharFormat) -> None:
        cursor.insertText(image_text(token), self._link_format(outer, str(token.attrGet("src") or "")))


def image_text(token: Token) -> str:
    """What stands in the place of an image: its description and its address."""
    address = str(token.attrGet("src") or "")
    description = f"{token.content}: " if token.content else ""
    return displayable(tr("[image] {description}{address}", description=description, address=address))


def _list_format(token: Token, depth: int, direction: Qt.LayoutDirection | None) -> QTextListFormat:
    result = QTextListFormat()
    result.setIndent(min(depth + 1, MAX_LEVELS))
    if token.type == "ordered_list_open":
        result.setStyle(QTextListFormat.Style.ListDecimal)
        if direction == Qt.LayoutDirection.RightToLeft:  # Qt turns both round, and then draws the whole so
            result.setNumberPrefix(".")
            result.setNumberSuffix("")
        start = token.attrGet("start")
        if isinstance(start, int) and start > 1:
            result.setStart(min(start, 1_000_000))
    else:
        result.setStyle(QTextListFormat.Style.ListDisc)
    return result


AT_LEAST = int(QTextBlockFormat.LineHeightTypes.MinimumHeight.value)
