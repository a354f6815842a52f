"""The folders that conversations can lie in, and which of them are folded. Knows no conversation."""

from __future__ import annotations

import time
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.settings import Settings
from app.storage.folders import delete_folder, save_folder
from app.storage.records import FolderRecord, new_id, one_line
from app.storage.store import ChatStore
from app.translation import tr

MAX_NAME_CHARACTERS = 80


class Folders(QObject):
    """Makes, renames, folds and deletes folders; each change reaches the store in order.

    Signals:
        changed(): other folders, names or folds.
        deleted(FolderRecord): its conversations lie outside of all folders now.
    """

    changed = Signal()
    deleted = Signal(object)

    def __init__(self, store: ChatStore, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._settings = settings
        self._records = {record.id: record for record in store.read_folders()}
        self._folded = {id_ for id_ in str(settings.value("folded_folders")).split() if id_ in self._records}

    def __contains__(self, folder_id: str | None) -> bool:
        return folder_id in self._records

    def records(self) -> list[FolderRecord]:
        """All folders by name."""
        return sorted(self._records.values(), key=lambda record: (record.name.casefold(), record.created_at))

    def is_folded(self, folder_id: str) -> bool:
        """Whether its conversations are hidden."""
        return folder_id in self._folded

    def make(self, name: str) -> FolderRecord:
        """A new folder, unfolded; another one of the same name gets a number."""
        record = FolderRecord(new_id(), self._free_name(_cut(name) or tr("New folder")), time.time())
        self._save(record)
        return record

    def rename(self, folder_id: str, name: str) -> None:
        """Give a folder another name; an empty one is ignored."""
        name = _cut(name)
        if name and folder_id in self._records and name != self._records[folder_id].name:
            self._save(replace(self._records[folder_id], name=name))

    def delete(self, folder_id: str) -> None:
        """Remove a folder; its conversations stay."""
        if (record := self._records.pop(folder_id, None)) is None:
            return
        self._folded.discard(folder_id)
        self._store.write(lambda connection: delete_folder(connection, folder_id))
        self.deleted.emit(record)
        self.changed.emit()

    def put_back(self, record: FolderRecord) -> None:
        """A folder that was deleted is there again, as it was but empty and unfolded."""
        self._save(replace(record, name=self._free_name(record.name)))

    def set_folded(self, folder_id: str, is_folded: bool) -> None:
        """Hide or show a folder's conversations, also after the next start."""
        if folder_id not in self._records or is_folded == self.is_folded(folder_id):
            return
        self._folded ^= {folder_id}
        self._settings.set("folded_folders", " ".join(sorted(self._folded)))
        self.changed.emit()

    def _save(self, record: FolderRecord) -> None:
        self._records[record.id] = record
        self._store.write(lambda connection: save_folder(connection, record))
        self.changed.emit()

    def _free_name(self, name: str) -> str:
        taken = {record.name for record in self._records.values()}
        number = 2
        free = name
        while free in taken:
            free = f"{name} {number}"
            number += 1
        return free


def _cut(name: str) -> str:
    return one_line(name)[:MAX_NAME_CHARACTERS].rstrip()
