"""The transcript: the messages of one conversation in a reading column that follows the stream.

It follows the end only while the person is at the end, and no event but their own moves what they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QApplication, QFrame, QWidget

from app.chat.alive_messages import ALIVE_AT_REST, ALIVE_STEP, GROW_STEP, AliveMessages
from app.chat.conversation import MessageView
from app.chat.message_kinds import message_with, num_common
from app.chat.reading_column import ReadingPlace, reading_place
from app.chat.selection import TextSelection
from app.theme import Theme
from app.translation import tr
from engine.protocol import Role

if TYPE_CHECKING:
    from app.chat.message_view import MessageWidget
    from app.chat.view_stock import ViewStock


class Transcript(AliveMessages):
    """Shows messages; knows no controller.

    Attributes:
        selection: over the texts of all messages that are alive.
    """

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.setObjectName("transcript")
        self.setAccessibleName(tr("Conversation"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._place: ReadingPlace | None = None  # while the theme changes; None at the end
        self.selection = TextSelection(self, lambda: [view for widget in self._widgets for view in widget.texts])
        if isinstance(application := QApplication.instance(), QApplication):
            application.focusChanged.connect(self._on_focus_changed)
        self._apply_metrics()
        theme.about_to_change.connect(self._before_theme)
        theme.changed.connect(self._on_theme)

    @cached_property
    def view_stock(self) -> ViewStock:
        """What is made ahead for the answers that come; made for the first one."""
        from app.chat.view_stock import ViewStock  # an empty chat should not wait for it

        home = QWidget(self)
        home.hide()
        return ViewStock(self._theme, home)

    # ------------------------------------------------------------------------------------------ content

    def show_conversation(self, messages: Sequence[MessageView]) -> None:
        """Show another conversation, from its end."""
        self._clear()
        self._messages = list(messages)
        self._num_wanted = ALIVE_AT_REST
        self._set_following(True)
        self._show_end()
        self._scroll_to_end()

    def sync(self, messages: Sequence[MessageView]) -> None:
        """Show another state of the same conversation: messages that stay keep their widgets and their place."""
        common, first = num_common(self._messages, messages), self._num_above
        num_before, num_below, num_resting = len(self._widgets), self._num_below, self._num_resting
        for widget in self._widgets[max(0, common - first) :]:
            self._drop(widget)
        del self._widgets[max(0, common - first) :]
        for widget, view in zip(self._widgets, messages[first:common]):
            if widget.view != view:
                widget.show_view(view)
        self._messages = list(messages)
        self._num_below = self._num_resting = 0
        if common < first:
            self._show_end()
            self._scroll_to_end()
            return
        rest = self._messages[first + len(self._widgets) :]
        if num_below and len(self._widgets) == num_before:
            self._leave_below(len(rest), num_below - num_resting if num_resting else len(rest))
            self._insert_widgets((), at_top=False)
        elif len(rest) <= ALIVE_STEP:
            self._insert_widgets(rest, at_top=False)
        elif self.is_following:
            self._reach_end(len(rest))
        else:
            self._leave_below(len(rest), ALIVE_STEP)

    def append_delta(self, message_id: str, channel: str, text: str) -> None:
        """A streamed piece of a message; foreign ids are dropped."""
        widget = self.widget_of(message_id)
        if widget is not None:
            widget.append(channel, text)
            self.shown_changed.emit()
        elif self._num_below and self._messages[-1].record.id == message_id:
            self._messages[-1] = self._messages[-1].with_piece(channel, text)  # it is there when it is made

    def set_progress(self, message_id: str, text: str) -> None:
        """What is going on with a message that is being written."""
        widget = self.widget_of(message_id)
        if widget is not None:
            widget.set_progress(text)

    def edit_last(self) -> bool:
        """Edit the person's last message; False when there is none."""
        self._reach_end(self._num_below)
        for widget in reversed(self._widgets):
            if widget.view.record.role is Role.USER:
                widget.begin_edit()
                return True
        return False

    def focused_id(self) -> str:
        """The id of the message that the keyboard's focus is on or in; "" for none."""
        widget = message_with(QApplication.focusWidget(), self._widgets)
        return widget.message_id if widget is not None else ""

    def scroll_to_end(self) -> None:
        """Go to the end and follow it."""
        self._set_following(True)
        self._reach_end(self._num_below)
        self._scroll_to_end()

    def go_to(self, message_id: str) -> MessageWidget | None:
        """Have a message alive, however far up, and follow the end no longer; None for a foreign id.

        What is around a message that was not alive is made in the next turns and moves nothing.
        """
        for _ in self.approach(message_id):
            pass
        return self.widget_of(message_id)

    def approach(self, message_id: str) -> Iterator[None]:
        """As ``go_to``, in steps none of which takes long; whoever steps sees to it that nobody sees them."""
        if not self._has(message_id):
            return
        self._set_following(False)
        if self.widget_of(message_id) is None:
            yield
            if not self._has(message_id):
                return  # another conversation is shown meanwhile
            self._let_go()
            index = next(n for n, view in enumerate(self._messages) if view.record.id == message_id)
            self._leave_below(len(self._messages) - index, ALIVE_STEP)
            self._grow.stop()  # not before the message is in sight
            self._show_below(1)
            yield
        widget = self.widget_of(message_id)
        if widget is not None:
            for _ in widget.completing():
                yield
            self._column.settle()

    def _has(self, message_id: str) -> bool:
        return any(view.record.id == message_id for view in self._messages)

    def bring_into_view(self, widget: MessageWidget, top: int, bottom: int) -> None:
        """Scroll no further than needed to show what is between two heights of a message, in pixels."""
        for _ in self.make_room_above(widget, top):
            pass
        if widget not in self._widgets:
            return
        bar, height = self.verticalScrollBar(), self.viewport().height()
        rim = min(self._theme.px(40), height // 4)
        first, last = widget.y() + top - bar.value(), widget.y() + bottom - bar.value()
        if first < rim or last > height - rim:
            bar.setValue(widget.y() + top - height // 3)
        self._grow.start(0)

    def make_room_above(self, widget: MessageWidget, top: int) -> Iterator[None]:
        """Have so much above a height of a message that it can stand where a person reads; in steps."""
        while widget in self._widgets and self._num_above > 0 and self._is_near_top(widget.y() + top):
            self._show_earlier(1)
            yield

    def _is_near_top(self, y: int) -> bool:
        return y < self.viewport().height() // 3

    @property
    def reading_id(self) -> str:
        """The id of the message at the upper edge; "" for none."""
        place = reading_place(self._widgets, self.verticalScrollBar().value())
        return place.message_id if place is not None else ""

    # ------------------------------------------------------------------------------------------ looks

    def _apply_metrics(self) -> None:
        self.verticalScrollBar().setSingleStep(self._theme.px(24))
        self._column.fit(self.width())

    def _before_theme(self) -> None:
        """Let the messages go: restyling hundreds of widgets takes longer than making those in sight anew."""
        value = self.verticalScrollBar().value()
        self._place = None if self.is_following else reading_place(self._widgets, value)
        self._let_go(self._num_wanted, at_once=True)
        if "view_stock" in vars(self):
            self.view_stock.clear()
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def _on_theme(self) -> None:
        self._apply_metrics()
        if self._place is None:
            self._show_end()
            self._scroll_to_end()
        else:
            self._show_around(self._place)

    def _show_around(self, place: ReadingPlace) -> None:
        """Make the messages in sight from a place on; the timer makes those below, then those above."""
        ids = [view.record.id for view in self._messages]
        self._leave_below(len(ids) - ids.index(place.message_id), ALIVE_STEP)
        self._is_adjusting = True
        bar = self.verticalScrollBar()
        while self._num_below:
            self._show_below(GROW_STEP)
            self._widgets[0].complete()
            if bar.maximum() >= place.offset_in(self._widgets[0]):
                break
        bar.setValue(place.offset_in(self._widgets[0]))
        self._is_adjusting = False
        self._grow.start(0)

    def _on_focus_changed(self, _old: QObject | None, new: QWidget | None) -> None:
        inside = message_with(new, self._widgets)
        for widget in self._widgets:
            widget.set_focus_inside(widget is inside)
        if inside is not None and new is inside:
            self.ensureWidgetVisible(inside, 0, self._theme.px(24))
            self._set_following(False)
            self._follow_if_at_end()
