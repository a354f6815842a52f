"""What was deleted in this session, to be taken back step by step."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.chat.collection import ConversationCollection
from app.storage.records import FolderRecord
from app.translation import tr
from engine.plain_data import dataclass


@dataclass(frozen=True)
class Deletion:
    """One step.

    Attributes:
        conversation_ids: what was put into the trash together, or what lay in the folder.
        folder: the folder that was deleted; None for a deletion of conversations.
    """

    conversation_ids: tuple[str, ...]
    folder: FolderRecord | None = None


class Deletions(QObject):
    """The deletions, last one first. What came back another way, or is gone for good, is passed over."""

    def __init__(self, collection: ConversationCollection, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._collection = collection
        self._done: list[Deletion] = []
        collection.folder_deleted.connect(lambda folder, ids: self._done.append(Deletion(tuple(ids), folder)))

    def note(self, conversation_ids: list[str]) -> None:
        """These conversations were put into the trash."""
        if conversation_ids:
            self._done.append(Deletion(tuple(conversation_ids)))

    @property
    def can_undo(self) -> bool:
        """Whether there is something to take back."""
        return any(self._is_possible(deletion) for deletion in self._done)

    def undo(self) -> tuple[str, str] | None:
        """Take the last deletion back; returns a sentence and the conversation to open ("" for none), or None."""
        while self._done:
            deletion = self._done.pop()
            if self._is_possible(deletion):
                return self._undo(deletion)
        return None

    def _is_possible(self, deletion: Deletion) -> bool:
        if deletion.folder is not None:
            return deletion.folder.id not in self._collection.folders
        return any(id_ in self._collection.trash for id_ in deletion.conversation_ids)

    def _undo(self, deletion: Deletion) -> tuple[str, str]:
        collection = self._collection
        if (folder := deletion.folder) is not None:
            collection.folders.put_back(folder)
            outside = [id_ for id_ in deletion.conversation_ids if id_ in collection]
            outside = [id_ for id_ in outside if collection.record(id_).folder_id is None]
            collection.change(outside, folder_id=folder.id)
            return tr("The folder “{name}” is back.", name=folder.name), ""
        restored = collection.restore(deletion.conversation_ids)
        if len(restored) == 1:
            title = collection.record(restored[0]).title[:60]
            return tr("“{title}” is back.", title=title or tr("New chat")), restored[0]
        return tr("{count} chats are back.", count=len(restored)), restored[0]
