"""Writes prose into a ``QTextDocument`` with a cursor: no HTML parser, no images, no resources.

Raw HTML is text by construction, and an image is a link that shows its address, so rendering cannot reach the
network. Knows tokens and the theme; not messages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QFont,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
    QTextListFormat,
)

from app.chat.answer_parser import TASK
from app.chat.blocks import displayable
from app.chat.maths_text import write_formula
from app.chat.prose_marks import ListItem, Mark, ProseState
from app.chat.reading_direction import direction_inside, direction_of_inline
from app.theme import Theme
from app.translation import tr
from app.widgets.label import plain_tooltip

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
_LEAVES = frozenset({"inline", "fence", "code_block", "math_block", "hr"})
"""Tokens that are text by themselves; the others say what the text stands in."""
_LISTS = frozenset({"bullet_list_open", "ordered_list_open"})
_AFTER_NOTHING = _LISTS | {"list_item_close"}
"""Tokens before which an item without text of its own is written: its marker stands there all the same."""
_MARKERS = {"open": QTextBlockFormat.MarkerType.Unchecked, "done": QTextBlockFormat.MarkerType.Checked}
_BARE_URL = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}*_]")


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

    def write(
        self, cursor: QTextCursor, tokens: Sequence[Token], *, is_first: bool, kept: Sequence[Mark] = ()
    ) -> list[Mark]:
        """Write the tokens of a block; ``is_first`` when the document is still empty.

        ``kept`` are the marks of what stands already, up to the cursor. Gives them with those of what was written.
        """
        marks = list(kept[:-1])
        last = kept[-1] if kept else Mark(0, cursor.position(), ProseState(use_existing=is_first))
        state, children = last.state.copied(), last.children
        for index in range(last.token_index, len(tokens)):
            token = tokens[index]
            kind = token.type
            if kind in _LEAVES or (kind in _AFTER_NOTHING and state.lists and state.lists[-1].is_fresh):
                if children:
                    before, position = last.state, last.position
                else:
                    before, position = state.copied(), cursor.position()
                places = self._write_leaf(cursor, token, state, children)
                marks.append(Mark(index, position, before, places))
                state.use_existing = False
            if kind in _LISTS:
                direction = direction_inside(tokens, index)
                looks = _list_format(token, len(state.lists), direction)
                state.lists.append(ListItem(looks, direction, index))
            elif kind in {"bullet_list_close", "ordered_list_close"}:
                state.lists.pop()
            elif kind == "list_item_open":
                state.lists[-1].is_fresh = True
            elif kind == "blockquote_open":
                if not state.quotes:
                    state.quote_index = index
                    state.is_rtl_quote = direction_inside(tokens, index) == Qt.LayoutDirection.RightToLeft
                state.quotes += 1
            elif kind == "blockquote_close":
                state.quotes -= 1
            elif kind == "heading_open":
                state.heading = token.tag
            elif kind == "heading_close":
                state.heading = ""
            elif kind == "paragraph_open" and state.lists:
                state.lists[-1].is_tight = token.hidden
            children = ()
        return marks

    def _write_leaf(
        self, cursor: QTextCursor, token: Token, state: ProseState, stands: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Write a token that is text by itself; gives the places of its children.

        Of one whose first children stand already, these are their places, the others are written.
        """
        kind = token.type
        if kind == "inline":
            if stands:
                _resume(cursor, state)
            else:
                task = str(token.attrGet(TASK) or "")
                self._begin(cursor, state, direction=direction_of_inline(token), task=task)
            places = self.write_inline(cursor, token.children or (), self._base_format(state), stands)
            if cursor.atBlockStart():
                cursor.insertText("\u200b", self.plain)  # Qt gives a line that is empty the looks of those removed
            return places
        if kind in {"fence", "code_block"}:
            for line in token.content.removesuffix("\n").split("\n"):
                self._begin(cursor, state, is_code=True, direction=Qt.LayoutDirection.LeftToRight)
                cursor.insertText(displayable(line) or "\u200b", self._code_format(self.plain))
                state.use_existing = False
        elif kind == "math_block":
            self._begin(cursor, state, is_centred=True)
            base = self._base_format(state)
            write_formula(cursor, token.content, is_display=True, outer=base, theme=self._theme)
        else:  # a rule, or an item without text
            self._begin(cursor, state, is_rule=kind == "hr")
            cursor.insertText("\u200b", self.plain)
        return ()

    def write_inline(
        self,
        cursor: QTextCursor,
        tokens: Sequence[Token],
        base: QTextCharFormat,
        stands: tuple[int, ...] = (),
    ) -> tuple[int, ...]:
        """Write the inside of a paragraph, heading or cell; gives the positions before each token and at the end.

        With ``stands``, the positions of those that stand already, only the others are written.
        """
        formats = [base]
        num_standing = max(0, len(stands) - 1)
        places = list(stands[:-1])
        for index, token in enumerate(tokens):
            kind, is_written = token.type, index >= num_standing
            if is_written:
                places.append(cursor.position())
            if token.nesting == 1:
                formats.append(self._nested_format(formats[-1], token))
            elif token.nesting == -1:
                formats.pop()
            elif not is_written:
                continue
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
        return (*places, cursor.position())

    # ------------------------------------------------------------------------------------------ blocks

    def _begin(
        self,
        cursor: QTextCursor,
        state: ProseState,
        *,
        is_rule: bool = False,
        is_code: bool = False,
        is_centred: bool = False,
        direction: Qt.LayoutDirection | None = None,
        task: str = "",
    ) -> None:
        px = self._theme.px
        block = QTextBlockFormat()
        block.setLineHeight(self._theme.px(LINE_PX), AT_LEAST)
        block.setBottomMargin(px(9))
        if state.heading:
            block.setTopMargin(0 if state.use_existing else px(9))
            block.setBottomMargin(px(6))
            block.setHeadingLevel(int(state.heading[1]))
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
                block.setMarker(_MARKERS.get(task, QTextBlockFormat.MarkerType.NoMarker))
        if direction is not None:
            block.setLayoutDirection(direction)
        if state.use_existing:
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
            if task and direction == Qt.LayoutDirection.RightToLeft:
                cursor.insertText("\u2009", self.plain)  # Qt leaves no room between the box and the text

    # ------------------------------------------------------------------------------------------ characters

    def _base_format(self, state: ProseState) -> QTextCharFormat:
        result = QTextCharFormat(self.plain)
        if state.heading:
            size = _HEADING_PX.get(state.heading, 14.0)
            result.setFont(self._theme.font(size, weight=QFont.Weight.DemiBold))
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


def _resume(cursor: QTextCursor, state: ProseState) -> None:
    """Go on in a block that stands: what ``_begin`` does to ``state``."""
    item = state.lists[-1] if state.lists else None
    if item is not None and item.is_fresh:
        item.is_fresh = False
        item.list = item.list or cursor.currentList()


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
