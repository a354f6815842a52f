"""Draws one line of text with the words that were searched for in a colour of their own."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRect, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QTextCharFormat, QTextLayout, QTextOption

from app.storage.search import marked_places


def draw_marked(
    painter: QPainter,
    box: QRect,
    text: str,
    font: QFont,
    alignment: Qt.AlignmentFlag,
    words: tuple[str, ...],
    colour: QColor,
) -> None:
    """Draw ``text`` in the middle of the height of ``box``; ``words`` get ``colour``, the rest the pen's."""
    layout = QTextLayout(text, font)
    option = QTextOption(alignment)
    option.setWrapMode(QTextOption.WrapMode.NoWrap)
    layout.setTextOption(option)
    layout.setFormats([_mark(text, start, end, colour) for start, end in marked_places(text, words)])
    layout.beginLayout()
    line = layout.createLine()
    line.setLineWidth(box.width())
    layout.endLayout()
    layout.draw(painter, QPointF(box.left(), box.center().y() + 1 - line.height() / 2))


def _mark(text: str, start: int, end: int, colour: QColor) -> QTextLayout.FormatRange:
    mark = QTextLayout.FormatRange()
    mark.start = _utf16_length(text[:start])
    mark.length = _utf16_length(text[start:end])
    look = QTextCharFormat()
    look.setForeground(colour)
    mark.format = look
    return mark


def _utf16_length(text: str) -> int:
    """The length of ``text`` in Qt's units."""
    return len(text) + sum(1 for character in text if ord(character) > 0xFFFF)
