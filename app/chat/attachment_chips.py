"""Attachments as chips: name and length, a way to look at the text, and in the composer a way to take it off."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget

from app.storage.records import AttachmentRecord
from app.theme import Theme
from app.translation import tr, trn
from app.widgets.buttons import IconButton, TextButton
from app.widgets.flow_layout import FlowLayout
from app.widgets.label import plain_tooltip
from app.widgets.spacing import spaced

_NAME_CHARACTERS = 40


class Chip(QFrame):
    """One attachment.

    Attributes:
        name: as the person knows it.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.setProperty("look", "chip")
        self.setProperty("found", "")

    def mark(self, look: str) -> None:
        """Show that what is looked for is in the name: "found" or "current"; "" shows it as ever."""
        if look != self.property("found"):
            self.setProperty("found", look)
            for part in (self, *self.findChildren(QPushButton)):
                part.style().unpolish(part)
                part.style().polish(part)


class AttachmentChips(QWidget):
    """A row of chips that wraps; hidden while there are none.

    Signals:
        opened(AttachmentRecord): look at its text.
        removed(AttachmentRecord): take it off.
    """

    opened = Signal(object)
    removed = Signal(object)

    def __init__(
        self, theme: Theme, *, can_remove: bool, align_right: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._can_remove = can_remove
        self._flow = spaced(theme, FlowLayout(0, align_right=align_right), spacing=6)
        self.setLayout(self._flow)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._shown: tuple[AttachmentRecord, ...] = ()
        self.chips: list[Chip] = []
        self.hide()

    def show_attachments(self, records: Sequence[AttachmentRecord]) -> None:
        """Show these."""
        if tuple(records) == self._shown:
            return
        self._shown = tuple(records)
        for chip in self.chips:
            self._flow.removeWidget(chip)
            chip.hide()
            chip.deleteLater()
        self.chips = [self._make(record) for record in records]
        for chip in self.chips:
            self._flow.addWidget(chip)
            chip.show()
        self.setVisible(bool(records))
        self.updateGeometry()

    def _make(self, record: AttachmentRecord) -> Chip:
        chip = Chip(record.name)
        name = record.name if len(record.name) <= _NAME_CHARACTERS else f"{record.name[: _NAME_CHARACTERS - 1]}…"
        look = TextButton(self._theme, f"{name.replace('&', '&&')} · {length_of(record)}", "file")
        look.setAccessibleName(
            tr("Attachment {name}, {length}: look at its text", name=record.name, length=length_of(record))
        )
        look.setToolTip(plain_tooltip(record.name))
        look.clicked.connect(lambda: self.opened.emit(record))
        row = spaced(self._theme, QHBoxLayout(chip), spacing=4, margins=(8, 3, 4 if self._can_remove else 8, 3))
        row.addWidget(look)
        if self._can_remove:
            remove = IconButton(self._theme, "close", tr("Take {name} off", name=record.name))
            remove.clicked.connect(lambda: self.removed.emit(record))
            row.addWidget(remove)
        return chip


def length_of(record: AttachmentRecord) -> str:
    """The length of an attachment's text in words."""
    return trn("1 character", "{count} characters", record.num_characters)
