"""Which messages of a conversation have widgets, in a reading column: the last ones, and those near what is read.

Making all of a long conversation takes seconds: a few are made at once, the others while nothing else is to be
done, and when the person scrolls up to them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.chat.conversation import MessageView
from app.chat.following_area import FollowingArea
from app.chat.keyboard_order import KeyboardOrder
from app.chat.message_kinds import make_message, pass_on
from app.chat.reading_column import ReadingColumn
from app.theme import Theme
from app.turns import Turns

if TYPE_CHECKING:
    from app.chat.message_view import MessageWidget

ALIVE_AT_FIRST = 16
ALIVE_AT_REST = 60
ALIVE_STEP = 30
GROW_STEP = 1  # one message takes about 10 ms, and typing must not wait for more
_GROW_EVERY_MS = 2
GROW_AFTER_MS = 1200  # what is out of sight waits for the first words of a person
TURN_S = 0.02  # how long messages are made before the event loop gets its turn
_LOAD_EARLIER_PX = 600
GONE_PARTS = 12  # of a message that are deleted in one turn of the event loop


class AliveMessages(FollowingArea):
    """A scrolling column of messages, of which those in sight and near it are alive.

    Signals:
        asked(message_id, MessageAction): what the person wants of a message.
        edit_requested(message_id, text): it was written anew.
        edit_left: an editor that had the keyboard's focus is gone.
        attachment_opened(AttachmentRecord): look at its text.
        look_requested(message_id, offset, word, place): look closer at a word, which is at a place on the screen.
        results_given(message_id, results): what the functions gave that an answer called.
        notice(text): something could not be done.
        shown_changed: messages were made, or one of them has more text.
    """

    asked = Signal(str, object)
    edit_requested = Signal(str, str)
    edit_left = Signal()
    attachment_opened = Signal(object)
    look_requested = Signal(str, int, str, QPoint)
    results_given = Signal(str, list)
    notice = Signal(str)
    shown_changed = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._theme = theme
        self.setWidgetResizable(True)
        self._messages: list[MessageView] = []
        self._widgets: list[MessageWidget] = []  # of the last messages but _num_below
        self._num_below = 0  # messages at the end that are yet to be made: the person reads further up
        self._num_resting = 0  # so many of them wait until the person comes near
        self._context_start = ""
        self._edits: dict[str, str] = {}  # unfinished ones, of messages that are not alive
        self._num_wanted = ALIVE_AT_REST  # so many messages are to be alive
        self._is_held = False
        self._grow = QTimer(self)  # makes a few more messages whenever nothing else is to be done
        self._grow.setInterval(_GROW_EVERY_MS)
        self._grow.timeout.connect(self._on_grow)
        self._keyboard_order = KeyboardOrder(self)
        self._column = ReadingColumn(theme)
        self.setWidget(self._column)
        self.verticalScrollBar().valueChanged.connect(self._on_value)

    @property
    def widgets(self) -> tuple[MessageWidget, ...]:
        """The widgets that are alive, in order."""
        return tuple(self._widgets)

    @property
    def has_end(self) -> bool:
        """Whether the last message is alive."""
        return not self._num_below

    def set_context_start(self, message_id: str) -> None:
        """The model reads from this message on; "" when it reads all of them."""
        self._context_start = message_id
        for widget in self._widgets:
            widget.set_context_line(bool(message_id) and widget.message_id == message_id)

    def hold(self) -> None:
        """Until ``let_grow``: make what is in sight alone, while other work needs the interpreter."""
        self._is_held = True

    def let_grow(self) -> None:
        """Make what is out of sight, too."""
        self._is_held = False
        if not self._grow.isActive():
            self._grow.start(_GROW_EVERY_MS)

    def order_for_keyboard(self) -> None:
        """Let Tab go through the messages from top to bottom; to be called when it is pressed."""
        self._keyboard_order.put_right(self._widgets)

    # ------------------------------------------------------------------------------------------ making

    def _insert_widgets(self, views: Sequence[MessageView], *, at_top: bool) -> None:
        made = [self._make(view) for view in views]
        first = 0 if at_top else len(self._widgets)
        for offset, widget in enumerate(made):
            self._column.insert(first + offset, widget)
        self._widgets = made + self._widgets if at_top else self._widgets + made
        last_answer = next((widget for widget in reversed(self._widgets) if not widget.is_own), None)
        for widget in self._widgets:
            widget.set_last(widget is last_answer and not self._num_below)
            widget.set_open(widget is self._widgets[-1] and not self._num_below)
        self.set_context_start(self._context_start)
        self._column.settle()
        if made and not at_top and self.is_following:
            self._scroll_to_end()
        self.shown_changed.emit()

    def _make(self, view: MessageView) -> MessageWidget:
        widget = make_message(self._theme, view)
        pass_on(widget, self)
        widget.grown.connect(self._on_grown)
        if (unfinished := self._edits.pop(view.record.id, None)) is not None:
            widget.begin_edit(unfinished)
        return widget

    def _on_grown(self, widget: MessageWidget) -> None:
        """A message is higher now; what a person reads below it stays where it is."""
        bar = self.verticalScrollBar()
        is_above = not self.is_following and not self._is_adjusting and widget.geometry().bottom() < bar.value()
        before = widget.height()
        self._column.settle(widget)
        if is_above and widget.height() != before:
            bar.setValue(bar.value() + widget.height() - before)
        self.shown_changed.emit()

    def _drop(self, widget: MessageWidget, *, at_once: bool = False) -> None:
        if (unfinished := widget.unfinished_edit) is not None:
            self._edits[widget.message_id] = unfinished
        self._column.remove(widget)
        widget.hide()
        if at_once or not widget.let_go(GONE_PARTS):
            widget.deleteLater()
        else:  # a hundred cards of code take a tenth of a second
            Turns([partial(widget.let_go, GONE_PARTS), widget.deleteLater], widget)

    def _clear(self, *, at_once: bool = False) -> None:
        for widget in self._widgets:
            self._drop(widget, at_once=at_once)
        self._widgets, self._messages = [], []
        self._num_below = self._num_resting = 0

    def _let_go(self, num_wanted: int = ALIVE_AT_REST, *, at_once: bool = False) -> None:
        """Have no message alive; ``num_wanted`` are to be made again, with all of their text that has come.

        With ``at_once`` long ones are not deleted in turns.
        """
        streamed = {widget.message_id: widget.current_view for widget in self._widgets}
        messages = [streamed.get(view.record.id, view) for view in self._messages]
        self._clear(at_once=at_once)
        self._messages, self._num_wanted = messages, num_wanted

    def _leave_below(self, num_below: int, num_asked: int) -> None:
        """So many messages at the end are not alive, of which ``num_asked`` are made in the next turns."""
        self._num_below, self._num_resting = num_below, max(0, num_below - num_asked)
        self._grow.start(0)

    def _reach_end(self, num_below: int) -> None:
        """Have the last messages alive: what is missing below is made, or jumped over where it is much."""
        if num_below > ALIVE_STEP:
            self._let_go()
            self._show_end()
        else:
            self._show_below()

    def widget_of(self, message_id: str) -> MessageWidget | None:
        """The widget of a message that is alive."""
        return next((widget for widget in reversed(self._widgets) if widget.message_id == message_id), None)

    def _show_end(self) -> None:
        """Make as many of the last messages as fill the view, in this turn and the next ones."""
        self._column.settle()  # without what was let go
        ends = time.perf_counter() + TURN_S
        while self.has_room:
            self._show_earlier(GROW_STEP)
            if time.perf_counter() > ends:
                break
        self._grow.start(0 if self.has_room else GROW_AFTER_MS)

    @property
    def has_room(self) -> bool:
        """Whether messages are missing that would be in sight."""
        num_wanted = min(ALIVE_AT_FIRST, len(self._messages))
        return len(self._widgets) < num_wanted and self.verticalScrollBar().maximum() == 0

    def _on_grow(self) -> None:
        self._grow.setInterval(0 if self.has_room else _GROW_EVERY_MS)
        if self._num_below > self._num_resting:
            self._show_below(GROW_STEP)
        elif self._num_above <= 0 or len(self._widgets) >= self._num_wanted or self._waits:
            self._grow.stop()
        else:
            self._show_earlier(GROW_STEP)

    @property
    def _waits(self) -> bool:
        """Whether nothing is missing that a person could see soon."""
        return self._is_held and self.is_following and not self.has_room

    def _show_earlier(self, step: int) -> None:
        num_hidden = self._num_above
        if num_hidden <= 0 or self._is_adjusting:
            return
        self._is_adjusting = True
        bar = self.verticalScrollBar()
        distance_from_end = bar.maximum() - bar.value()
        self._insert_widgets(self._messages[max(0, num_hidden - step) : num_hidden], at_top=True)
        bar.setValue(bar.maximum() - distance_from_end)
        self._is_adjusting = False

    def _show_below(self, step: int | None = None) -> None:
        """Make ``step`` of the messages below those that are alive, or all of them."""
        if self._num_below:
            views = self._messages[-self._num_below :][:step]
            self._num_below -= len(views)
            self._num_resting = min(self._num_resting, self._num_below)
            self._insert_widgets(views, at_top=False)

    @property
    def _num_above(self) -> int:
        """Messages before those that are alive."""
        return len(self._messages) - self._num_below - len(self._widgets)

    # ------------------------------------------------------------------------------------------ scrolling

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._column.fit(self.width())
        super().resizeEvent(event)
        if self.is_following:
            self._scroll_to_end()

    def _on_value(self, value: int) -> None:
        if value < _LOAD_EARLIER_PX and not self.is_following and self._num_above > 0 and not self._is_adjusting:
            self._num_wanted = max(self._num_wanted, len(self._widgets) + ALIVE_STEP)
            self._grow.start(0)
        is_near_end = value > self.verticalScrollBar().maximum() - _LOAD_EARLIER_PX
        if is_near_end and self._num_resting and not self._is_adjusting:
            self._leave_below(self._num_below, ALIVE_STEP)

    def _scroll_to_end(self) -> None:
        self._column.settle()
        super()._scroll_to_end()
