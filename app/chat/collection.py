"""All conversations: the list, the trees that were opened, and how changes to them reach the store.

Memory is what views see; the store follows in order. What could not be stored is stored again, whole, with the next
change of the same conversation, and without one as soon as that succeeds.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.conversation import UNTITLED, Conversation
from app.chat.folders import Folders
from app.chat.trash import Trash
from app.settings import Settings
from app.storage.conversations import save_conversation, save_message
from app.storage.records import ConversationRecord, FolderRecord, MessageRecord, new_id, one_line
from app.storage.spelling import pattern_of
from app.storage.store import ChatStore, Write
from app.throttle import Throttle

DRAFT_INTERVAL_MS = 500
RETRY_MS = 5000  # until what could not be stored is tried again
MAX_RENAMED_CHARACTERS = 300  # a longer title would only make the list slow


class ConversationCollection(QObject):
    """Finds, makes, changes, moves, deletes and restores conversations.

    Attributes:
        folders: in which conversations may lie.
        trash: the deleted ones.

    Signals:
        changed(): the visible list differs.
        folder_deleted(FolderRecord, conversation ids: list): these lay in it.
    """

    changed = Signal()
    folder_deleted = Signal(object, list)

    def __init__(
        self,
        store: ChatStore,
        settings: Settings,
        parent: QObject | None = None,
        new_options: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        """``new_options`` gives the options that a new conversation begins with."""
        super().__init__(parent)
        self._new_options = new_options
        self._store = store
        self.folders = Folders(store, settings, self)
        self.trash = Trash(store, self)
        self._records = {record.id: self._placed(record) for record in store.read_conversations()}
        self._visible: list[ConversationRecord] | None = None  # None once anything that it is made of differs
        self._trees: dict[str, Conversation] = {}
        self._unsaved: dict[
            str, list[Write]
        ] = {}  # what could not be stored, and what belongs to it beside messages
        self._retry = QTimer(self)
        self._retry.setSingleShot(True)
        self._retry.setInterval(RETRY_MS)
        self._retry.timeout.connect(self._save_unsaved)
        self._is_closed = False
        self._search_words: tuple[str, ...] = ()
        self._found: dict[str, dict[str, str]] = {}  # of each word, the conversations in whose text it is: excerpts
        self._draft_id = ""
        self._draft_saver = Throttle(DRAFT_INTERVAL_MS, self._save_draft, self)
        self.folders.deleted.connect(self._on_folder_deleted)
        self.folders.changed.connect(self.changed)
        self.trash.purged.connect(self._on_purged)

    def __contains__(self, conversation_id: str) -> bool:
        return conversation_id in self._records

    def record(self, conversation_id: str) -> ConversationRecord:
        """The conversation's fields; raises KeyError for an unknown or deleted one."""
        return self._records[conversation_id]

    def visible(self) -> Sequence[ConversationRecord]:
        """What the list shows: pinned first, then the last written first; while searching only what was found.

        Found is a conversation that has each word in its title or in one of its messages. As long as nothing
        changes it is the same object.
        """
        if self._visible is None:
            self._visible = self._find_visible()
        return self._visible

    def _find_visible(self) -> list[ConversationRecord]:
        records = [record for record in self._records.values() if record.active_leaf_id is not None]
        for word in self._search_words:
            found = self._found.get(word, {})
            pattern = pattern_of(word)
            records = [record for record in records if record.id in found or pattern.search(record.title)]
        records.sort(key=attrgetter("updated_at"), reverse=True)
        records.sort(key=attrgetter("is_pinned"), reverse=True)  # and otherwise as they are
        return records

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
        record = ConversationRecord(new_id(), UNTITLED, now, now, options=self._new_options())
        self._put(record)
        return record

    @property
    def is_searching(self) -> bool:
        """Only what was found is visible."""
        return bool(self._search_words)

    @property
    def search_words(self) -> tuple[str, ...]:
        """What is searched for; empty while nothing is."""
        return self._search_words

    def excerpt(self, conversation_id: str) -> str:
        """A line of a message in which one of the words is, the longest first; "" where they are in the title."""
        for word in sorted(self._search_words, key=len, reverse=True):
            if excerpt := self._found.get(word, {}).get(conversation_id):
                return excerpt
        return ""

    def found_message(self, conversation_id: str) -> str:
        """The id of the message that ``excerpt`` is of; "" where there is none."""
        for word in sorted(self._search_words, key=len, reverse=True):
            if self._found.get(word, {}).get(conversation_id):
                pattern = pattern_of(word)
                messages = reversed(self.tree(conversation_id).messages())
                found = (message.id for message in messages if pattern.search(message.content))
                files = self._store.read_attachments(conversation_id)
                attached = (file.message_id for file in reversed(files) if pattern.search(file.name))
                return next(found, None) or next(filter(None, attached), "")
        return ""

    def search(self, text: str) -> None:
        """Show only conversations whose titles or messages contain the words of ``text``; empty shows all."""
        words = tuple(dict.fromkeys(text.split()))
        if words == self._search_words:
            return
        self._search_words, self._visible = words, None
        self._found = {word: found for word, found in self._found.items() if word in words}
        if missing := [word for word in words if word not in self._found]:
            self._store.find(missing, lambda found: self._on_found(words, found))
        self.changed.emit()

    def rename(self, conversation_id: str, title: str) -> None:
        """Give a conversation another title; an empty one is ignored, and so is an unknown id."""
        title = one_line(title[:MAX_RENAMED_CHARACTERS])
        if title and conversation_id in self:
            self.update(replace(self._records[conversation_id], title=title))

    def change(self, conversation_ids: Iterable[str], **fields: Any) -> None:
        """Change fields of conversations; unknown ids are ignored."""
        if known := [self._records[id_] for id_ in conversation_ids if id_ in self]:
            self.update(*(replace(record, **fields) for record in known))

    def update(self, *records: ConversationRecord) -> None:
        """Change conversations' own fields, in one transaction."""
        for record in records:
            self._take(record)

        def work(connection: sqlite3.Connection) -> None:
            for record in records:
                save_conversation(connection, record)

        def failed(_sentence: str) -> None:
            for record in records:
                self._note_unsaved(record.id)

        self._store.write(work, on_error=failed)
        self.changed.emit()

    def add(self, conversation: Conversation, also: Write | None = None) -> None:
        """Take in a whole conversation from elsewhere, and store it together with ``also``."""
        self._put(conversation.record)
        self._trees[conversation.record.id] = conversation
        self.save(conversation, conversation.messages(), also=also)

    def save(
        self,
        conversation: Conversation,
        messages: Sequence[MessageRecord],
        on_saved: Callable[[], None] | None = None,
        on_error: Callable[[str], None] | None = None,
        also: Write | None = None,
        *,
        is_retry: bool = False,
    ) -> None:
        """Store the conversation, those of its messages that are new or changed, and ``also``, in one transaction.

        A conversation that was removed for good stays gone. Of a failed ``is_retry`` the person is not told again.
        """
        record = conversation.record
        if self.trash.is_gone(record.id):
            return
        self._take(record)
        is_whole = record.id in self._unsaved
        late, own = list(self._unsaved.get(record.id, ())), [] if also is None else [also]
        to_save = conversation.messages() if is_whole else list(messages)

        def work(connection: sqlite3.Connection) -> None:
            save_conversation(connection, record)
            for message in to_save:
                save_message(connection, message)
            for each in (*late, *own):
                each(connection)

        def done() -> None:
            if is_whole and (left := self._unsaved.pop(record.id, [])[len(late) :]):
                self._unsaved[record.id] = left  # failed meanwhile
            if on_saved is not None:
                on_saved()

        def failed(sentence: str) -> None:
            self._note_unsaved(record.id, *own)
            if on_error is not None:
                on_error(sentence)

        self._store.write(work, done, failed, is_told=not is_retry)
        self.changed.emit()

    def save_progress(self, message: MessageRecord) -> None:
        """Store an answer as far as it has come."""
        is_gone = self.trash.is_gone(message.conversation_id)
        if message.conversation_id not in self._unsaved and not is_gone:
            self._store.write(
                lambda connection: save_message(connection, message),
                on_error=lambda _sentence: self._note_unsaved(message.conversation_id),
            )

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

    def close(self) -> None:
        """Hand all that is not stored yet to the store, what failed once more; nothing is tried later."""
        self.flush_draft()
        self._is_closed = True
        self._retry.stop()
        self._save_unsaved()

    def delete(self, conversation_ids: Iterable[str]) -> None:
        """Put conversations into the trash; unknown ids are ignored."""
        self.flush_draft()
        for conversation_id in conversation_ids:
            if (record := self._records.pop(conversation_id, None)) is not None:
                self._visible = None
                self.trash.put(record)
        self.changed.emit()

    def restore(self, conversation_ids: Iterable[str]) -> list[str]:
        """Take conversations out of the trash; returns the ids of those that were there."""
        restored: list[str] = []
        for conversation_id in conversation_ids:
            if (record := self.trash.take(conversation_id)) is not None:
                tree = self._trees.get(conversation_id)
                self._put(tree.record if tree is not None else record)
                restored.append(conversation_id)
        if restored:
            self.changed.emit()
        return restored

    def _placed(self, record: ConversationRecord) -> ConversationRecord:
        """``record`` outside of all folders where its own cannot be read: it could not be saved in that."""
        is_placed = record.folder_id is None or record.folder_id in self.folders
        return record if is_placed else replace(record, folder_id=None)

    def _take(self, record: ConversationRecord) -> None:
        if record.id in self.trash:
            self.trash.update(record)
        else:
            self._put(record)
        if record.id in self._trees:
            self._trees[record.id].record = record

    def _put(self, record: ConversationRecord) -> None:
        self._records[record.id] = record
        self._visible = None

    def _note_unsaved(self, conversation_id: str, *also: Write) -> None:
        if not self.trash.is_gone(conversation_id):
            self._unsaved.setdefault(conversation_id, []).extend(also)
            if not self._is_closed:
                self._retry.start()

    def _save_unsaved(self) -> None:
        for conversation_id in list(self._unsaved):
            if conversation_id in self._trees or conversation_id in self._records:
                self.save(self._trees.get(conversation_id) or self.tree(conversation_id), (), is_retry=True)
            else:
                del self._unsaved[conversation_id]

    def _save_draft(self) -> None:
        if (record := self._records.get(self._draft_id)) is not None:
            self._store.write(lambda connection: save_conversation(connection, record))

    def _on_found(self, words: tuple[str, ...], found: dict[str, dict[str, str]]) -> None:
        if words == self._search_words:
            self._found.update(found)
            self._visible = None
            self.changed.emit()

    def _on_folder_deleted(self, folder: FolderRecord) -> None:
        inside = [record for record in self._records.values() if record.folder_id == folder.id]
        inside += [
            entry.conversation for entry in self.trash.records() if entry.conversation.folder_id == folder.id
        ]
        for record in inside:  # the database has let go of the folder by itself
            self._take(replace(record, folder_id=None))
        self.folder_deleted.emit(folder, [record.id for record in inside])

    def _on_purged(self, conversation_ids: list[str]) -> None:
        for conversation_id in conversation_ids:
            self._trees.pop(conversation_id, None)
            self._unsaved.pop(conversation_id, None)
