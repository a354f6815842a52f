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
        self._theme = theme
        self._is_own = is_own
        self._is_active = False
        self._is_busy = False
        self._sibling_index, self._num_siblings = 0, 1
        self._offered = tuple(actions)
        self._unavailable: frozenset[MessageAction] = frozenset()
        self._status_text = ""
        # Buttons and labels are made when they are first shown: in a long chat most of them never are.
        self._buttons: dict[MessageAction, TextButton] = {}
        self._more: IconButton | None = None
        self._versions: Label | None = None
        self._steps: tuple[IconButton, ...] = ()
        self._status: ElidingLabel | None = None
        self._spacing = px(7)
        self._lay_out(self._spacing, px(1))

    def _lay_out(self, spacing: int, version_spacing: int) -> None:
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(spacing)
        self._version_row, self._action_row = QHBoxLayout(), QHBoxLayout()
        self._version_row.setSpacing(version_spacing)
        if self._is_own:
            self._row.addStretch(1)
            self._row.addLayout(self._action_row)
            self._row.addLayout(self._version_row)  # at the edge: they stay where they are when the others appear
        else:
            self._row.addLayout(self._version_row)
            self._row.addLayout(self._action_row)
            self._row.addStretch(1)

    def _make_actions(self) -> IconButton:
        for action in self._offered:
            if WORDS[action].button:
                button = self._buttons[action] = TextButton(self._theme, WORDS[action].button)
                button.setAccessibleName(WORDS[action].name)
                button.clicked.connect(lambda _checked=False, action=action: self._on_button(action))
                self._action_row.addWidget(button)
        more = IconButton(self._theme, "more", tr("More for this message"))
        more.clicked.connect(self._show_more)
        self._action_row.addWidget(more)
        self._order(*self._buttons.values(), more)
        return more

    def _make_versions(self) -> Label:
        previous = IconButton(self._theme, "chevron-left", tr("Previous version (Alt+Left)"))
        following = IconButton(self._theme, "chevron-right", tr("Next version (Alt+Right)"))
        versions = Label("", "muted")
        versions.setAccessibleName(tr("Version shown"))
        previous.clicked.connect(lambda: self.asked.emit(MessageAction.PREVIOUS))
        following.clicked.connect(lambda: self.asked.emit(MessageAction.NEXT))
        for widget in (previous, versions, following):
            self._version_row.addWidget(widget)
        self._steps = (previous, following)
        self._order(*self._steps)
        return versions

    def _make_status(self) -> ElidingLabel:
        status = ElidingLabel(self._status_text, "muted")
        status.setAccessibleName(tr("Figures"))
        status.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._row.addWidget(status, 1000)
        return status

    def _order(self, *buttons: QWidget) -> None:
        """Let the keyboard reach what was made late right behind the message itself."""
        for before, button in zip((self.parentWidget(), *buttons), buttons):
            if before is not None:
                QWidget.setTabOrder(before, button)

    def set_siblings(self, index: int, count: int) -> None:
        """Which version is shown, from 0, and how many there are."""
        self._sibling_index, self._num_siblings = index, count
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
        self._status_text = text
        if self._status is not None:
            self._status.set_whole_text(text)

    @property
    def status(self) -> str:
        """The line of figures as it is shown."""
        return self._status_text

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
        assert self._more is not None, "who else could be pressed"
        menu.popup(self._more.mapToGlobal(self._more.rect().bottomLeft()))

    def _refresh(self) -> None:
        shows_actions = self._is_active and not self._is_busy
        self._refresh_versions(self._num_siblings > 1 and not self._is_busy)
        if shows_actions and self._more is None:
            self._more = self._make_actions()
        if self._more is not None:
            self._refresh_actions(self._more, shows_actions)
        shows_status = not self._is_own and (self._is_busy or self._is_active)
        if shows_status and self._status is None:
            self._status = self._make_status()
        if self._status is not None:
            self._status.setVisible(shows_status)

    def _refresh_actions(self, more: IconButton, is_shown: bool) -> None:
        room = self.width() - self._versions_width() - more.sizeHint().width()
        for action, button in self._buttons.items():
            is_offered = is_shown and action not in self._unavailable
            if is_offered:
                room -= button.sizeHint().width() + self._spacing
            button.setVisible(is_offered and room >= 0)  # the menu has those without room, too
        more.setVisible(is_shown)

    def _refresh_versions(self, is_shown: bool) -> None:
        if is_shown and self._versions is None:
            self._versions = self._make_versions()
        if self._versions is not None:
            self._versions.setText(f"{self._sibling_index + 1} / {self._num_siblings}")
            self._steps[0].setEnabled(self._sibling_index > 0)
            self._steps[1].setEnabled(self._sibling_index < self._num_siblings - 1)
            for widget in (self._steps[0], self._versions, self._steps[1]):
                widget.setVisible(is_shown)

    def _versions_width(self) -> int:
        if self._versions is None or self._num_siblings <= 1:
            return 0
        shown = (self._steps[0], self._versions, self._steps[1])
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
