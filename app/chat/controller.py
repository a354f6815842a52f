"""The chat feature's controller (face; see the class)."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.chat.conversation import MessageView
from app.model_session import ModelEntry
from app.storage.records import ConversationRecord
from engine.protocol import ModelInfo


class ChatController(QObject):
    """All a chat view may ask for: one method per action of the person, signals for what came of it.

    Attributes:
        conversations: what the list shows: pinned first, then the last written first; filtered while searching.
        current_id: the conversation that is open; always one, unsent new ones included.

    Signals: as declared; each about a conversation or message carries its id, and views drop foreign ids.
    """

    conversations_changed = Signal()
    conversation_opened = Signal(str)  # conversation id
    message_added = Signal(str, object)  # conversation id, MessageView
    message_changed = Signal(str, object)  # conversation id, MessageView
    delta = Signal(str, str, str, str)  # conversation id, message id, channel value, text
    reading_progress = Signal(str, int, int, int)  # conversation id, tokens computed, total, reused
    generation_started = Signal(str, str)  # conversation id, message id
    generation_finished = Signal(str, str)  # conversation id, message id
    model_loading = Signal(str, float, str)  # name, fraction, message
    model_loaded = Signal(object)  # ModelInfo
    model_failed = Signal(str)
    model_ejected = Signal()
    models_changed = Signal()
    context_used = Signal(int, int, int)  # tokens used, reused, total; of the open conversation
    notice = Signal(str)
    tokens_counted = Signal(int)

    @property
    def conversations(self) -> list[ConversationRecord]:
        raise NotImplementedError

    @property
    def current_id(self) -> str:
        raise NotImplementedError

    @property
    def current_conversation(self) -> ConversationRecord:
        """The open conversation, also while it is not in the list because nothing was sent (its draft is here)."""
        raise NotImplementedError

    @property
    def current_messages(self) -> list[MessageView]:
        raise NotImplementedError

    @property
    def models(self) -> list[ModelEntry]:
        raise NotImplementedError

    @property
    def model_info(self) -> ModelInfo | None:
        raise NotImplementedError

    @property
    def is_generating(self) -> bool:
        """In the open conversation (also while its message waits for a model)."""
        raise NotImplementedError

    @property
    def generating_ids(self) -> set[str]:
        raise NotImplementedError

    def new_conversation(self) -> None:
        raise NotImplementedError

    def open_conversation(self, conversation_id: str) -> None:
        raise NotImplementedError

    def rename_conversation(self, conversation_id: str, title: str) -> None:
        raise NotImplementedError

    def delete_conversation(self, conversation_id: str) -> None:
        raise NotImplementedError

    def restore_conversation(self, conversation_id: str) -> None:
        raise NotImplementedError

    def pin_conversation(self, conversation_id: str, is_pinned: bool) -> None:
        raise NotImplementedError

    def search(self, text: str) -> None:
        """Filter ``conversations`` by titles and messages; ``conversations_changed`` follows. Empty shows all."""
        raise NotImplementedError

    def send(self, text: str) -> bool:
        """Send a message in the open conversation; False when it was not taken (keep the text then)."""
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def regenerate(self, message_id: str) -> None:
        raise NotImplementedError

    def edit_and_resend(self, message_id: str, text: str) -> None:
        raise NotImplementedError

    def select_sibling(self, message_id: str, step: Literal[-1, 1]) -> None:
        """Show the previous or next alternative; ``conversation_opened`` follows for the same id."""
        raise NotImplementedError

    def save_draft(self, text: str) -> None:
        raise NotImplementedError

    def load_model(self, path: str) -> None:
        raise NotImplementedError

    def eject_model(self) -> None:
        raise NotImplementedError

    def refresh_models(self) -> None:
        """Look through the models folder again; ``models_changed`` follows when it differs."""
        raise NotImplementedError

    def count_tokens(self, text: str) -> None:
        raise NotImplementedError
