"""Attachments as chips: name and length, a way to look at the text, and in the composer a way to take it off."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLayout, QLayoutItem, QSizePolicy, QWidget

from app.storage.records import AttachmentRecord
from app.theme import Theme
from app.translation import tr, trn
from app.widgets.buttons import IconButton, TextButton
from app.widgets.label import plain_tooltip

_NAME_CHARACTERS = 40


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
        self._flow = FlowLayout(theme.px(6), align_right=align_right)
        self.setLayout(self._flow)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._shown: tuple[AttachmentRecord, ...] = ()
        self.chips: list[QWidget] = []
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

    def _make(self, record: AttachmentRecord) -> QWidget:
        px = self._theme.px
        chip = QFrame()
        chip.setProperty("look", "chip")
        name = record.name if len(record.name) <= _NAME_CHARACTERS else f"{record.name[: _NAME_CHARACTERS - 1]}…"
        look = TextButton(self._theme, f"{name.replace('&', '&&')} · {length_of(record)}", "file")
        look.setAccessibleName(
            tr("Attachment {name}, {length}: look at its text", name=record.name, length=length_of(record))
        )
        look.setToolTip(plain_tooltip(record.name))
        look.clicked.connect(lambda: self.opened.emit(record))
        row = QHBoxLayout(chip)
        row.setContentsMargins(px(8), px(3), px(8 if not self._can_remove else 4), px(3))
        row.setSpacing(px(4))
        row.addWidget(look)
        if self._can_remove:
            remove = IconButton(self._theme, "close", tr("Take {name} off", name=record.name))
            remove.clicked.connect(lambda: self.removed.emit(record))
            row.addWidget(remove)
        return chip


def length_of(record: AttachmentRecord) -> str:
    """The length of an attachment's text in words."""
    return trn("1 character", "{count} characters", record.num_characters)


class FlowLayout(QLayout):
    """Lays widgets out in rows, as many as their widths need."""

    def __init__(self, spacing: int, *, align_right: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._align_right = align_right
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), is_test=True)

    def setGeometry(self, rectangle: QRect) -> None:
        super().setGeometry(rectangle)
        self._arrange(rectangle, is_test=False)

    def sizeHint(self) -> QSize:
        widths = [item.sizeHint().width() for item in self._items]
        heights = [item.sizeHint().height() for item in self._items]
        return QSize(sum(widths) + self.spacing() * max(0, len(widths) - 1), max(heights, default=0))

    def minimumSize(self) -> QSize:
        sizes = [item.minimumSize() for item in self._items]
        return QSize(
            max((size.width() for size in sizes), default=0), max((size.height() for size in sizes), default=0)
        )

    def _arrange(self, room: QRect, *, is_test: bool) -> int:
        """Place the items, or only measure; gives the height that they need."""
        rows: list[list[QLayoutItem]] = []
        used = 0
        for item in self._items:
            width = item.sizeHint().width()
            if not rows or (rows[-1] and used + self.spacing() + width > room.width()):
                rows.append([])
                used = -self.spacing()
            rows[-1].append(item)
            used += self.spacing() + width
        top = room.top()
        for row in rows:
            height = max(item.sizeHint().height() for item in row)
            if not is_test:
                self._place(row, room, top)
            top += height + self.spacing()
        return max(0, top - self.spacing() - room.top())

    def _place(self, row: list[QLayoutItem], room: QRect, top: int) -> None:
        widths = [min(item.sizeHint().width(), room.width()) for item in row]
        total = sum(widths) + self.spacing() * (len(row) - 1)
        left = room.right() + 1 - total if self._align_right else room.left()
        for item, width in zip(row, widths, strict=True):
            item.setGeometry(QRect(QPoint(left, top), QSize(width, item.sizeHint().height())))
            left += width + self.spacing()
