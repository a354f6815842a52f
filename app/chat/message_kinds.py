"""Which widget shows a message: one of the person, of the model, or a function's result.

Imported with the window. The widgets are only when the first message is made: what they need, Markdown and all,
takes longer than painting an empty window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from app.chat.conversation import MessageView
from app.theme import Theme
from engine.protocol import Role

if TYPE_CHECKING:
    from app.chat.alive_messages import AliveMessages
    from app.chat.message_view import MessageWidget


def make_message(theme: Theme, view: MessageView) -> MessageWidget:
    """The widget for ``view``, without a parent."""
    if view.record.role is Role.USER:
        from app.chat.own_message import OwnMessage

        return OwnMessage(theme, view)
    if view.record.role is Role.TOOL:
        from app.chat.tool_result import ToolResult

        return ToolResult(theme, view)
    from app.chat.answer import Answer

    return Answer(theme, view)


def pass_on(widget: MessageWidget, messages: AliveMessages) -> None:
    """Let ``messages`` say what the person wants of the message."""
    widget.asked.connect(messages.asked)
    widget.edit_requested.connect(messages.edit_requested)
    widget.edit_left.connect(messages.edit_left)
    widget.attachment_opened.connect(messages.attachment_opened)
    widget.look_requested.connect(messages.look_requested)
    widget.results_given.connect(messages.results_given)
    widget.notice.connect(messages.notice)


def num_common(old: Sequence[MessageView], new: Sequence[MessageView]) -> int:
    """How many messages two branches have in common, from the first one on."""
    for number, (before, after) in enumerate(zip(old, new)):
        if before.record.id != after.record.id:
            return number
    return min(len(old), len(new))


def message_with(focus: QWidget | None, widgets: Sequence[MessageWidget]) -> MessageWidget | None:
    """The one of ``widgets`` that ``focus`` is or lies in."""
    if focus is None:
        return None
    return next((widget for widget in widgets if focus is widget or widget.isAncestorOf(focus)), None)
