"""What a function gave, as the person typed it for the model: a card under the answer that called it."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.chat.card_title import CardTitle
from app.chat.conversation import MessageView
from app.chat.message_actions import OWN_ACTIONS
from app.chat.message_view import MessageWidget
from app.chat.own_message import PlainText
from app.chat.text_view import TextView
from app.chat.tool_calls import called_name, result_title
from app.theme import Theme
from app.translation import tr


class ToolResult(MessageWidget):
    """A result; nothing in it is interpreted. Edited, it is gone on with anew."""

    def __init__(self, theme: Theme, view: MessageView, parent: QWidget | None = None) -> None:
        super().__init__(theme, view, OWN_ACTIONS, is_own=True, parent=parent)
        self.setObjectName("toolResult")
        px = theme.px
        self._card = QFrame()
        self._card.setProperty("look", "code")
        self._title = CardTitle(theme)
        self._text = PlainText(theme)
        self._text.setAccessibleName(tr("What the function gave"))
        inside = QVBoxLayout(self._card)
        inside.setContentsMargins(px(12), px(8), px(12), px(11))
        inside.setSpacing(px(4))
        inside.addWidget(self._title)
        inside.addWidget(self._text)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, px(4))
        column.setSpacing(px(1))
        column.addWidget(self._card)
        column.addWidget(self.foot)
        self.edited = self._card
        self.edit_layout = column
        self.show_view(view)

    @property
    def texts(self) -> list[TextView]:
        return [self._title, self._text]

    def completing(self) -> Iterator[None]:
        return self._text.completing()

    def show_view(self, view: MessageView) -> None:
        """Show another state of the same message."""
        self.view = view
        self.foot.set_siblings(view.sibling_index, view.num_siblings)
        title, content = result_title(called_name(view.record)), view.record.content
        self._title.show_text(title)
        self.setAccessibleName(f"{title}: {content[:200]}")
        self._text.show_text(content or tr("(nothing)"))
