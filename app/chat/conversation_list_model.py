"""The rows of the sidebar: pinned conversations, folders, and the others under dated headings; no drawing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta

from PySide6.QtCore import (
    QAbstractListModel,
    QLocale,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from app.chat.blocks import displayable
from app.storage.records import ConversationRecord, FolderRecord
from app.translation import tr
from app.widgets.label import plain_tooltip
from engine.plain_data import dataclass

IS_HEADING = int(Qt.ItemDataRole.UserRole) + 1
CONVERSATION_ID = int(Qt.ItemDataRole.UserRole) + 2
WHEN = int(Qt.ItemDataRole.UserRole) + 3
IS_BUSY = int(Qt.ItemDataRole.UserRole) + 4
IS_PINNED = int(Qt.ItemDataRole.UserRole) + 5
FOLDER_ID = (
    int(Qt.ItemDataRole.UserRole) + 6
)  # of a folder's row itself, or of the folder a conversation is shown in
IS_FOLDER = int(Qt.ItemDataRole.UserRole) + 7
IS_FOLDED = int(Qt.ItemDataRole.UserRole) + 8
IS_OPEN = int(Qt.ItemDataRole.UserRole) + 9
EXCERPT = int(Qt.ItemDataRole.UserRole) + 10  # of a conversation that was found, "" for none
SEARCH_WORDS = int(Qt.ItemDataRole.UserRole) + 11

MIME_TYPE = "application/x-fireside-chats"

_Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True)
class Shelf:
    """A folder as the list shows it."""

    record: FolderRecord
    is_folded: bool


@dataclass(frozen=True)
class Search:
    """What the list was searched for.

    Attributes:
        words: what is marked in titles and excerpts.
        excerpts: of conversations in whose messages a word is, by id.
    """

    words: tuple[str, ...] = ()
    excerpts: Mapping[str, str] = field(default_factory=dict)


NO_SEARCH = Search()


@dataclass(frozen=True)
class _Row:
    """A heading, a folder (``shelf`` without ``record``), or a conversation (in a folder with ``shelf``)."""

    heading: str = ""
    record: ConversationRecord | None = None
    shelf: Shelf | None = None
    num_inside: int = 0
    has_busy: bool = False

    @property
    def is_folder(self) -> bool:
        return self.shelf is not None and self.record is None

    @property
    def key(self) -> tuple[object, ...]:
        """What a row's place and height hang on."""
        record, shelf = self.record, self.shelf
        return (self.heading, record and (record.id, record.title), shelf and (shelf.record, shelf.is_folded))


