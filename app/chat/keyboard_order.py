"""The order in which Tab goes through the messages of a chat.

Qt's order is that in which widgets were made: messages from the last one up, cards while they stream. It is put
right when somebody presses Tab, so that making messages does not wait for it. To look for what the keyboard reaches
takes 0.3 ms a message: it is done at once near the focus alone, elsewhere in the turns after, and again where a
message has changed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication, QScrollArea, QWidget
from shiboken6 import isValid

from app.chat.message_kinds import message_with
from app.turns import Turns

if TYPE_CHECKING:
    from app.chat.message_view import MessageWidget

_NUM_AT_ONCE = 4  # messages that are looked through in one turn


class KeyboardOrder:
    """Lets Tab go from ``area`` down through its messages, through each one's parts and last its actions."""

    def __init__(self, area: QScrollArea) -> None:
        self._area = area
        self._messages: tuple[MessageWidget, ...] = ()
        self._is_ordered = False  # all of them, as far as they are known
        self._turns: Turns | None = None

    def put_right(self, messages: Sequence[MessageWidget]) -> None:
        """Before the focus moves: whatever it may come to next has its place in the order."""
        is_ordered = self._is_ordered and self._messages == tuple(messages)
        self._messages = tuple(messages)
        near = _near_focus(messages)
        for message in near:
            message.forget_keyboard_parts()
            message.keyboard_parts()
        is_waiting = not self._look_through()
        if is_ordered and self._is_ordered:
            for message in near:
                self._chain((message,))
        else:
            self._chain(self._messages)
            self._is_ordered = not is_waiting
        if is_waiting and (self._turns is None or not isValid(self._turns)):
            self._turns = Turns([self._on_turn], self._area)

    def _on_turn(self) -> bool:
        """Look through a few messages more; True while there are others."""
        if not self._look_through():
            return True
        self._messages = tuple(message for message in self._messages if isValid(message))
        self._chain(self._messages)
        self._is_ordered = True
        return False

    def _look_through(self) -> bool:
        """Look through some of the messages that have changed; True where no others are left."""
        unknown = [each for each in self._messages if isValid(each) and not each.knows_keyboard_parts]
        for message in unknown[:_NUM_AT_ONCE]:
            message.keyboard_parts()
            self._is_ordered = False
        return len(unknown) <= _NUM_AT_ONCE

    def _chain(self, messages: Sequence[MessageWidget]) -> None:
        """Put messages that stand below each other, and all in them, behind what is above the first one."""
        if not messages:
            return
        index = self._messages.index(messages[0])
        above = _in_order(self._messages[index - 1])[-1] if index else self._area
        order = [above, *(widget for message in messages for widget in _in_order(message))]
        for before, after in itertools.pairwise(order):
            QWidget.setTabOrder(before, after)


def _in_order(message: MessageWidget) -> list[QWidget]:
    parts = message.keyboard_parts() if message.knows_keyboard_parts else ()
    return [message, *(part for part in parts if isValid(part))]


def _near_focus(messages: Sequence[MessageWidget]) -> Sequence[MessageWidget]:
    """The message that has the focus and its neighbours; where none has it, the first and the last one."""
    message = message_with(QApplication.focusWidget(), messages)
    if message is None:
        return [*messages[:1], *messages[-1:]]
    index = messages.index(message)
    return messages[max(0, index - 1) : index + 2]
