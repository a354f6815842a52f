"""A bar with one sentence and at most one thing to do about it.

It covers nothing, and takes the focus only where the person began something that it asks about.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.announce import announce
from app.widgets.buttons import IconButton, LookButton
from app.widgets.label import WrappingLabel

_READING_MS = 12_000
_LEAST_WORDS_PX = 220  # of the sentence beside the button


class NoticeBar(QFrame):
    """Hidden until there is something to say; the last sentence wins."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setProperty("look", "notice")
        self._label = WrappingLabel()
        self._action_button = LookButton(theme, tr("Undo"))
        self._close = IconButton(theme, "close", tr("Dismiss"))
        self._action: Callable[[], object] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.hide)
        self._is_wide = True
        self._grid = QGridLayout(self)
        self._grid.setColumnStretch(0, 1)
        self._grid.addWidget(self._label, 0, 0)
        self._grid.addWidget(self._action_button, 0, 1)
        self._grid.addWidget(self._close, 0, 2)
        self._action_button.clicked.connect(self._on_action)
        self._close.clicked.connect(self.hide)
        self._apply_metrics()
        theme.changed.connect(self._apply_metrics)
        self.hide()

    @property
    def text(self) -> str:
        """The sentence that is shown, or was last."""
        return self._label.text()

    def show_text(
        self, text: str, *, action_name: str = "", action: Callable[[], object] | None = None, for_ms: int = 0
    ) -> None:
        """Say ``text``; ``for_ms`` 0 stays until it is dismissed."""
        self._label.setText(text)
        self._label.setAccessibleName(text)
        self._action = action
        self._action_button.setText(action_name)
        self._action_button.setAccessibleName(action_name)
        self._action_button.setVisible(action is not None)
        self._fit_width()
        self._timer.stop()
        if for_ms:
            self._timer.start(for_ms)
        self.show()
        announce(self, text)

    def offer_undo(self, text: str, undo: Callable[[], object]) -> None:
        """Say one sentence about what is gone, with the way back."""
        self.show_text(text, action_name=tr("Undo"), action=undo, for_ms=_READING_MS)

    def ask(self, text: str, action_name: str, action: Callable[[], object]) -> None:
        """Ask back: whoever works with the keyboard is at the answer."""
        self.show_text(text, action_name=action_name, action=action)
        self._action_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def withdraw(self, text: str) -> None:
        """``text`` is true no longer; another sentence stays."""
        if text and text == self.text:
            self.hide()

    def _on_action(self) -> None:
        action = self._action
        self.hide()
        if action is not None:
            action()

    def _apply_metrics(self) -> None:
        px = self._theme.px
        self._grid.setContentsMargins(px(14), px(6), px(8), px(6))
        self._grid.setSpacing(px(8))
        self._fit_width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_width()

    def _fit_width(self) -> None:
        """The button stands below the sentence where that would have no room beside it."""
        beside = self._action_button.sizeHint().width() + self._close.sizeHint().width()
        is_wide = self._action is None or self.width() - beside >= self._theme.px(_LEAST_WORDS_PX)
        if is_wide != self._is_wide:
            self._is_wide = is_wide
            self._grid.removeWidget(self._action_button)
            place = (0, 1) if is_wide else (1, 0)
            self._grid.addWidget(self._action_button, *place, Qt.AlignmentFlag.AlignLeft)
