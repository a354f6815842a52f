"""What every message in the transcript has: a row of actions and figures that wakes up under the pointer.

Messages show one ``MessageView`` of the controller and say what the person wants; they act on nothing themselves.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QEnterEvent, QGuiApplication, QKeyEvent, QKeySequence, QTextCursor
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.chat.conversation import MessageView
from app.storage.records import MessageStatus
from app.theme import Theme
from app.widgets.buttons import IconButton, LookButton, TextButton
from app.widgets.growing_edit import GrowingEdit
from app.widgets.label import Label
from engine.protocol import Role


class MessageFoot(QWidget):
    """The row under a message: versions, actions, and the line of figures. Its height never changes.

    Signals:
        sibling_requested(step): show the version before (-1) or after (+1).
        copy_requested: put the message on the clipboard.
        edit_requested: write it anew.
        regenerate_requested: answer again.
    """

    sibling_requested = Signal(int)
    copy_requested = Signal()
    edit_requested = Signal()
    regenerate_requested = Signal()

    def __init__(self, theme: Theme, *, is_own: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        px = theme.px
        self.setFixedHeight(px(26))
        self._previous = IconButton(theme, "chevron-left", "Previous version")
        self._next = IconButton(theme, "chevron-right", "Next version")
        self._versions = Label("", "muted")
        self._versions.setAccessibleName("Version shown")
        self._copy = TextButton(theme, "Copy")
        self._copy.setAccessibleName("Copy the message")
        self._edit = TextButton(theme, "Edit")
        self._edit.setAccessibleName("Edit the message")
        self._status = Label("", "muted")
        self._status.setAccessibleName("Figures")
        self._status.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._status.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._is_own = is_own
        self._is_active = False
        self._is_busy = False
        self._num_siblings = 1
        self._actions = [self._copy, self._edit]
        if not is_own:
            self._regenerate = TextButton(theme, "Regenerate")
            self._regenerate.setAccessibleName("Answer again")
            self._regenerate.clicked.connect(self.regenerate_requested)
            self._actions.append(self._regenerate)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(px(7))
        if is_own:
            row.addStretch(1)
        versions = QHBoxLayout()
        versions.setSpacing(px(1))
        for widget in (self._previous, self._versions, self._next):
            versions.addWidget(widget)
        row.addLayout(versions)
        for button in self._actions:
            row.addWidget(button)
        if not is_own:
            row.addStretch(1)
            row.addWidget(self._status, 1000)
        self._previous.clicked.connect(lambda: self.sibling_requested.emit(-1))
        self._next.clicked.connect(lambda: self.sibling_requested.emit(1))
        self._copy.clicked.connect(self._on_copy)
        self._edit.clicked.connect(self.edit_requested)
        self._refresh()

    def set_siblings(self, index: int, count: int) -> None:
        """Which version is shown, from 0, and how many there are."""
        self._num_siblings = count
        self._versions.setText(f"{index + 1} / {count}")
        self._previous.setEnabled(index > 0)
        self._next.setEnabled(index < count - 1)
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
        self._status.setText(text)

    @property
    def status(self) -> str:
        """The line of figures as it is shown."""
        return self._status.text()

    def _refresh(self) -> None:
        shows_actions = self._is_active and not self._is_busy
        for button in self._actions:
            button.setVisible(shows_actions)
        shows_versions = self._num_siblings > 1 and (shows_actions or not self._is_own) and not self._is_busy
        for widget in (self._previous, self._versions, self._next):
            widget.setVisible(shows_versions)
        if not self._is_own:  # without a place in the row it would be a window of its own
            self._status.setVisible(self._is_busy or self._is_active)

    def _on_copy(self) -> None:
        self.copy_requested.emit()
        self._copy.setText("Copied")
        QTimer.singleShot(1200, self._copy, lambda: self._copy.setText("Copy"))


class MessageEditor(QFrame):
    """A message being written anew.

    Signals:
        submitted(text): Enter or the button, with something to take.
        cancelled: Escape or the other button.
    """

    submitted = Signal(str)
    cancelled = Signal()

    def __init__(self, theme: Theme, text: str, word: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        px = theme.px
        self.edit = GrowingEdit(theme, max_lines=14)
        self.edit.setAccessibleName("Edit the message")
        self.edit.setPlainText(text)
        self.edit.moveCursor(QTextCursor.MoveOperation.End)
        take = LookButton(theme, word, "primary")
        cancel = LookButton(theme, "Cancel")
        buttons = QHBoxLayout()
        buttons.setSpacing(px(8))
        buttons.addStretch(1)
        buttons.addWidget(cancel)
        buttons.addWidget(take)
        inside = QVBoxLayout(self)
        inside.setContentsMargins(px(13), px(11), px(11), px(10))
        inside.setSpacing(px(8))
        inside.addWidget(self.edit)
        inside.addLayout(buttons)
        self.edit.submitted.connect(self._on_take)
        self.edit.cancelled.connect(self.cancelled)
        take.clicked.connect(self._on_take)
        cancel.clicked.connect(self.cancelled)

    def _on_take(self) -> None:
        if text := self.edit.toPlainText().strip():
            self.submitted.emit(text)


class MessageWidget(QWidget):
    """What both kinds of messages share: a foot that wakes up under the pointer or the focus.

    Attributes:
        view: the message that is shown.
        edited: the widget that an editor takes the place of, in ``edit_layout``.

    Signals:
        edit_requested(message_id, text), regenerate_requested(message_id), sibling_requested(message_id, step)
        edit_left: an editor that had the keyboard's focus is gone.
        notice(text): something could not be done.
    """

    edit_requested = Signal(str, str)
    regenerate_requested = Signal(str)
    sibling_requested = Signal(str, int)
    edit_left = Signal()
    notice = Signal(str)

    def __init__(self, theme: Theme, view: MessageView, *, is_own: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.view = view
        self._is_hovered = False
        self._has_focus_inside = False
        self._is_last = False
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.foot = MessageFoot(theme, is_own=is_own)
        self.foot.set_siblings(view.sibling_index, view.num_siblings)
        self._editor: MessageEditor | None = None
        self.edited: QWidget
        self.edit_layout: QBoxLayout
        self.foot.copy_requested.connect(self._copy)
        self.foot.edit_requested.connect(self.begin_edit)
        self.foot.regenerate_requested.connect(lambda: self.regenerate_requested.emit(self.message_id))
        self.foot.sibling_requested.connect(lambda step: self.sibling_requested.emit(self.message_id, step))

    @property
    def message_id(self) -> str:
        """The id of the message that is shown."""
        return self.view.record.id

    @property
    def current_view(self) -> MessageView:
        """The message with all of its text that has come."""
        return self.view

    def begin_edit(self) -> None:
        """Put an editor in the text's place; Enter takes the new version, Escape gives up."""
        if self._editor is not None:
            return
        word = "Send" if self.view.record.role is Role.USER else "Save"
        self._editor = MessageEditor(self._theme, self.view.record.content, word)
        self._editor.submitted.connect(self._on_edited)
        self._editor.cancelled.connect(self.end_edit)
        self.edited.hide()
        self.foot.set_busy(True)
        self.edit_layout.insertWidget(self.edit_layout.indexOf(self.edited), self._editor, 1000)
        self._editor.edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def end_edit(self) -> None:
        """Show the text again."""
        if self._editor is not None:
            had_focus = self._editor.edit.hasFocus()
            self.edit_layout.removeWidget(self._editor)
            self._editor.hide()
            self._editor.deleteLater()
            self._editor = None
            self.edited.show()
            self.foot.set_busy(self.view.record.status is MessageStatus.STREAMING)
            if had_focus:
                self.edit_left.emit()

    def _on_edited(self, text: str) -> None:
        self.end_edit()
        if text != self.view.record.content:
            self.edit_requested.emit(self.message_id, text)

    def show_view(self, view: MessageView) -> None:
        """Show another state of the same message."""
        raise NotImplementedError

    def set_last(self, is_last: bool) -> None:
        """Whether it is the last message, whose foot always shows."""
        self._is_last = is_last
        self._refresh_foot()

    def set_focus_inside(self, is_inside: bool) -> None:
        """Whether the keyboard's focus is on the message or in it."""
        self._has_focus_inside = is_inside
        self._refresh_foot()

    def enterEvent(self, event: QEnterEvent) -> None:
        self._is_hovered = True
        self._refresh_foot()
        super().enterEvent(event)

    def leaveEvent(self, event: QEvent) -> None:
        self._is_hovered = False
        self._refresh_foot()
        super().leaveEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self._copy()
        else:
            super().keyPressEvent(event)

    def _refresh_foot(self) -> None:
        self.foot.set_active(self._is_hovered or self._has_focus_inside or self._is_last)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.view.record.content)
