"""The rows of the sidebar: conversations under their dated headings. Dates and words; no drawing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from PySide6.QtCore import QAbstractListModel, QLocale, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.chat.blocks import displayable
from app.storage.records import ConversationRecord
from app.widgets.label import plain_tooltip

IS_HEADING = int(Qt.ItemDataRole.UserRole) + 1
CONVERSATION_ID = int(Qt.ItemDataRole.UserRole) + 2
WHEN = int(Qt.ItemDataRole.UserRole) + 3
IS_BUSY = int(Qt.ItemDataRole.UserRole) + 4
IS_PINNED = int(Qt.ItemDataRole.UserRole) + 5

_Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class _Row:
    heading: str = ""
    record: ConversationRecord | None = None


class ConversationListModel(QAbstractListModel):
    """Headings and conversations in one list.

    Signals:
        rename_requested(conversation_id, title): the person edited a title in place.
    """

    rename_requested = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[_Row] = []
        self._busy_ids: set[str] = set()
        self._now = datetime.now()

    def show_records(self, records: Sequence[ConversationRecord], busy_ids: Iterable[str]) -> bool:
        """Show other rows, grouped as of now; False when nothing differs but times and dots."""
        self._now = datetime.now()
        rows = _grouped(records, self._now)
        self._busy_ids = set(busy_ids)
        if [_key(row) for row in rows] == [_key(row) for row in self._rows]:
            self._rows = rows
            if rows:
                self.dataChanged.emit(self.index(0), self.index(len(rows) - 1))
            return False
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()
        return True

    def row_of(self, conversation_id: str) -> int:
        """The row of a conversation, -1 when it is not in the list."""
        for row, entry in enumerate(self._rows):
            if entry.record is not None and entry.record.id == conversation_id:
                return row
        return -1

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: _Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> object:
        row = self._rows[index.row()]
        if role == IS_HEADING:
            return row.record is None
        record = row.record
        if record is None:
            is_text = role in {int(Qt.ItemDataRole.DisplayRole), int(Qt.ItemDataRole.AccessibleTextRole)}
            return row.heading if is_text else None
        if role == int(Qt.ItemDataRole.DisplayRole):
            return displayable(record.title)
        if role == int(Qt.ItemDataRole.EditRole):
            return record.title
        if role == int(Qt.ItemDataRole.AccessibleTextRole):
            busy = ", answering" if record.id in self._busy_ids else ""
            return f"{record.title}, {when(record.updated_at, self._now)}{busy}"
        if role == int(Qt.ItemDataRole.ToolTipRole):
            return plain_tooltip(displayable(record.title))
        values = {
            CONVERSATION_ID: record.id,
            WHEN: when(record.updated_at, self._now),
            IS_BUSY: record.id in self._busy_ids,
            IS_PINNED: record.is_pinned,
        }
        return values.get(role)

    def flags(self, index: _Index) -> Qt.ItemFlag:
        if self._rows[index.row()].record is None:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable

    def setData(self, index: _Index, value: object, role: int = int(Qt.ItemDataRole.EditRole)) -> bool:
        record = self._rows[index.row()].record
        title = " ".join(str(value).split())
        if record is None or role != int(Qt.ItemDataRole.EditRole) or not title:
            return False
        if title != record.title:
            self.rename_requested.emit(record.id, title)
        return True


def group_of(updated_at: float, now: datetime) -> str:
    """The heading a conversation stands under."""
    day = datetime.fromtimestamp(updated_at).date()
    age = (now.date() - day).days
    if age <= 0:
        return "Today"
    if age == 1:
        return "Yesterday"
    if age <= 7:
        return "Last week"
    if age <= 30:
        return "Last month"
    month = QLocale().standaloneMonthName(day.month, QLocale.FormatType.LongFormat)
    return month if day.year == now.year else f"{month} {day.year}"


def when(updated_at: float, now: datetime) -> str:
    """The short time beside a title: "now", "9:12", "Mon", "12 Nov"."""
    moment = datetime.fromtimestamp(updated_at)
    if timedelta(0) <= now - moment < timedelta(minutes=1):
        return "now"
    age = (now.date() - moment.date()).days
    if age <= 0:
        return f"{moment.hour}:{moment.minute:02d}"
    if age <= 7:
        return QLocale().dayName(moment.isoweekday(), QLocale.FormatType.ShortFormat)
    month = QLocale().monthName(moment.month, QLocale.FormatType.ShortFormat)
    return f"{moment.day} {month}" if moment.year == now.year else f"{month} {moment.year}"


def _grouped(records: Sequence[ConversationRecord], now: datetime) -> list[_Row]:
    rows: list[_Row] = []
    pinned = [record for record in records if record.is_pinned]
    if pinned:
        rows.append(_Row("Pinned"))
        rows.extend(_Row(record=record) for record in pinned)
    heading = ""
    others = sorted((record for record in records if not record.is_pinned), key=lambda r: -r.updated_at)
    for record in others:
        group = group_of(record.updated_at, now)
        if group != heading:
            heading = group
            rows.append(_Row(heading))
        rows.append(_Row(record=record))
    return rows


def _key(row: _Row) -> tuple[str, str, str]:
    return (row.heading, row.record.id, row.record.title) if row.record else (row.heading, "", "")