class ConversationListModel(QAbstractListModel):
    """Headings, folders and conversations in one list; conversations can be dragged onto folders.

    Attributes:
        open_id: the conversation that is open.

    Signals:
        rename_requested(conversation_id, title), folder_rename_requested(folder_id, name): edited in place.
        move_requested(conversation_ids: list, folder_id or None): dropped there.
    """

    rename_requested = Signal(str, str)
    folder_rename_requested = Signal(str, str)
    move_requested = Signal(list, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[_Row] = []
        self._busy_ids: set[str] = set()
        self._now = datetime.now()
        self._search = NO_SEARCH
        self.open_id = ""

    def show_records(
        self,
        records: Sequence[ConversationRecord],
        busy_ids: Iterable[str],
        shelves: Sequence[Shelf] = (),
        search: Search = NO_SEARCH,
    ) -> bool:
        """Show other rows, grouped as of now; False when nothing differs but times and dots."""
        self._now = datetime.now()
        self._busy_ids = set(busy_ids)
        rows = _grouped(records, shelves, self._busy_ids, self._now)
        is_same_search, self._search = search == self._search, search
        if is_same_search and [row.key for row in rows] == [row.key for row in self._rows]:
            self._rows = rows
            if rows:
                self.dataChanged.emit(self.index(0), self.index(len(rows) - 1))
            return False
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()
        return True

    def mark_open(self, conversation_id: str) -> None:
        """Say which conversation is open; "" for none in the list."""
        rows = {self.row_of(self.open_id), self.row_of(conversation_id)} - {-1}
        self.open_id = conversation_id
        for row in rows:
            self.dataChanged.emit(self.index(row), self.index(row), [IS_OPEN])

    def row_of(self, conversation_id: str) -> int:
        """The row of a conversation, -1 when it is not in the list."""
        for row, entry in enumerate(self._rows):
            if entry.record is not None and entry.record.id == conversation_id:
                return row
        return -1

    def row_of_folder(self, folder_id: str) -> int:
        """The row of a folder, -1 when it is not in the list."""
        for row, entry in enumerate(self._rows):
            if entry.is_folder and entry.shelf is not None and entry.shelf.record.id == folder_id:
                return row
        return -1

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: _Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> object:
        row = self._rows[index.row()]
        if role == IS_HEADING:
            return row.record is None and row.shelf is None
        if role == IS_FOLDER:
            return row.is_folder
        if role == FOLDER_ID:
            return row.shelf.record.id if row.shelf is not None else ""
        if row.record is not None:
            return self._conversation_data(row.record, role)
        if row.shelf is not None:
            return _folder_data(row, row.shelf, role)
        is_text = role in {int(Qt.ItemDataRole.DisplayRole), int(Qt.ItemDataRole.AccessibleTextRole)}
        return row.heading if is_text else None

    def _conversation_data(self, record: ConversationRecord, role: int) -> object:
        if role == int(Qt.ItemDataRole.DisplayRole):
            return displayable(record.title)
        if role == int(Qt.ItemDataRole.EditRole):
            return record.title
        if role == int(Qt.ItemDataRole.AccessibleTextRole):
            busy = tr(", answering") if record.id in self._busy_ids else ""
            excerpt = self._search.excerpts.get(record.id, "")
            spoken = f"{record.title}, {when(record.updated_at, self._now)}{busy}"
            return f"{spoken}: {displayable(excerpt)}" if excerpt else spoken
        if role == int(Qt.ItemDataRole.ToolTipRole):
            return plain_tooltip(displayable(record.title))
        values = {
            CONVERSATION_ID: record.id,
            WHEN: when(record.updated_at, self._now),
            IS_BUSY: record.id in self._busy_ids,
            IS_PINNED: record.is_pinned,
            IS_OPEN: record.id == self.open_id,
            EXCERPT: displayable(self._search.excerpts.get(record.id, "")),
            SEARCH_WORDS: self._search.words,
        }
        return values.get(role)

    def flags(self, index: _Index) -> Qt.ItemFlag:
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled  # the free space below: out of all folders
        row = self._rows[index.row()]
        if row.record is None and row.shelf is None:
            return Qt.ItemFlag.ItemIsDropEnabled
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable
        drag = Qt.ItemFlag.ItemIsDragEnabled if row.record is not None else Qt.ItemFlag.NoItemFlags
        return flags | Qt.ItemFlag.ItemIsDropEnabled | drag

    def setData(self, index: _Index, value: object, role: int = int(Qt.ItemDataRole.EditRole)) -> bool:
        row = self._rows[index.row()]
        name = " ".join(str(value).split())
        if role != int(Qt.ItemDataRole.EditRole) or not name:
            return False
        if row.record is not None:
            if name != row.record.title:
                self.rename_requested.emit(row.record.id, name)
        elif row.shelf is not None and name != row.shelf.record.name:
            self.folder_rename_requested.emit(row.shelf.record.id, name)
        return True

    # ------------------------------------------------------------------------------------ drag and drop

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [MIME_TYPE]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        ids = [index.data(CONVERSATION_ID) for index in indexes if index.data(CONVERSATION_ID)]
        data = QMimeData()
        data.setData(MIME_TYPE, json.dumps(ids).encode("utf-8"))
        return data

    def canDropMimeData(
        self, data: QMimeData, _action: Qt.DropAction, _row: int, _column: int, _parent: _Index
    ) -> bool:
        return data.hasFormat(MIME_TYPE)

    def dropMimeData(self, data: QMimeData, _action: Qt.DropAction, row: int, _column: int, parent: _Index) -> bool:
        """Move the dragged conversations to where ``parent``, or the row above the gap, lies."""
        try:
            ids = [id_ for id_ in json.loads(bytes(data.data(MIME_TYPE).data())) if isinstance(id_, str)]
        except (ValueError, TypeError):
            return False
        target = parent.row() if parent.isValid() else row - 1
        shelf = self._rows[target].shelf if 0 <= target < len(self._rows) else None
        self.move_requested.emit(ids, shelf.record.id if shelf is not None else None)
        return bool(ids)


def group_of(updated_at: float, now: datetime) -> str:
    """The heading a conversation stands under."""
    day = datetime.fromtimestamp(updated_at).date()
    age = (now.date() - day).days
    if age <= 0:
        return tr("Today")
    if age == 1:
        return tr("Yesterday")
    if age <= 7:
        return tr("Last week")
    if age <= 30:
        return tr("Last month")
    month = QLocale().standaloneMonthName(day.month, QLocale.FormatType.LongFormat)
    return month if day.year == now.year else f"{month} {day.year}"


def when(updated_at: float, now: datetime) -> str:
    """The short time beside a title: "now", "9:12", "Mon", "12 Nov"."""
    moment = datetime.fromtimestamp(updated_at)
    if timedelta(0) <= now - moment < timedelta(minutes=1):
        return tr("now")
    age = (now.date() - moment.date()).days
    if age <= 0:
        return f"{moment.hour}:{moment.minute:02d}"
    if age <= 7:
        return QLocale().dayName(moment.isoweekday(), QLocale.FormatType.ShortFormat)
    month = QLocale().monthName(moment.month, QLocale.FormatType.ShortFormat)
    if moment.year != now.year:
        return f"{month} {moment.year}"
    return tr("{day} {month}", day=moment.day, month=month)


def _folder_data(row: _Row, shelf: Shelf, role: int) -> object:
    if role in {int(Qt.ItemDataRole.DisplayRole), int(Qt.ItemDataRole.ToolTipRole)}:
        text = displayable(shelf.record.name)
        return text if role == int(Qt.ItemDataRole.DisplayRole) else plain_tooltip(text)
    if role == int(Qt.ItemDataRole.EditRole):
        return shelf.record.name
    if role == int(Qt.ItemDataRole.AccessibleTextRole):
        state = tr("folded") if shelf.is_folded else tr("unfolded")
        return tr(
            "Folder {name}, chats: {count}, {state}",
            name=shelf.record.name,
            count=row.num_inside,
            state=state,
        )
    # A folded folder shows the dot of what answers inside.
    values = {WHEN: str(row.num_inside), IS_BUSY: row.has_busy and shelf.is_folded, IS_FOLDED: shelf.is_folded}
    return values.get(role)


def _grouped(
    records: Sequence[ConversationRecord], shelves: Sequence[Shelf], busy_ids: set[str], now: datetime
) -> list[_Row]:
    rows: list[_Row] = []
    ordered = sorted(records, key=lambda record: -record.updated_at)
    pinned = [record for record in records if record.is_pinned]
    if pinned:
        rows.append(_Row(tr("Pinned")))
        rows.extend(_Row(record=record) for record in pinned)
    if shelves:
        rows.append(_Row(tr("Folders")))
    lying: dict[str | None, list[ConversationRecord]] = {}
    for record in ordered:
        if not record.is_pinned:
            lying.setdefault(record.folder_id, []).append(record)
    for shelf in shelves:
        inside = lying.get(shelf.record.id, [])
        has_busy = any(record.id in busy_ids for record in inside)
        rows.append(_Row(shelf=shelf, num_inside=len(inside), has_busy=has_busy))
        if not shelf.is_folded:
            rows.extend(_Row(record=record, shelf=shelf) for record in inside)
    known = {shelf.record.id for shelf in shelves}
    heading = ""
    for record in ordered:
        if record.is_pinned or record.folder_id in known:
            continue
        group = group_of(record.updated_at, now)
        if group != heading:
            heading = group
            rows.append(_Row(heading))
        rows.append(_Row(record=record))
    return rows
