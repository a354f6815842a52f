"""What pages beside the chat have in common: a bar with the way back, and one column of cards that scrolls."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtWidgets import QApplication, QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import IconButton
from app.widgets.flow_layout import FlowLayout
from app.widgets.label import Label

_BAR_PX = 48
_MARGIN_PX = 20
_ROW_PX = 10  # between the middles of what stands in one row, at most


class PageBar(QWidget):
    """The page's title, what the page puts beside it, and the way back to the chat.

    What has no room beside the title stands below it.

    Signals:
        closed: back to the chat.
    """

    closed = Signal()

    def __init__(self, theme: Theme, title: str, beside: QWidget | None = None) -> None:
        super().__init__()
        self.setObjectName("bar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._theme = theme
        close = IconButton(theme, "close", tr("Back to the chat (Esc)"))
        close.clicked.connect(self.closed)
        self._title = Label(title, "section")
        self._beside = beside or QWidget()
        self._close = close
        self._is_wide = True
        self._grid = QGridLayout(self)
        self._grid.setColumnStretch(1, 1)
        self._grid.addWidget(self._title, 0, 0)
        self._grid.addWidget(self._beside, 0, 1, Qt.AlignmentFlag.AlignVCenter)
        self._grid.addWidget(close, 0, 2)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._grid.setContentsMargins(px(16), 0, px(12), 1)
        self._grid.setSpacing(px(12))
        self._fit_width()

    def event(self, event: QEvent) -> bool:
        if event.type() in {QEvent.Type.LayoutRequest, QEvent.Type.Resize}:
            self._fit_width()
        return super().event(event)

    def _fit_width(self) -> None:
        px = self._theme.px
        inner = self.width() - px(16) - px(12)
        room = inner - self._title.sizeHint().width() - self._close.sizeHint().width() - 2 * px(12)
        layout = self._beside.layout()
        is_flow = isinstance(layout, FlowLayout)  # what is none fits itself into what there is
        is_wide = not is_flow or self._beside.sizeHint().width() <= room
        if is_wide != self._is_wide:
            self._is_wide = is_wide
            self._grid.removeWidget(self._beside)
            if is_wide:
                self._grid.addWidget(self._beside, 0, 1, Qt.AlignmentFlag.AlignVCenter)
            else:
                self._grid.addWidget(self._beside, 1, 0, 1, 3)
        height = px(_BAR_PX)
        self._grid.setRowMinimumHeight(0, height - 1)
        if not is_wide:
            height += self._beside.heightForWidth(inner) + px(12)
        self._grid.setVerticalSpacing(0)
        self._grid.setContentsMargins(px(16), 0, px(12), 1 if is_wide else px(12))
        if height != self.maximumHeight():
            self.setFixedHeight(height)


class ScrollingColumn(QScrollArea):
    """One column in the middle, as wide as there is room for up to a measure; it scrolls up and down alone.

    It is never wider than what is seen of it: cards find a form that fits.

    What gets the focus by Tab is scrolled into sight, and Tab goes from the top down, whatever was made first.

    Attributes:
        column: the layout to put the cards into, from the top.
    """

    def __init__(self, theme: Theme, name: str, width_px: int, spacing_px: int) -> None:
        """``width_px`` is the most that the column takes, ``spacing_px`` lies between two cards."""
        super().__init__()
        self._theme = theme
        self._width_px, self._spacing_px = width_px, spacing_px
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._body = QWidget()
        self.column = QVBoxLayout(self._body)
        self.column.setContentsMargins(0, 0, 0, 0)
        self._holder = QWidget()
        self._holder.setMinimumWidth(1)  # else it would be as wide as its cards want, and nobody could scroll there
        self._row = QHBoxLayout(self._holder)
        self._row.addStretch(1)
        # Not the layout's own alignment, which would give it no more than its hint where its width asks for more.
        self._row.addWidget(self._body, 1000, Qt.AlignmentFlag.AlignTop)
        self._row.addStretch(1)
        self.setWidget(self._holder)
        self._order: list[QWidget] = []
        self._ordering = QTimer(self)
        self._ordering.setSingleShot(True)
        self._ordering.setInterval(0)
        self._ordering.timeout.connect(self._order_tabs)
        self._body.installEventFilter(self)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)

    def show_from(self, part: QWidget) -> None:
        """Scroll until this part of the column is at the top, as far as there is enough below it."""
        top = part.mapTo(self._holder, QPoint(0, 0)).y()
        self.verticalScrollBar().setValue(top - self._theme.px(_MARGIN_PX))

    def show_top(self) -> None:
        """Scroll to the beginning."""
        self.verticalScrollBar().setValue(0)

    @contextlib.contextmanager
    def holding(self, parts: Sequence[QWidget]) -> Iterator[None]:
        """What changes above does not move the part that the person points at or writes in, of these parts."""
        anchor = next((part for part in parts if self._is_in_use(part)), None)
        before = anchor.mapTo(self.viewport(), QPoint(0, 0)).y() if anchor is not None else 0
        yield
        if anchor is None:
            self._holder.setMinimumHeight(0)
            return
        self._settle()
        bar = self.verticalScrollBar()
        wanted = bar.value() + anchor.mapTo(self.viewport(), QPoint(0, 0)).y() - before
        # A short page has to become long enough to be scrolled so far.
        self._holder.setMinimumHeight(max(0, wanted) + self.viewport().height() if wanted > bar.maximum() else 0)
        self._settle()
        bar.setValue(wanted)

    def _is_in_use(self, part: QWidget) -> bool:
        focus = QApplication.focusWidget()
        has_focus = focus is not None and part.isAncestorOf(focus)
        return part.isVisible() and (part.underMouse() or has_focus)

    def _settle(self) -> None:
        """Lay out at once what else would be laid out later."""
        self._holder.updateGeometry()
        for layout in (self.column, self._row):
            layout.activate()
        QCoreApplication.sendEvent(self, QEvent(QEvent.Type.LayoutRequest))
        for layout in (self._row, self.column):
            layout.activate()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._body and event.type() == QEvent.Type.LayoutRequest:
            self._ordering.start()  # cards came or went; once they have their places
        return super().eventFilter(watched, event)

    def _order_tabs(self) -> None:
        """Row by row; what is hidden or cannot have the focus takes no part."""
        if not self.isVisible():
            return
        widgets = [
            widget
            for widget in self._body.findChildren(QWidget)
            if widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isVisibleTo(self._body)
        ]
        places = {widget: widget.mapTo(self._body, widget.rect().center()) for widget in widgets}
        widgets.sort(key=lambda widget: places[widget].y())
        rows: list[list[QWidget]] = []
        for widget in widgets:
            if rows and places[widget].y() - places[rows[-1][-1]].y() < self._theme.px(_ROW_PX):
                rows[-1].append(widget)
            else:
                rows.append([widget])
        order = [widget for row in rows for widget in sorted(row, key=lambda each: places[each].x())]
        if order == self._order:
            return
        self._order = order
        for first, second in itertools.pairwise(order):
            QWidget.setTabOrder(first, second)

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._row.setContentsMargins(px(_MARGIN_PX), px(_MARGIN_PX), px(_MARGIN_PX), px(24))
        self._body.setMaximumWidth(px(self._width_px))
        self.column.setSpacing(px(self._spacing_px))
