"""The item model of the sidebar: what its rows show, and which of them a change touches; no drawing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime

from PySide6.QtCore import (
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QStringListModel,
    Qt,
    Signal,
)

from app.chat.blocks import displayable
from app.chat.conversation_rows import Row, Shelf, folder_key, grouped, when
from app.chat.row_changes import Insertion, Move, Removal, row_changes
from app.storage.records import ConversationRecord
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
EXCERPT = int(Qt.ItemDataRole.UserRole) + 9  # of a conversation that was found, "" for none
LOOK = int(Qt.ItemDataRole.UserRole) + 10  # the row's RowLook

_DISPLAY, _EDIT = int(Qt.ItemDataRole.DisplayRole), int(Qt.ItemDataRole.EditRole)
_TOOLTIP, _SPOKEN = int(Qt.ItemDataRole.ToolTipRole), int(Qt.ItemDataRole.AccessibleTextRole)
_HEADING_FLAGS = Qt.ItemFlag.ItemIsDropEnabled
_FOLDER_FLAGS = (
    Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable | _HEADING_FLAGS
)
_CONVERSATION_FLAGS = _FOLDER_FLAGS | Qt.ItemFlag.ItemIsDragEnabled
# Made once: to put flags together, or to turn an enumeration into a number, takes as long as all the rest of a row.

MIME_TYPE = "application/x-fireside-chats"
MAX_CHANGES = 200  # more of them take longer than making all rows anew

_Index = QModelIndex | QPersistentModelIndex


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
class RowLook:
    """All that is drawn of a row, so that the model is asked once.

    Attributes:
        text: the heading, the folder's name, or the conversation's title.
        trailing: what stands at the end: how many are inside, or when it was written.
        is_inside: of a conversation: it is shown in a folder.
        excerpt: of a conversation that was found; "" for none.
        words: what was searched for.
    """

    text: str
    trailing: str = ""
    is_heading: bool = False
    is_folder: bool = False
    is_folded: bool = False
    is_inside: bool = False
    is_busy: bool = False
    is_open: bool = False
    excerpt: str = ""
    words: tuple[str, ...] = ()


class ConversationListModel(QStringListModel):
    """Headings, folders and conversations in one list; conversations can be dragged onto folders.

    Qt asks for the number of rows twice for each row that it lays out, so that is kept where Python is not called:
    in a list of as many empty strings. With 5,000 rows a layout takes 1.4 ms for 18.

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
        self._rows: list[Row] = []
        self._places: dict[str, int] = {}  # of the rows, by their keys; empty while it is not known
        self._records: Sequence[ConversationRecord] = ()
        self._shelves: tuple[Shelf, ...] = ()
        self._busy_ids: set[str] = set()
        self._busy_folders: set[str | None] = set()
        self._now = datetime.now()
        self._search = NO_SEARCH
        self.open_id = ""
        self.rowsRemoved.connect(self._on_rows_removed)  # before any view hears of it

    def show_records(
        self,
        records: Sequence[ConversationRecord],
        busy_ids: Iterable[str],
        shelves: Sequence[Shelf] = (),
        search: Search = NO_SEARCH,
    ) -> bool:
        """Show other rows, grouped as of now; True when all were made anew, else only what differs was touched.

        The same ``records`` object again, which nobody may have changed, is not looked through.
        """
        now = datetime.now()
        is_same = records is self._records and tuple(shelves) == self._shelves and now.date() == self._now.date()
        is_same_search = search == self._search
        self._now, self._search = now, search
        self._records, self._shelves = records, tuple(shelves)
        is_anew = False
        if not (is_same and is_same_search):
            rows = grouped(records, shelves, now, {row.key: row for row in self._rows})
            is_anew = not is_same_search or not self._change_to(rows)
            if is_anew:
                self._rows, self._places = rows, {}
                self.setStringList([""] * len(rows))
        self._mark_busy(set(busy_ids))
        return is_anew

    def _change_to(self, rows: list[Row]) -> bool:
        """Become ``rows`` by single changes; False when there are too many."""
        changes = row_changes([row.key for row in self._rows], [row.key for row in rows])
        if len(changes) > MAX_CHANGES:
            return False
        by_key = {row.key: row for row in rows} if changes else {}
        for change in changes:
            self._places = {}
            match change:
                case Removal(first, count):
                    super().removeRows(first, count)
                case Move(source, destination):
                    self._rows.insert(destination - (source < destination), self._rows.pop(source))
                    super().moveRows(QModelIndex(), source, 1, QModelIndex(), destination)
                case Insertion(first, keys):
                    self._rows[first:first] = [by_key[key] for key in keys]
                    super().insertRows(first, len(keys))
        differing = [place for place, (was, row) in enumerate(zip(self._rows, rows)) if was is not row]
        self._rows = rows
        self._say_changed(differing)
        return True

    def _on_rows_removed(self, _parent: QModelIndex, first: int, last: int) -> None:
        del self._rows[first : last + 1]

    def _mark_busy(self, busy_ids: set[str]) -> None:
        if not busy_ids and not self._busy_ids:
            return
        folders = {one.folder_id for one in self._records if one.id in busy_ids and not one.is_pinned}
        keys = (busy_ids ^ self._busy_ids) | {folder_key(id_ or "") for id_ in folders ^ self._busy_folders}
        self._busy_ids, self._busy_folders = busy_ids, folders
        self._say_changed(sorted({self._place(key) for key in keys} - {-1}))

    def _say_changed(self, places: Sequence[int]) -> None:
        for first, last in [(places[0], places[-1])] if len(places) > MAX_CHANGES else zip(places, places):
            self.dataChanged.emit(self.index(first), self.index(last))

    def mark_open(self, conversation_id: str) -> None:
        """Say which conversation is open; "" for none in the list."""
        if conversation_id == self.open_id:
            return
        rows = {self.row_of(self.open_id), self.row_of(conversation_id)} - {-1}
        self.open_id = conversation_id
        for row in rows:
            self.dataChanged.emit(self.index(row), self.index(row), [LOOK])

    def row_of(self, conversation_id: str) -> int:
        """The row of a conversation, -1 when it is not in the list."""
        return self._place(conversation_id)

    def row_of_folder(self, folder_id: str) -> int:
        """The row of a folder, -1 when it is not in the list."""
        return self._place(folder_key(folder_id))

    def _place(self, key: str) -> int:
        if not self._places:
            self._places = {row.key: place for place, row in enumerate(self._rows)}
        return self._places.get(key, -1)

    def removeRows(self, _row: int, _count: int, _parent: _Index = QModelIndex()) -> bool:  # noqa: B008
        """Refused: a view removes what was dragged away, which here only moves when the records say so."""
        return False

    def data(self, index: _Index, role: int = _DISPLAY) -> object:
        row = self._rows[index.row()]
        if role == LOOK:
            return self._look(row)
        if role == IS_HEADING:
            return row.record is None and row.shelf is None
        if role == IS_FOLDER:
            return row.shelf is not None
        if role == FOLDER_ID:
            return row.folder_id
        if row.record is not None:
            return self._conversation_data(row.record, role)
        if row.shelf is not None:
            return self._folder_data(row, row.shelf, role)
        return row.heading if role in {_DISPLAY, _SPOKEN} else None

    def _look(self, row: Row) -> RowLook:
        if (record := row.record) is not None:
            return RowLook(
                displayable(record.title),
                when(record.updated_at, self._now),
                is_inside=bool(row.folder_id),
                is_busy=record.id in self._busy_ids,
                is_open=record.id == self.open_id,
                excerpt=self._excerpt(record),
                words=self._search.words,
            )
        if (shelf := row.shelf) is not None:
            return RowLook(
                displayable(shelf.record.name),
                str(row.num_inside),
                is_folder=True,
                is_folded=shelf.is_folded,
                is_busy=self._shows_busy(row),
            )
        return RowLook(row.heading, is_heading=True)

    def _excerpt(self, record: ConversationRecord) -> str:
        excerpt = self._search.excerpts.get(record.id, "")
        return displayable(excerpt) if excerpt else ""

    def _shows_busy(self, row: Row) -> bool:
        """A folded folder shows the dot of what answers inside."""
        return row.shelf is not None and row.shelf.is_folded and row.folder_id in self._busy_folders

    def _conversation_data(self, record: ConversationRecord, role: int) -> object:
        value: object = None
        if role == CONVERSATION_ID:
            value = record.id
        elif role == IS_BUSY:
            value = record.id in self._busy_ids
        elif role == IS_PINNED:
            value = record.is_pinned
        elif role == EXCERPT:
            value = self._excerpt(record)
        elif role == _DISPLAY:
            value = displayable(record.title)
        elif role == _EDIT:
            value = record.title
        elif role == _TOOLTIP:
            value = plain_tooltip(displayable(record.title))
        elif role == _SPOKEN:
            busy, excerpt = tr(", answering") if record.id in self._busy_ids else "", self._excerpt(record)
            spoken = f"{record.title}, {when(record.updated_at, self._now)}{busy}"
            value = f"{spoken}: {excerpt}" if excerpt else spoken
        return value

    def _folder_data(self, row: Row, shelf: Shelf, role: int) -> object:
        value: object = None
        if role == IS_FOLDED:
            value = shelf.is_folded
        elif role == IS_BUSY:
            value = self._shows_busy(row)
        elif role == _DISPLAY:
            value = displayable(shelf.record.name)
        elif role == _EDIT:
            value = shelf.record.name
        elif role == _TOOLTIP:
            value = plain_tooltip(displayable(shelf.record.name))
        elif role == _SPOKEN:
            value = tr(
                "Folder {name}, chats: {count}, {state}",
                name=shelf.record.name,
                count=row.num_inside,
                state=tr("folded") if shelf.is_folded else tr("unfolded"),
            )
        return value

    def flags(self, index: _Index) -> Qt.ItemFlag:
        if not index.isValid():
            return _HEADING_FLAGS  # the free space below: out of all folders
        row = self._rows[index.row()]
        if row.record is not None:
            return _CONVERSATION_FLAGS
        return _HEADING_FLAGS if row.shelf is None else _FOLDER_FLAGS

    def setData(self, index: _Index, value: object, role: int = _EDIT) -> bool:
        row = self._rows[index.row()]
        name = " ".join(str(value).split())
        if role != _EDIT or not name:
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
        folder_id = self._rows[target].folder_id if 0 <= target < len(self._rows) else ""
        self.move_requested.emit(ids, folder_id or None)
        return bool(ids)
