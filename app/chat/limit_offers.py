"""Under an answer that the context's end has cut short: the ways to go on."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.chat.generation import CAN_DROP_TURNS, OVERFLOW_TOKENS
from app.chat.message_actions import MessageAction
from app.storage.records import MessageRecord, MessageStatus
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.flow_layout import FlowLayout
from engine.protocol import FinishReason

_WORDS = {
    MessageAction.DROP_TURNS: tr("Go on without the oldest turns"),
    MessageAction.LARGER_CONTEXT: tr("Use a larger context…"),
}


class LimitOffers(QWidget):
    """One button for each way.

    Signals:
        asked(MessageAction): what the person wants.
    """

    asked = Signal(object)

    def __init__(self, actions: Sequence[MessageAction], theme: Theme) -> None:
        super().__init__()
        row = FlowLayout(theme.px(8), parent=self)
        for action in actions:
            button = LookButton(theme, _WORDS[action])
            button.clicked.connect(lambda _checked=False, action=action: self.asked.emit(action))
            row.addWidget(button)


def limit_actions(record: MessageRecord) -> tuple[MessageAction, ...]:
    """The ways to go on after an answer; none where the context had room."""
    stats = record.stats or {}
    if OVERFLOW_TOKENS in stats:
        actions = (MessageAction.DROP_TURNS, MessageAction.LARGER_CONTEXT)
        return actions if stats.get(CAN_DROP_TURNS) else actions[1:]
    is_full = stats.get("finish_reason") == FinishReason.CONTEXT.value
    return (MessageAction.LARGER_CONTEXT,) if record.status is MessageStatus.COMPLETE and is_full else ()
