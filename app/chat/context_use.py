"""How much of the context the open conversation fills, from the figures of its answers."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, Signal

from app.chat.collection import ConversationCollection
from app.chat.figures import figure
from app.chat.generation import Generation
from app.model_session import ModelSession

_EVERY_S = 0.5  # more often nobody reads a number


class ContextUse(QObject):
    """Reports for one conversation at a time.

    Attributes:
        conversation_id: the one that is open.

    Signals:
        used(tokens used, reused, total): total 0 while no model is loaded.
    """

    used = Signal(int, int, int)

    def __init__(
        self, session: ModelSession, collection: ConversationCollection, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._collection = collection
        self.conversation_id = ""
        self._reported_s = float("-inf")

    def report(self) -> None:
        """What the shown branch fills, by the figures of its last answer that has some."""
        self._reported_s = float("-inf")
        total = self._session.info.context_length if self._session.info else 0
        for view in reversed(self._collection.tree(self.conversation_id).branch()):
            stats = view.record.stats or {}
            if "num_prompt_tokens" in stats:
                used = figure(stats, "num_prompt_tokens") + figure(stats, "num_completion_tokens")
                self.used.emit(int(used), int(figure(stats, "num_reused_tokens")), total)
                return
        self.used.emit(0, 0, total)

    def report_running(self, generation: Generation, num_used: int, num_reused: int) -> None:
        """What an answer that is being written fills, while its conversation is the open one.

        Now and then only, and in the turn in which the answer itself grows: a picture more would cost as much.
        """
        if generation.conversation_id != self.conversation_id or self._session.info is None:
            return
        if time.monotonic() - self._reported_s >= _EVERY_S:
            self.used.emit(num_used, num_reused, self._session.info.context_length)
            self._reported_s = time.monotonic()
