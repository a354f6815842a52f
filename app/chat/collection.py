"""All conversations: the list, the trees that were opened, and how changes to them reach the store.

Memory is what views see; the store follows in order. What could not be stored is stored again, whole, with the next
change of the same conversation.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.chat.conversation import UNTITLED, Conversation
from app.storage.conversations import mark_deleted, save_conversation, save_message
from app.storage.records import ConversationRecord, MessageRecord, new_id
from app.storage.store import ChatStore
from app.throttle import Throttle

DRAFT_INTERVAL_MS = 500


class ConversationCollection(QObject):
    """Finds, makes, changes, deletes and restores conversations.

    Signals:
        changed(): the visible list differs.
    """

    changed = Signal()

    def __init__(self, store: ChatStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._records = {record.id: record for record in store.read_conversations()}
        self._trees: dict[str, Conversation] = {}
        self._deleted: dict[str, ConversationRecord] = {}
        self._unsaved: set[str] = set()
        self._search_text = ""
        self._found: set[str] = set()
        self._draft_id = ""
        self._draft_saver = Throttle(DRAFT_INTERVAL_MS, self._save_draft, self)

    def __contains__(self, conversation_id: str) -> bool:
        return conversation_id in self._records

    def record(self, conversation_id: str) -> ConversationRecord:
        """The conversation's fields; raises KeyError for an unknown or deleted one."""
        return self._records[conversation_id]

    def visible(self) -> list[ConversationRecord]:
        """What the list shows: pinned first, then the last written first; while searching only what was found."""
        records = [record for record in self._records.values() if record.active_leaf_id is not None]
        if self._search_text:
            wanted = self._search_text.casefold()
            records = [
                record for record in records if record.id in self._found or wanted in record.title.casefold()
            ]
        return sorted(records, key=lambda record: (not record.is_pinned, -record.updated_at))

    def tree(self, conversation_id: str) -> Conversation:
        """The conversation with its messages, read once; raises KeyError for an unknown or deleted one."""
        record = self._records[conversation_id]
        if conversation_id not in self._trees:
            self._trees[conversation_id] = Conversation(record, self._store.read_messages(conversation_id))
        return self._trees[conversation_id]

    def blank(self) -> ConversationRecord:
        """The conversation in which nothing was sent yet; there is at most one, and it may hold a draft."""
        for record in self._records.values():
            if record.active_leaf_id is None and not self.tree(record.id).branch():
                return record
        now = time.time()
        record = ConversationRecord(new_id(), UNTITLED, now, now)
        self._records[record.id] = record
        return record

    def search(self, text: str) -> None:
        """Show only conversations whose title or messages contain ``text``; empty shows all."""
        text = " ".join(text.split())
        if text == self._search_text:
            return
        self._search_text = text
        self._found = set()
        if text:
            self._store.find(text, lambda found: self._on_found(text, found))
        self.changed.emit()

    def update(self, record: ConversationRecord) -> None:
        """Change a conversation's own fields."""
        self._take(record)
        self._store.write(lambda connection: save_conversation(connection, record))
        self.changed.emit()

    def save(
        self,
        conversation: Conversation,
        messages: Sequence[MessageRecord],
        on_saved: Callable[[], None] | None = None,
        on_error: Callable[[str], None] | None = None,
    ) -> None:
        """Store the conversation and those of its messages that are new or changed, in one transaction."""
        record = conversation.record
        self._take(record)
        is_whole = record.id in self._unsaved
        to_save = conversation.messages() if is_whole else list(messages)

        def work(connection: sqlite3.Connection) -> None:
            save_conversation(connection, record)
            for message in to_save:
                save_message(connection, message)

        def done() -> None:
            if is_whole:
                self._unsaved.discard(record.id)
            if on_saved is not None:
                on_saved()

        def failed(sentence: str) -> None:
            self._unsaved.add(record.id)
            if on_error is not None:
                on_error(sentence)

        self._store.write(work, done, failed)
        self.changed.emit()

    def save_progress(self, message: MessageRecord) -> None:
        """Store an answer as far as it has come."""
        if message.conversation_id not in self._unsaved:
            self._store.write(lambda connection: save_message(connection, message))

    def set_draft(self, conversation_id: str, text: str) -> None:
        """Keep what stands in the composer; on disk within half a second."""
        record = self._records.get(conversation_id)
        if record is None or record.draft == text:
            return
        if self._draft_id != conversation_id:
            self.flush_draft()
            self._draft_id = conversation_id
        self._take(replace(record, draft=text))
        self._draft_saver.request()

    def flush_draft(self) -> None:
        """Store a draft that is due."""
        self._draft_saver.flush()

    def delete(self, conversation_id: str) -> None:
        """Put a conversation into the trash."""
        self.flush_draft()
        self._deleted[conversation_id] = self._records.pop(conversation_id)
        deleted_at = time.time()
        self._store.write(lambda connection: mark_deleted(connection, conversation_id, deleted_at))
        self.changed.emit()

    def restore(self, conversation_id: str) -> bool:
        """Take a conversation that was deleted in this session out of the trash."""
        record = self._deleted.pop(conversation_id, None)
        if record is None:
            return False
        tree = self._trees.get(conversation_id)
        self._records[conversation_id] = tree.record if tree is not None else record
        self._store.write(lambda connection: mark_deleted(connection, conversation_id, None))
        self.changed.emit()
        return True

    def _take(self, record: ConversationRecord) -> None:
        if record.id not in self._deleted:
            self._records[record.id] = record
        if record.id in self._trees:
            self._trees[record.id].record = record

    def _save_draft(self) -> None:
        if (record := self._records.get(self._draft_id)) is not None:
            self._store.write(lambda connection: save_conversation(connection, record))

    def _on_found(self, text: str, found: set[str]) -> None:
        if text == self._search_text:
            self._found = found
            self.changed.emit()
