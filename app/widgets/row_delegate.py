"""Draws the rows of a plain list: a title at the beginning, a short text in muted letters at the end."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from app.theme import Theme

_Index = QModelIndex | QPersistentModelIndex
_LEADING = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_TRAILING = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class RowDelegate(QStyledItemDelegate):
    """Marks what is chosen, and where the keyboard is while the list has it."""

    def __init__(self, theme: Theme, view: QListView, detail_role: int, height_px: int) -> None:
        """``detail_role`` gives the muted text; ``height_px`` is in the design's pixels."""
        super().__init__(view)
        self._theme = theme
        self._view = view
        self._detail_role = detail_role
        self._height_px = height_px

    def sizeHint(self, _option: QStyleOptionViewItem, _index: _Index) -> QSize:
        return QSize(10, self._theme.px(self._height_px))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        px, direction = self._theme.px, self._view.layoutDirection()
        box: QRect = option.rect
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setLayoutDirection(Qt.LayoutDirection.LayoutDirectionAuto)  # each text by its own letters
        is_selected = bool(option.state & QStyle.StateFlag.State_Selected)
        is_current = self._view.hasFocus() and index == self._view.currentIndex()
        painter.setPen(QPen(self._theme.colour("accent"), 1) if is_current else Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.colour("accent_wash") if is_selected else Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box.adjusted(1, 1, -1, -1), px(8), px(8))
        inner = box.adjusted(px(12), 0, -px(12), 0)
        painter.setFont(self._theme.font(12))
        painter.setPen(self._theme.colour("muted"))
        detail = str(index.data(self._detail_role) or "")
        painter.drawText(inner, int(QStyle.visualAlignment(direction, _TRAILING)), detail)
        room = inner.width() - painter.fontMetrics().horizontalAdvance(detail) - px(16)
        painter.setFont(self._theme.font(14))
        painter.setPen(self._theme.colour("text"))
        title = painter.fontMetrics().elidedText(str(index.data()), Qt.TextElideMode.ElideRight, room)
        painter.drawText(inner, int(QStyle.visualAlignment(direction, _LEADING)), title)
        painter.restore()
