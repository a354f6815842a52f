"""The trash: conversations that were deleted, kept for 30 days and removed for good after that or on request."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from app.storage.conversations import mark_deleted, purge
from app.storage.records import ConversationRecord, TrashRecord
from app.storage.store import ChatStore

KEPT_DAYS = 30
DAY_S = 86_400.0


class Trash(QObject):
    """What can still be restored.

    Signals:
        changed(): other conversations lie in it.
        purged(conversation_ids: list): these are gone for good.
    """

    changed = Signal()
    purged = Signal(list)

    def __init__(self, store: ChatStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._records = {record.conversation.id: record for record in store.read_trash()}
        self._gone: set[str] = set()

    def __contains__(self, conversation_id: str) -> bool:
        return conversation_id in self._records

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> list[TrashRecord]:
        """What lies in the trash, the last deleted first."""
        return sorted(self._records.values(), key=lambda record: -record.deleted_at)

    def is_gone(self, conversation_id: str) -> bool:
        """Whether it was removed for good in this session; then nothing of it is stored any more."""
        return conversation_id in self._gone

    def put(self, record: ConversationRecord) -> None:
        """Put a conversation into the trash."""
        deleted_at = time.time()
        self._records[record.id] = TrashRecord(record, deleted_at)
        self._store.write(lambda connection: mark_deleted(connection, record.id, deleted_at))
        self.changed.emit()

    def update(self, record: ConversationRecord) -> None:
        """Keep another state of a conversation that lies in the trash."""
        self._records[record.id] = TrashRecord(record, self._records[record.id].deleted_at)

    def take(self, conversation_id: str) -> ConversationRecord | None:
        """Take a conversation out again; None when it is not there."""
        record = self._records.pop(conversation_id, None)
        if record is None:
            return None
        self._store.write(lambda connection: mark_deleted(connection, conversation_id, None))
        self.changed.emit()
        return record.conversation

    def purge(self, conversation_ids: Iterable[str]) -> None:
        """Remove conversations for good; those that are not in the trash are left alone."""
        ids = [id_ for id_ in conversation_ids if self._records.pop(id_, None) is not None]
        if not ids:
            return
        self._gone.update(ids)
        self._store.write(lambda connection: purge(connection, ids))
        self.purged.emit(ids)
        self.changed.emit()

    def purge_old(self, now: float | None = None) -> None:
        """Remove what was deleted more than 30 days ago."""
        limit = (time.time() if now is None else now) - KEPT_DAYS * DAY_S
        self.purge([record.conversation.id for record in self.records() if record.deleted_at < limit])


def days_left(record: TrashRecord, now: float) -> int:
    """Days until it is removed by itself, begun ones counted."""
    age_days = max(0.0, now - record.deleted_at) / DAY_S  # the clock may have been put back meanwhile
    return max(0, math.ceil(KEPT_DAYS - age_days))
