"""Find in chat: the bar, the counting and the marks, wired together for the chat that is open."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from app.chat.controller import ChatController
from app.chat.figures import count
from app.chat.find_bar import FindBar
from app.chat.finder import Finder, Hit
from app.chat.found_marks import FoundMarks
from app.chat.found_text import wanted
from app.chat.selection import selected_text
from app.chat.transcript import Transcript
from app.theme import Theme
from app.throttle import Throttle
from app.translation import tr

REFRESH_MS = 400  # while an answer streams


class FindInChat(QObject):
    """Finds text in the shown branch of the open chat, in messages without a widget as well.

    Attributes:
        bar: shown while the person looks for something.
    """

    def __init__(
        self, controller: ChatController, transcript: Transcript, theme: Theme, column: QVBoxLayout, page: QWidget
    ) -> None:
        """``column`` of ``page`` gets the bar at its top."""
        super().__init__(page)
        self._controller = controller
        self._transcript = transcript
        self._column = column
        self._focus: QWidget | None = None  # what had the keyboard before
        self.bar = FindBar(theme)
        self.bar.hide()
        column.insertWidget(0, self.bar)
        self._finder = Finder(self)
        self._marks = FoundMarks(transcript, theme, self)
        self._refresher = Throttle(REFRESH_MS, self._refresh, self)
        self.bar.field.textChanged.connect(self._look)
        self.bar.step_requested.connect(self._finder.step)
        self.bar.closed.connect(self.close)
        self._finder.counted.connect(self._show_state)
        self._finder.arrived.connect(self._on_arrived)
        controller.conversation_opened.connect(self._on_opened)
        for signal in (controller.message_added, controller.message_changed, controller.delta):
            signal.connect(self._on_message)

    @property
    def is_open(self) -> bool:
        """The bar is shown."""
        return not self.bar.isHidden()

    def open(self) -> None:
        """Let the person type what to find; what is selected in the chat, or was looked for last, is there."""
        focus = QApplication.focusWidget()
        if focus is not None and not self.bar.isAncestorOf(focus):
            self._focus = focus
        chosen = self._transcript.selection.views
        selected = selected_text(chosen[0].textCursor()).strip() if len(chosen) == 1 else ""
        if not self.is_open:
            self._show_bar(True)
        self.bar.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        if selected and "\n" not in selected and selected != self.bar.field.text():
            self.bar.field.setText(selected)
        else:
            self._look()
        self.bar.field.selectAll()

    def step(self, by: int) -> None:
        """Go to another hit; opens the bar where it is not."""
        if self.is_open:
            self._finder.step(by)
        else:
            self.open()

    def close(self) -> None:
        """Put the bar away, and give the keyboard back to what had it."""
        had_focus = self.bar.isAncestorOf(QApplication.focusWidget() or self._transcript)
        self._show_bar(False)
        self._finder.stop()
        self._marks.show_pattern(None)
        focus, self._focus = self._focus, None
        if had_focus:
            target = focus if focus is not None and _is_there(focus) else self._transcript
            target.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_found(self, message_id: str, words: Sequence[str]) -> None:
        """Show a message that was found from elsewhere."""
        self._marks.flash(message_id, words)

    def _show_bar(self, is_shown: bool) -> None:
        """Show the bar or put it away; what a person reads stays where it is on the screen."""
        bar = self._transcript.verticalScrollBar()
        before = self._transcript.height()
        self.bar.setVisible(is_shown)
        self._column.activate()
        if not self._transcript.is_following:
            bar.setValue(bar.value() + before - self._transcript.height())

    def _look(self) -> None:
        found = wanted(self.bar.field.text())
        self._marks.show_pattern(found.pattern if found is not None else None)
        self._finder.look_for(found, self._controller.current_messages, self._transcript.reading_id)

    def _on_arrived(self, hit: Hit) -> None:
        self._marks.go_to(hit)

    def _on_opened(self, _conversation_id: str) -> None:
        if self.is_open:
            if self._controller.has_messages:
                self._finder.refresh(self._controller.current_messages)
            else:
                self.close()

    def _on_message(self, conversation_id: str, *_arguments: object) -> None:
        if self.is_open and conversation_id == self._controller.current_id:
            self._refresher.request()

    def _refresh(self) -> None:
        if self.is_open:
            self._finder.refresh(self._controller.current_messages)

    def _show_state(self) -> None:
        finder, text = self._finder, ""
        total = finder.total
        if self.bar.field.text().strip() and finder.is_done:
            if not total:
                text = tr("Not found")
            elif position := finder.position:
                text = tr("{position} of {total}", position=count(position), total=count(total))
            else:
                text = tr("{total} found", total=count(total))
        elif self.bar.field.text().strip():
            text = self.bar.state if total and finder.position else "…"
        self.bar.show_state(text, can_step=total > 0, is_final=finder.is_done)


def _is_there(widget: QWidget) -> bool:
    from shiboken6 import isValid

    return isValid(widget) and widget.isVisible()
