"""Writing chats to files and reading them back, beside the GUI thread."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.attachments import Attachments
from app.chat.chat_files import ChatContent, ChatFileError, from_json, gather, to_json, to_markdown, to_text
from app.chat.collection import ConversationCollection
from app.engine_words import told
from app.storage.records import AttachmentRecord, clean_text, new_id
from app.tasks import TaskRunner
from app.translation import tr, trn
from engine.errors import InputError

_log = logging.getLogger(__name__)

FILTERS = tr("JSON, can be read in again (*.json);;Markdown (*.md);;Plain text (*.txt)")
MAX_FILE_BYTES = 500_000_000
_UNFIT = re.compile(r'[<>:"/\\|?*\x00-\x1f]+')


class ChatExchange(QObject):
    """Exports and imports conversations of a collection.

    Signals:
        notice(text): what came of it.
        imported(conversation_id): chats were read in; the id of the first.
    """

    notice = Signal(str)
    imported = Signal(str)

    def __init__(
        self, collection: ConversationCollection, attachments: Attachments, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._collection = collection
        self._attachments = attachments
        self._runner = TaskRunner("chat files", self)

    def write(self, conversation_ids: Sequence[str], path: Path) -> None:
        """Write chats to a file, in the form that its ending says; without one it is JSON."""
        chats = [self._content(id_) for id_ in conversation_ids]
        if not path.suffix:
            path = path.with_suffix(".json")

        def work() -> None:
            write_whole(path, _rendered(chats, path.suffix.lower()))

        saved = trn(
            "The chat was saved as {name}.", "{count} chats were saved as {name}.", len(chats), name=path.name
        )
        self._runner.run(work, lambda _: self.notice.emit(saved), self._on_error(path))

    def read(self, path: Path) -> None:
        """Read the chats of a file in, beside those that there are."""
        self._runner.run(lambda: self._read(path), self._take, self._on_error(path))

    def close(self) -> None:
        """Finish what is being written."""
        self._runner.close(1.0)

    def _content(self, conversation_id: str) -> ChatContent:
        tree = self._collection.tree(conversation_id)
        attached = self._attachments.of_messages(conversation_id)
        return gather(tree, lambda message_id: attached.get(message_id, ()), self._attachments.text)

    def _read(self, path: Path) -> list[tuple[ChatContent, list[tuple[str, AttachmentRecord]]]]:
        with contextlib.suppress(OSError):
            if path.stat().st_size > MAX_FILE_BYTES:
                raise ChatFileError(tr("{name} is too large to hold chats.", name=path.name))
        from engine.extraction.texts import read_regular  # not before there is a file to read

        chats = from_json(read_regular(path, MAX_FILE_BYTES), path.name)
        return [(chat, self._stored(chat)) for chat in chats]

    def _stored(self, chat: ChatContent) -> list[tuple[str, AttachmentRecord]]:
        conversation_id = chat.conversation.record.id
        return [
            (
                message_id,
                AttachmentRecord(
                    new_id(), conversation_id, message_id, position, name, *self._attachments.store_text(text)
                ),
            )
            for message_id, texts in chat.texts.items()
            for position, (name, text) in enumerate(texts)
        ]

    def _take(self, chats: list[tuple[ChatContent, list[tuple[str, AttachmentRecord]]]]) -> None:
        for chat, attached in chats:
            conversation = chat.conversation
            pairs = [(record, message_id) for message_id, record in attached]
            also: Callable[[sqlite3.Connection], None] = self._attachments.copy(conversation.record.id, pairs)
            self._collection.add(conversation, also)
        if chats:
            self.imported.emit(chats[0][0].conversation.record.id)
            self.notice.emit(trn("One chat was read in.", "{count} chats were read in.", len(chats)))
        else:
            self.notice.emit(tr("The file holds no chats."))

    def _on_error(self, path: Path) -> Callable[[Exception], None]:
        def say(error: Exception) -> None:
            if isinstance(error, ChatFileError):
                self.notice.emit(str(error))
            elif isinstance(error, InputError):
                self.notice.emit(told(error))
            elif isinstance(error, OSError):
                self.notice.emit(
                    tr("{name} could not be saved: {strerror}.", name=path.name, strerror=error.strerror or error)
                )
            else:
                _log.error("a chat file failed", exc_info=error)
                self.notice.emit(tr("{name} could not be used; the log says more.", name=path.name))

        return say


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is either the old one or whole; raises OSError."""
    scratch = path.with_name(f".{path.name}.part")
    try:
        scratch.write_text(clean_text(text), encoding="utf-8")
        os.replace(scratch, path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def file_name_for(title: str) -> str:
    """A file name that every system takes, from a title."""
    return " ".join(_UNFIT.sub(" ", title).split()).strip(" .")[:80].strip() or tr("Chat")


def _rendered(chats: Sequence[ChatContent], suffix: str) -> str:
    if suffix == ".md":
        return "\n---\n\n".join(to_markdown(chat) for chat in chats)
    if suffix == ".txt":
        return "\n\n".join(to_text(chat) for chat in chats)
    return to_json(chats, time.time())
