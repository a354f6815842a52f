"""What is kept of read chats on the disk, with the way to delete it: a row among the settings of storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget
from shiboken6 import isValid

from app.settings_table import Setting
from app.sizes import size_text
from app.theme import Theme
from app.translation import tr, trn
from app.widgets.buttons import LookButton
from app.widgets.card_head import CardHead
from app.widgets.label import Label, WrappingLabel
from engine.protocol import SnapshotStorage

LAST_SETTING = "kept_chats_gb"
"""The setting below which the row stands."""


class Kept(Protocol):
    """What keeps read chats on the disk."""

    def ask(self, on_answer: Callable[[SnapshotStorage], None]) -> None: ...

    def clear(self) -> None: ...


class KeptChatsRow(QWidget):
    """How much there is, asked for whenever it is shown or another setting of storage is chosen; and Delete."""

    def __init__(self, kept: Kept, above: Setting, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kept = kept
        title = tr("Read chats on the disk")
        self._words = WrappingLabel(tr("Looking…"), "help")
        self.delete = LookButton(theme, tr("Delete"))
        self.delete.setAccessibleName(tr("Delete the read chats on the disk"))
        self.delete.setEnabled(False)
        self.delete.clicked.connect(self._on_delete)
        self.searched_text = f"{title} {above.title} {above.help} {above.group} {tr('delete, size, space')}".lower()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(theme.px(2))
        column.addWidget(CardHead(theme, Label(title, "strong"), (self.delete,)))
        column.addWidget(self._words)

    def refresh(self) -> None:
        """Find out anew what there is."""
        self._kept.ask(self._on_answer)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def _on_delete(self) -> None:
        self.delete.setEnabled(False)
        self._kept.clear()
        self.refresh()

    def _on_answer(self, storage: SnapshotStorage) -> None:
        if not isValid(self):
            return  # the page was made anew meanwhile
        self.delete.setEnabled(storage.num_bytes > 0)
        if not storage.num_bytes:
            self._words.setText(tr("Nothing is kept."))
            return
        self._words.setText(
            trn(
                "{size} of one chat. Without it the chat is read again when it goes on; its messages stay.",
                "{size} of {count} chats. Without it each is read again when it goes on; their messages stay.",
                storage.num_conversations,
                size=size_text(storage.num_bytes),
            )
        )
