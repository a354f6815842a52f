"""The row under a message: versions, actions, and the line of figures. Its height never changes."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QWidget

from app.chat.message_actions import WORDS, MessageAction
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import IconButton, TextButton
from app.widgets.label import ElidingLabel, Label

_LEAST_WIDTH_PX = 260


class MessageFoot(QWidget):
    """Versions, the actions as words, and a menu with all of them.

    Signals:
        asked(MessageAction): what the person wants of the message.
    """

    asked = Signal(object)

    def __init__(
        self, theme: Theme, actions: Sequence[MessageAction], *, is_own: bool, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        px = theme.px
        self.setFixedHeight(px(26))
        # Always the same, whatever is shown: for each least width the whole message would be measured anew.
        self.setMinimumWidth(px(_LEAST_WIDTH_PX))
        self._is_own = is_own
        self._is_active = False
        self._is_busy = False
        self._num_siblings = 1
        self._offered = tuple(actions)
        self._unavailable: frozenset[MessageAction] = frozenset()
        self._previous = IconButton(theme, "chevron-left", tr("Previous version (Alt+Left)"))
        self._next = IconButton(theme, "chevron-right", tr("Next version (Alt+Right)"))
        self._versions = Label("", "muted")
        self._versions.setAccessibleName(tr("Version shown"))
        self._status = ElidingLabel("", "muted")
        self._status.setAccessibleName(tr("Figures"))
        self._status.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._buttons = {action: self._button(theme, action) for action in actions if WORDS[action].button}
        self._more = IconButton(theme, "more", tr("More for this message"))
        self._more.clicked.connect(self._show_more)
        self._spacing = px(7)
        self._lay_out(self._spacing, px(1))
        self._previous.clicked.connect(lambda: self.asked.emit(MessageAction.PREVIOUS))
        self._next.clicked.connect(lambda: self.asked.emit(MessageAction.NEXT))
        self._refresh()

    def _button(self, theme: Theme, action: MessageAction) -> TextButton:
        button = TextButton(theme, WORDS[action].button)
        button.setAccessibleName(WORDS[action].name)
        button.clicked.connect(lambda: self._on_button(action))
        return button

    def _lay_out(self, spacing: int, version_spacing: int) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(spacing)
        versions = QHBoxLayout()
        versions.setSpacing(version_spacing)
        for widget in (self._previous, self._versions, self._next):
            versions.addWidget(widget)
        if self._is_own:
            row.addStretch(1)
        else:
            row.addLayout(versions)
        for button in (*self._buttons.values(), self._more):
            row.addWidget(button)
        if self._is_own:
            row.addLayout(versions)  # at the edge, so that they stay where they are when the others appear
        else:
            row.addStretch(1)
            row.addWidget(self._status, 1000)

    def set_siblings(self, index: int, count: int) -> None:
        """Which version is shown, from 0, and how many there are."""
        self._num_siblings = count
        self._versions.setText(f"{index + 1} / {count}")
        self._previous.setEnabled(index > 0)
        self._next.setEnabled(index < count - 1)
        self._refresh()

    def set_unavailable(self, actions: frozenset[MessageAction]) -> None:
        """Leave out what cannot be done with this message."""
        self._unavailable = actions
        self._refresh()

    def set_active(self, is_active: bool) -> None:
        """Show the actions: the pointer or the focus is on the message, or it is the last answer."""
        if is_active != self._is_active:
            self._is_active = is_active
            self._refresh()

    def set_busy(self, is_busy: bool) -> None:
        """Hide the actions while the answer is being written."""
        self._is_busy = is_busy
        self._refresh()

    def set_status(self, text: str) -> None:
        """The line of figures, or what is going on."""
        self._status.set_whole_text(text)

    @property
    def status(self) -> str:
        """The line of figures as it is shown."""
        return self._status.whole_text

    def fill_menu(self, menu: QMenu) -> None:
        """Add everything that can be done with the message now; nothing while it is being written."""
        for action in () if self._is_busy else self._offered:
            if action not in self._unavailable:
                entry = menu.addAction(WORDS[action].menu)
                entry.triggered.connect(lambda _checked=False, action=action: self.asked.emit(action))

    def _show_more(self) -> None:
        menu = QMenu(self)
        self.fill_menu(menu)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._more.mapToGlobal(self._more.rect().bottomLeft()))

    def _refresh(self) -> None:
        shows_actions = self._is_active and not self._is_busy
        room = self.width() - self._versions_width() - self._more.sizeHint().width()
        for action, button in self._buttons.items():
            is_shown = shows_actions and action not in self._unavailable
            if is_shown:
                room -= button.sizeHint().width() + self._spacing
            button.setVisible(is_shown and room >= 0)  # the menu has those without room, too
        self._more.setVisible(shows_actions)
        shows_versions = self._num_siblings > 1 and not self._is_busy
        for widget in (self._previous, self._versions, self._next):
            widget.setVisible(shows_versions)
        if not self._is_own:  # without a place in the row it would be a window of its own
            self._status.setVisible(self._is_busy or self._is_active)

    def _versions_width(self) -> int:
        shown = (self._previous, self._versions, self._next) if self._num_siblings > 1 else ()
        return sum(widget.sizeHint().width() + self._spacing for widget in shown)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width() and self._is_active:
            self._refresh()

    def _on_button(self, action: MessageAction) -> None:
        self.asked.emit(action)
        if action is MessageAction.COPY:
            button = self._buttons[action]
            button.setText(tr("Copied"))
            QTimer.singleShot(1200, button, lambda: button.setText(WORDS[action].button))
