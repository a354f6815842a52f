"""A scrolling view that follows its end while the person is at the end, and is moved by nothing else."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QScrollArea, QScrollBar, QWidget

from app.theme import Theme

_AT_END_PX = 4


class _OpaqueBar(QScrollBar):
    """A scroll bar that paints its ground itself: when it moves, nothing behind it is drawn anew."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme

    def event(self, event: QEvent) -> bool:
        is_handled = super().event(event)
        if event.type() in {QEvent.Type.Polish, QEvent.Type.StyleChange}:
            self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # which a style sheet takes away
        return is_handled

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(event.rect(), self._theme.colour("background"))
        painter.end()
        super().paintEvent(event)


class FollowingArea(QScrollArea):
    """Follows while ``is_following``; any upward input of the person ends that, and coming to the end begins it.

    Attributes:
        is_following: the view stays at the end while its content grows.

    Signals:
        following_changed(is_following): the person left the end, or came back to it.
    """

    following_changed = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.is_following = True
        self._is_adjusting = False  # while content is made above, which must move nothing
        bar = _OpaqueBar(theme)
        self.setVerticalScrollBar(bar)
        if (holder := bar.parentWidget()) is not None:
            holder.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # it is as large as the bar
        bar.rangeChanged.connect(self._on_range)
        bar.actionTriggered.connect(self._on_bar_action)

    @property
    def has_end(self) -> bool:
        """Whether the end of the content is the end of what there is."""
        return True

    def scroll_to_end(self) -> None:
        """Go to the end and follow it."""
        self._set_following(True)
        self._scroll_to_end()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().y() > 0 and self.verticalScrollBar().maximum() > 0:
            self._set_following(False)
        super().wheelEvent(event)
        self._follow_if_at_end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in {Qt.Key.Key_Up, Qt.Key.Key_PageUp, Qt.Key.Key_Home}:
            self._set_following(False)
        bar = self.verticalScrollBar()
        if event.key() == Qt.Key.Key_Home:
            bar.setValue(bar.minimum())
        elif event.key() == Qt.Key.Key_End:
            self.scroll_to_end()
        else:
            super().keyPressEvent(event)
        self._follow_if_at_end()

    def _on_bar_action(self, _action: int) -> None:
        # The slider's position is the one that the person asked for; value() follows after this signal.
        bar = self.verticalScrollBar()
        self._set_following(bar.sliderPosition() >= bar.maximum() - _AT_END_PX and self.has_end)

    def _on_range(self, _minimum: int, maximum: int) -> None:
        if self.is_following and not self._is_adjusting:
            self.verticalScrollBar().setValue(maximum)

    def _follow_if_at_end(self) -> None:
        bar = self.verticalScrollBar()
        if bar.value() >= bar.maximum() - _AT_END_PX and self.has_end:
            self._set_following(True)

    def _scroll_to_end(self) -> None:
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())

    def _set_following(self, is_following: bool) -> None:
        if is_following != self.is_following:
            self.is_following = is_following
            self.following_changed.emit(is_following)
