"""Texts attached to messages: a file each, below the data folder, and a row in the chat database.

A file is written before its row, so that a row always finds its text; files without a row are swept at a start,
unless their rows may be in another database: one of a newer version, or one that was damaged and is kept.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.conversation import MessageView
from app.engine_words import told
from app.storage.conversations import save_conversation
from app.storage.folders import delete_attachment, save_attachment
from app.storage.records import AttachmentRecord, ConversationRecord, clean_text, new_id
from app.storage.store import ChatStore, Write
from app.tasks import TaskRunner
from app.translation import tr
from engine.errors import InputError

_log = logging.getLogger(__name__)

PASTED_NAME = tr("Pasted text")
_SWEEP_AFTER_S = 3600.0


class Attachments(QObject):
    """All attachments of the conversations that were opened.

    Signals:
        draft_changed(conversation_id): its draft has other attachments now.
        notice(text): a file could not be attached.
    """

    draft_changed = Signal(str)
    notice = Signal(str)

    def __init__(self, store: ChatStore, folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._folder = folder
        self._records: dict[str, dict[str, AttachmentRecord]] = {}
        self._num_reading: Counter[str] = Counter()
        self._runner = TaskRunner("attachments", self)
        if store.is_whole:
            self._runner.run(lambda: sweep(folder, store.read_attachment_files(), time.time()))

    def draft(self, conversation_id: str) -> tuple[AttachmentRecord, ...]:
        """Those of the conversation's draft, in their order."""
        return self.of_message(conversation_id, None)

    def of_message(self, conversation_id: str, message_id: str | None) -> tuple[AttachmentRecord, ...]:
        """Those of a message, in their order."""
        found = [record for record in self._all(conversation_id).values() if record.message_id == message_id]
        return tuple(sorted(found, key=lambda record: record.position))

    def of_messages(self, conversation_id: str) -> dict[str, tuple[AttachmentRecord, ...]]:
        """Those of all messages that have some, by the message's id."""
        ids = {record.message_id for record in self._all(conversation_id).values() if record.message_id is not None}
        return {id_: self.of_message(conversation_id, id_) for id_ in ids}

    def shown_with(self, views: Sequence[MessageView], conversation_id: str) -> list[MessageView]:
        """Messages of a conversation together with what is attached to them."""
        attached = self.of_messages(conversation_id)
        return [
            replace(view, attachments=attached[view.record.id]) if view.record.id in attached else view
            for view in views
        ]

    def add_files(self, conversation: ConversationRecord, paths: Sequence[Path]) -> None:
        """Read files and attach them to the draft; what cannot be read is said."""
        for path in paths:
            self._add(conversation, path.name, partial(_read_file, path))

    def add_text(self, conversation: ConversationRecord, text: str, name: str = PASTED_NAME) -> None:
        """Attach a text to the draft."""
        self._add(conversation, name, lambda: text)

    def _add(self, conversation: ConversationRecord, name: str, read: Callable[[], str]) -> None:
        name = clean_text(name)  # a file's may be no Unicode
        self._num_reading[conversation.id] += 1

        def attach(stored: tuple[str, int]) -> None:
            self._num_reading[conversation.id] -= 1
            self._attach(conversation, name, *stored)

        def fail(error: Exception) -> None:
            self._num_reading[conversation.id] -= 1
            self._on_error(error)

        self._runner.run(lambda: self.store_text(clean_text(read())), attach, fail)

    def is_reading(self, conversation_id: str) -> bool:
        """Whether something is still being attached to the conversation's draft."""
        return self._num_reading[conversation_id] > 0

    def remove(self, record: AttachmentRecord) -> None:
        """Take an attachment off the draft."""
        if self._all(record.conversation_id).pop(record.id, None) is not None:
            self._store.write(lambda connection: delete_attachment(connection, record.id))
            self.draft_changed.emit(record.conversation_id)

    def send(self, conversation_id: str, message_id: str) -> Write:
        """Move the draft's attachments to a message; returns what stores that, after the message is stored."""
        moved = [replace(record, message_id=message_id) for record in self.draft(conversation_id)]
        work = self._take(conversation_id, moved)
        if moved:
            self.draft_changed.emit(conversation_id)
        return work

    def copy(self, conversation_id: str, pairs: Sequence[tuple[AttachmentRecord, str]]) -> Write:
        """Give messages of a conversation copies of attachments: pairs of one and the message's id."""
        copies = [
            replace(record, id=new_id(), conversation_id=conversation_id, message_id=message_id)
            for record, message_id in pairs
        ]
        return self._take(conversation_id, copies)

    def text(self, record: AttachmentRecord) -> str:
        """The attached text; where its file is gone, a sentence that says so."""
        try:
            return self.path(record).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            _log.warning("attachment %s: %s", record.file_name, error)
            return f"(The text of {record.name} is missing.)"

    def path(self, record: AttachmentRecord) -> Path:
        """Where the text lies."""
        return self._folder / Path(record.file_name).name

    def prompt_text(self, conversation_id: str, message_id: str | None) -> str:
        """What stands before a message's own words in the prompt; "" without attachments."""
        parts = [
            f"[{record.name}]\n{self.text(record).rstrip()}\n[end of {record.name}]\n\n"
            for record in self.of_message(conversation_id, message_id)
        ]
        return "".join(parts)

    def close(self) -> None:
        """Finish what is being read."""
        self._runner.close(0.5)

    def _all(self, conversation_id: str) -> dict[str, AttachmentRecord]:
        if conversation_id not in self._records:
            records = self._store.read_attachments(conversation_id)
            self._records[conversation_id] = {record.id: record for record in records}
        return self._records[conversation_id]

    def store_text(self, text: str) -> tuple[str, int]:
        """Write a text's file; gives its name and length. Callable on any thread; raises InputError."""
        name = f"{new_id()}.txt"
        scratch = self._folder / f"{name}.part"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with scratch.open("w", encoding="utf-8", errors="replace") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(scratch, self._folder / name)
        except OSError as error:
            with contextlib.suppress(OSError):
                scratch.unlink()  # it would take the room that is missing
            if error.errno == errno.ENOSPC:
                raise InputError(tr("The disk is full: free some space, then attach it again.")) from error
            raise InputError(
                tr("The text could not be attached: {strerror}.", strerror=error.strerror or error)
            ) from error
        return name, len(text)

    def _attach(self, conversation: ConversationRecord, name: str, file_name: str, num_characters: int) -> None:
        position = len(self.draft(conversation.id))
        record = AttachmentRecord(new_id(), conversation.id, None, position, name, file_name, num_characters)
        self._all(conversation.id)[record.id] = record

        def work(connection: sqlite3.Connection) -> None:
            # A new chat is not in the database before its first message.
            exists = connection.execute("SELECT 1 FROM conversation WHERE id = ?", (conversation.id,)).fetchone()
            if exists is None and conversation.active_leaf_id is not None:
                return  # it was removed for good while the text was read
            if exists is None:
                save_conversation(connection, conversation)
            save_attachment(connection, record)

        self._store.write(work)
        self.draft_changed.emit(conversation.id)

    def _take(self, conversation_id: str, records: Sequence[AttachmentRecord]) -> Write:
        self._all(conversation_id).update({record.id: record for record in records})

        def work(connection: sqlite3.Connection) -> None:
            for record in records:
                save_attachment(connection, record)

        return work

    def _on_error(self, error: Exception) -> None:
        if not isinstance(error, InputError):
            _log.error("attaching failed", exc_info=error)
        self.notice.emit(told(error) if isinstance(error, InputError) else tr("The file could not be attached."))


def sweep(folder: Path, used: set[str], now_s: float) -> int:
    """Remove texts that no message has any more, once they are an hour old; returns how many."""
    removed = 0
    try:
        entries = list(folder.iterdir())
    except OSError:
        return 0
    for path in entries:
        try:
            if path.name not in used and now_s - path.stat().st_mtime > _SWEEP_AFTER_S:
                path.unlink()
                removed += 1
        except OSError as error:
            _log.warning("attachment %s stays: %s", path.name, error)
    return removed


def _read_file(path: Path) -> str:
    from engine.extraction.texts import read_text_file  # on the runner's thread: what it imports takes time

    return read_text_file(path)
