"""Draws the sidebar's rows in the theme's colours: headings, folders, conversations. Knows no data but roles."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QLineEdit, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.chat.conversation_list_model import (
    EXCERPT,
    IS_FOLDER,
    LOOK,
    RowLook,
)
from app.theme import Theme
from app.translation import tr

_Index = QModelIndex | QPersistentModelIndex
_LEADING = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_TRAILING = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class ConversationDelegate(QStyledItemDelegate):
    """Draws rows and makes the field in which a title is edited.

    Attributes:
        drop_target: the row that a drag would drop on.
    """

    def __init__(self, theme: Theme, parent: QListView) -> None:
        super().__init__(parent)
        self._theme = theme
        self._view = parent
        self._fonts: dict[tuple[float, QFont.Weight], tuple[QFont, QFontMetrics]] = {}
        theme.changed.connect(self._fonts.clear)
        self.drop_target = QPersistentModelIndex()

    def sizeHint(self, _option: QStyleOptionViewItem, index: _Index) -> QSize:
        # All alike but excerpts: the list asks only one row then.
        return QSize(10, self._theme.px(56 if index.data(EXCERPT) else 35))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # each text by its own letters
        box: QRect = option.rect
        look: RowLook = index.data(LOOK)
        if look.is_heading:
            self._paint_heading(painter, box, look.text)
        else:
            self._paint_surface(painter, box, option.state, index)
            self._paint_row(painter, box.adjusted(0, 0, 0, self._theme.px(33) - box.height()), look)
            if look.excerpt:
                self._paint_excerpt(painter, box.adjusted(0, self._theme.px(29), 0, -self._theme.px(6)), look)
        painter.restore()

    def createEditor(self, parent: QWidget, _option: QStyleOptionViewItem, index: _Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setProperty("look", "rename")
        editor.setAccessibleName(tr("Name of the folder") if index.data(IS_FOLDER) else tr("Title of the chat"))
        editor.setMaxLength(200)
        editor.setFont(self._theme.font(13.5))
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, _index: _Index) -> None:
        px = self._theme.px
        box: QRect = option.rect
        editor.setGeometry(box.adjusted(px(8), px(2), -px(8), -px(2)))

    def _font(self, nominal_px: float, weight: QFont.Weight = QFont.Weight.Normal) -> tuple[QFont, QFontMetrics]:
        """A font of the theme with its measures, made once for each theme."""
        made = self._fonts.get((nominal_px, weight))
        if made is None:
            font = self._theme.font(nominal_px, weight=weight)
            made = self._fonts[nominal_px, weight] = (font, QFontMetrics(font))
        return made

    def _mirrored(self, part: QRect, whole: QRect) -> QRect:
        return QStyle.visualRect(self._view.layoutDirection(), whole, part)

    def _paint_heading(self, painter: QPainter, box: QRect, text: str) -> None:
        px = self._theme.px
        font = QFont(self._font(11, QFont.Weight.DemiBold)[0])
        font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, px(1) * 0.4)
        painter.setFont(font)
        painter.setPen(self._theme.colour("muted"))
        area = box.adjusted(px(16), 0, -px(16), -px(6))
        place = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom
        painter.drawText(area, int(QStyle.visualAlignment(self._view.layoutDirection(), place)), text.upper())

    def _paint_surface(self, painter: QPainter, box: QRect, state: QStyle.StateFlag, index: _Index) -> None:
        px, theme = self._theme.px, self._theme
        is_selected = bool(state & QStyle.StateFlag.State_Selected)
        is_target = self.drop_target.isValid() and index == self.drop_target
        surface = QRectF(box.adjusted(px(8), 0, -px(8), 0)).adjusted(0, 0.5, 0, -0.5)
        if is_selected or is_target or bool(state & QStyle.StateFlag.State_MouseOver):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.colour("accent_wash" if is_selected or is_target else "hover"))
            painter.drawRoundedRect(surface, px(8), px(8))
        if is_target or (self._view.hasFocus() and index == self._view.currentIndex()):
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(theme.colour("accent"), 1))
            painter.drawRoundedRect(surface.adjusted(0.5, 0.5, -0.5, -0.5), px(8), px(8))

    def _paint_row(self, painter: QPainter, box: QRect, look: RowLook) -> None:
        px, direction = self._theme.px, self._view.layoutDirection()
        inner = box.adjusted(px(18), 0, -px(18), 0)
        start, end = inner.left(), inner.right()
        if look.is_folder:
            side = px(14)
            is_rtl = direction == Qt.LayoutDirection.RightToLeft
            folded = "chevron-left" if is_rtl else "chevron-right"
            icon = self._theme.icon(folded if look.is_folded else "chevron-down", "muted", 14)
            place = QRect(start - px(4), inner.center().y() - side // 2 + 1, side, side)
            icon.paint(painter, self._mirrored(place, inner))
            start += px(14)
        elif look.is_inside:
            start += px(14)
        if look.is_busy:
            side = px(8)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._theme.colour("accent"))
            dot = QRect(end - side + 1, inner.center().y() - side // 2 + 1, side, side)
            painter.drawEllipse(QRectF(self._mirrored(dot, inner)))
            end -= side + px(8)
        else:
            small, metrics = self._font(12)
            painter.setFont(small)
            painter.setPen(self._theme.colour("muted"))
            painter.drawText(inner, int(QStyle.visualAlignment(direction, _TRAILING)), look.trailing)
            end -= metrics.horizontalAdvance(look.trailing) + px(10)
        font, metrics = self._font(14, QFont.Weight.DemiBold if look.is_open else QFont.Weight.Normal)
        painter.setFont(font)
        painter.setPen(self._theme.colour("text"))
        area = QRect(start, inner.top(), max(0, end - start), inner.height())
        title = metrics.elidedText(look.text, Qt.TextElideMode.ElideRight, area.width())
        place = self._mirrored(area, inner)
        if look.words and not look.is_folder:
            self._paint_marked(painter, place, title, font, look.words)
        else:
            painter.drawText(place, int(QStyle.visualAlignment(direction, _LEADING)), title)

    def _paint_excerpt(self, painter: QPainter, box: QRect, look: RowLook) -> None:
        px, (font, metrics) = self._theme.px, self._font(12)
        inner = box.adjusted(px(18), 0, -px(18), 0)
        text = metrics.elidedText(look.excerpt, Qt.TextElideMode.ElideRight, inner.width())
        painter.setPen(self._theme.colour("muted"))
        self._paint_marked(painter, inner, text, font, look.words)

    def _paint_marked(self, painter: QPainter, box: QRect, text: str, font: QFont, words: tuple[str, ...]) -> None:
        """One line of text, with the words that were searched for in the accent's colour."""
        from app.chat.marked_text import draw_marked  # what lays texts out is not needed for the first picture

        alignment = QStyle.visualAlignment(self._view.layoutDirection(), Qt.AlignmentFlag.AlignLeft)
        draw_marked(painter, box, text, font, alignment, words, self._theme.colour("accent"))
