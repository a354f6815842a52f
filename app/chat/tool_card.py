"""Calls that a model wrote, as cards, and a form for what the functions gave. Nothing is run by it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.chat.blocks import Block, BlockKind
from app.chat.card_title import CardTitle
from app.chat.code_card import CodeCard
from app.chat.text_view import TextView
from app.chat.tool_calls import call_title, result_title, shown_arguments, shown_name
from app.theme import Theme
from app.translation import tr
from app.widgets.buttons import LookButton
from app.widgets.growing_edit import GrowingEdit
from app.widgets.label import Label
from engine.protocol import ToolCall


class ToolCard(CodeCard):
    """One call: the function's name and its arguments."""

    def __init__(self, call: ToolCall, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self.set_block(Block(BlockKind.CODE, text=shown_arguments(call), language="json"))
        self._title = CardTitle(theme)
        self._title.show_text(call_title(call))
        self.set_title(self._title)
        self.setAccessibleName(tr("The model calls {name}", name=shown_name(call.name)))

    @property
    def texts(self) -> list[TextView]:
        """The texts to select in, from top to bottom."""
        return [self._title, self.text_view]


class ResultsForm(QFrame):
    """A field for each call's result.

    Signals:
        given(results: list): what the person typed, in the calls' order.
    """

    given = Signal(list)

    def __init__(self, calls: Sequence[ToolCall], theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "card")
        px = theme.px
        column = QVBoxLayout(self)
        column.setContentsMargins(px(13), px(11), px(11), px(10))
        column.setSpacing(px(6))
        self.fields: list[GrowingEdit] = []
        for call in calls:
            words = result_title(call.name)
            field = GrowingEdit(theme, max_lines=8)
            field.setPlaceholderText(tr("Type or paste what it gives"))
            field.setAccessibleName(words)
            field.submitted.connect(self._on_submitted)
            column.addWidget(Label(words, "muted"))
            column.addWidget(field)
            self.fields.append(field)
        self.go_on = LookButton(theme, tr("Let the model go on"), "primary")
        self.go_on.clicked.connect(self._give)
        column.addWidget(self.go_on, 0, Qt.AlignmentFlag.AlignRight)

    def _on_submitted(self) -> None:
        """Enter goes to the next field that is empty, and from the last one on."""
        empty = next((field for field in self.fields if not field.toPlainText().strip()), None)
        if empty is None:
            self._give()
        else:
            empty.setFocus(Qt.FocusReason.TabFocusReason)

    def _give(self) -> None:
        self.given.emit([field.toPlainText() for field in self.fields])
