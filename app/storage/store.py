"""The store: reads at once on the GUI thread, writes in order on a thread of its own.

The write-ahead log lets a reader pass a writer, so reading never waits. A write waits while another program holds
the database; it is never lost, and after 10 s the person is told.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.storage import conversations, folders, search
from app.storage.database import is_busy, is_damage, open_database
from app.storage.records import (
    AttachmentRecord,
    ConversationRecord,
    FolderRecord,
    MessageRecord,
    PresetRecord,
    TrashRecord,
)
from app.storage.schema_check import rebuild_search_index
from app.tasks import TaskRunner
from app.translation import tr

_log = logging.getLogger(__name__)

BUSY_NOTICE_S = 10.0
LATE_MS = 5000  # before what was refused is tried again
CLOSING_WAIT_S = 0.7  # of the second that closing the app may take
BACKLOG_WAIT_S = 15.0
# What a broken search index answers, among other troubles of which making it anew harms nothing.
_INDEX_CODES = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_CORRUPT_VTAB,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_CONSTRAINT_VTAB,
)

_WAITING = tr(
    "Another program is using the chat database, so your last messages are not saved yet: close that program; "
    "saving goes on by itself."
)

_DAMAGED = tr(
    "The chat database is damaged. Close Fireside and start it again: what can be read is then "
    "carried into a new one, and the damaged file is kept."
)
_DELETED = tr(
    "The file of the chat database was deleted or replaced while Fireside runs. It was written again with all "
    "chats; start Fireside anew soon."
)

Write = Callable[[sqlite3.Connection], None]


class ChatStore(QObject):
    """Owns the chat database of this process.

    Attributes:
        opening_notices: sentences about the state in which the database was found.
        unfinished: answers that a killed process left open, the last begun first.
        is_temporary: nothing outlasts this session, because the folder cannot be written.
        is_whole: it names all that belongs to chats; what it does not name may be removed.

    Signals:
        trouble(text): a write waits or failed; one sentence.
    """

    trouble = Signal(str)

    def __init__(self, path: Path, parent: QObject | None = None, busy_notice_s: float = BUSY_NOTICE_S) -> None:
        super().__init__(parent)
        self._database = open_database(path)
        self.opening_notices = self._database.notices
        self.is_temporary = self._database.is_temporary
        self.is_whole = self._database.is_whole
        self._busy_notice_s = busy_notice_s
        self._has_mended = self._has_told_deletion = self._is_locked_out = False
        self._reader = self._database.connect()
        self._writer = self._database.connect()
        self.unfinished = conversations.read_unfinished(self._reader)  # before they are closed below
        self._closing = threading.Event()
        self._has_lost = False
        self._late: list[Write] = []  # what was refused, in its order; only the writer's thread touches it
        self._late_timer = QTimer(self)
        self._late_timer.setSingleShot(True)
        self._late_timer.setInterval(LATE_MS)
        self._late_timer.timeout.connect(self._try_late)
        self._runner = TaskRunner("chat store", self)
        self._finder = TaskRunner("chat search", self)
        self.write(conversations.mark_interrupted)
        if not self._database.is_checked:
            self._finder.run(self._database.find_damage, self._on_checked)

    def read_conversations(self) -> list[ConversationRecord]:
        """All conversations that are not deleted, the last written first."""
        return conversations.read_conversations(self._reader)

    def read_messages(self, conversation_id: str) -> list[MessageRecord]:
        """The messages of a conversation in the order in which they were written."""
        return conversations.read_messages(self._reader, conversation_id)

    def read_trash(self) -> list[TrashRecord]:
        """The conversations in the trash, the last deleted first."""
        return conversations.read_trash(self._reader)

    def read_folders(self) -> list[FolderRecord]:
        """All folders by name."""
        return folders.read_folders(self._reader)

    def read_presets(self) -> list[PresetRecord]:
        """All presets by name."""
        return folders.read_presets(self._reader)

    def read_attachments(self, conversation_id: str) -> list[AttachmentRecord]:
        """The attachments of a conversation's messages and of its draft."""
        return folders.read_attachments(self._reader, conversation_id)

    def read_attachment_files(self) -> set[str]:
        """The files of all attachments; callable on any thread."""
        connection = self._database.connect()
        try:
            return folders.read_attachment_files(connection)
        finally:
            connection.close()

    def find(self, words: Sequence[str], on_found: Callable[[dict[str, dict[str, str]]], None]) -> None:
        """Look for words in all messages, beside the GUI thread.

        ``on_found`` gets for each word the conversations, by id, with an excerpt around it.
        """
        self._finder.run(lambda: self._find(words), on_found)

    def write(
        self,
        work: Write,
        on_done: Callable[[], None] | None = None,
        on_error: Callable[[str], None] | None = None,
        *,
        is_told: bool = True,
    ) -> None:
        """Run ``work(connection)`` in one transaction, after all earlier writes.

        ``on_done`` is called on the GUI thread when the disk has it, ``on_error`` with a sentence when it failed;
        ``trouble`` follows unless ``is_told`` is False. Without ``on_error`` nobody else would try again: what the
        disk refused is kept and comes before the next write, and it is tried every few seconds and at the end.
        """

        def done(_result: object) -> None:
            if on_done is not None:
                on_done()

        def failed(error: Exception) -> None:
            _log.error("a write failed: %s", error)
            sentence = tr("Your chats could not be saved ({error}). {advice}", error=error, advice=_advice(error))
            if is_damage(error) or isinstance(error, sqlite3.IntegrityError):  # an index that does not fit
                self._database.note_damage(str(error))
                sentence = _DAMAGED if is_damage(error) else sentence
            if is_told:
                self.trouble.emit(sentence)
            if on_error is not None:
                on_error(sentence)
            elif not self._closing.is_set():
                self._late_timer.start()

        if on_error is None:
            self._runner.run(lambda: self._transact_in_order(work), done, failed)
        else:
            self._runner.run(lambda: self._transact_after_late(work), done, failed)

    def close(self) -> bool:
        """Finish all writes and close; False when some could not be: it was held, or the disk too slow."""
        if not self._closing.is_set():
            self._late_timer.stop()
            self._try_late()
        self._closing.set()
        is_finished = self._runner.close(2 * CLOSING_WAIT_S)
        if not is_finished and not self._is_locked_out:  # only much to write: nothing is lost for that
            is_finished = self._runner.close(BACKLOG_WAIT_S)
        self._finder.close(CLOSING_WAIT_S)
        self._reader.close()
        if is_finished:
            self._writer.close()
        self._database.discard_temporary()
        return is_finished and not self._has_lost

    def _try_late(self) -> None:
        self._runner.run(self._write_late, None, self._on_still_late)

    def _on_still_late(self, error: Exception) -> None:
        _log.info("what was refused cannot be written yet: %s", error)
        if not self._closing.is_set():
            self._late_timer.start()

    def _transact_in_order(self, work: Write) -> None:
        """Write after all that was refused, or keep it behind that; on the writer's thread."""
        try:
            self._write_late()
            self._transact(work)
        except sqlite3.OperationalError:
            self._late.append(work)
            raise

    def _transact_after_late(self, work: Write) -> None:
        """Write what is kept by whoever asked for it, also while what was refused before does not fit."""
        try:
            self._write_late()
        except sqlite3.OperationalError as error:
            _log.info("what was refused cannot be written yet: %s", error)
        self._transact(work)

    def _write_late(self) -> None:
        """Write what was refused, in its order; raises sqlite3.OperationalError at what is refused again."""
        while self._late:
            try:
                self._transact(self._late[0])
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:  # it fits no more, and never will
                _log.error("a late write failed: %s", error)
            self._late.pop(0)

    def _transact(self, work: Write) -> None:
        try:
            self._transact_once(work)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) not in _INDEX_CODES or self._has_mended:
                raise
            self._has_mended = True
            # The search index can be made anew; nothing that is written should be lost because of it.
            _log.warning("the search index is made anew: %s", error)
            try:
                rebuild_search_index(self._writer)
            except sqlite3.DatabaseError:
                raise error from None
            self._transact_once(work)

    def _transact_once(self, work: Write) -> None:
        self._begin()
        try:
            work(self._writer)
            self._writer.execute("COMMIT")
            self._keep_in_place()
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def _keep_in_place(self) -> None:
        """Write the database again where somebody deleted it: SQLite would go on with the file that nobody sees."""
        if self._database.is_in_place:
            return
        self._database.put_back(self._writer)
        if not self._has_told_deletion:
            self._has_told_deletion = True
            self._runner.post(self.trouble.emit, _DELETED)

    def _begin(self) -> None:
        """Begin a write transaction, however long someone else holds the lock; only closing ends the wait."""
        started = last_notice = time.monotonic()
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                self._is_locked_out = False
                return
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                self._is_locked_out = is_busy(error)
                if not is_busy(error):
                    raise
                if self._closing.is_set() and now - started > CLOSING_WAIT_S:
                    self._has_lost = True
                    raise
                if now - last_notice >= self._busy_notice_s:
                    last_notice = now
                    self._runner.post(self.trouble.emit, _WAITING)

    def _on_checked(self, finding: str) -> None:
        if finding:
            self.trouble.emit(_DAMAGED)

    def _find(self, words: Sequence[str]) -> dict[str, dict[str, str]]:
        connection = self._database.connect()
        try:
            return {word: search.find_conversations(connection, word) for word in words}
        finally:
            connection.close()


def _advice(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return tr("The disk is full: free some space, and saving goes on by itself.")
    if is_busy(error):
        return tr("Another program is using the chat database.")
    return tr("Look at the log file, then send again.")
