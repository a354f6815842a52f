"""A bar with one sentence and at most one thing to do about it.

It covers nothing, and takes the focus only where the person began something that it asks about.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from app.theme import Theme
from app.translation import tr
from app.widgets.announce import announce
from app.widgets.buttons import IconButton, LookButton
from app.widgets.label import WrappingLabel


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
        self._row = QHBoxLayout(self)
        self._row.addWidget(self._label, 1)
        self._row.addWidget(self._action_button)
        self._row.addWidget(self._close)
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
        self._timer.stop()
        if for_ms:
            self._timer.start(for_ms)
        self.show()
        announce(self, text)

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
        self._row.setContentsMargins(px(14), px(6), px(8), px(6))
        self._row.setSpacing(px(8))
