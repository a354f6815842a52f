"""What there is to the chat: the open conversation, the list, the model; and a signal for whatever changes.

The base of the controller, which adds what a person can do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal

from app.chat.answering import Answering
from app.chat.attachments import Attachments
from app.chat.branching import Branching
from app.chat.collection import ConversationCollection
from app.chat.context_use import ContextUse
from app.chat.conversation import MessageView
from app.chat.deletions import Deletions
from app.chat.draft_reader import DraftReader
from app.chat.exchange import ChatExchange
from app.chat.folders import Folders
from app.chat.generation import Generation
from app.chat.presets import Presets
from app.chat.trash import Trash
from app.engine_client import EngineClient
from app.model_session import ModelEntry, ModelSession
from app.schema.library import SchemaLibrary
from app.settings import Settings
from app.storage.records import ConversationRecord, MessageStatus
from app.storage.store import ChatStore
from engine.protocol import ModelInfo


class ChatState(QObject):
    """All that a chat view may show.

    Attributes:
        conversations: what the list shows: pinned first, then the last written first; filtered while searching.
        current_id: the conversation that is open; always one, unsent new ones included.
        presets: named options that a conversation may take over.
        attachments: of messages and drafts.
        schemas: forms that answers can be asked to have.
        exchange: chats to files and back.

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
    waiting = Signal(str)  # why a message is not answered yet; until a model is loaded or its load fails
    cost_known = Signal(int, float, float, bool)  # of the draft, as DraftReader says it
    context_shifted = Signal(str)  # conversation id: other messages are outside the context now
    looked_closer = Signal(object)  # CloserLook
    message_found = Signal(str, object)  # message id in the open conversation, words that were searched for

    def __init__(
        self,
        store: ChatStore,
        client: EngineClient,
        session: ModelSession,
        settings: Settings,
        find_models: Callable[[], None],
        attachments: Attachments,
        schemas: SchemaLibrary,
        parent: QObject | None = None,
    ) -> None:
        """``find_models`` begins to look through the models folder and hands the session what it finds."""
        super().__init__(parent)
        self._client = client
        self._session = session
        self._settings = settings
        self._find_models = find_models
        self.attachments = attachments
        self.schemas = schemas
        self.presets = Presets(store, settings, self)
        self._collection = ConversationCollection(store, settings, self, self.presets.default_options)
        self._answering = Answering(client, session, self._collection, settings, attachments, self)
        self._deletions = Deletions(self._collection, self)
        self.exchange = ChatExchange(self._collection, attachments, self)
        self._branching = Branching(self._collection, self._answering, attachments)
        self._drafts = DraftReader(client, session, self._collection, self._answering, attachments, settings, self)
        self._context_use = ContextUse(session, self._collection, self)
        last = settings.value("last_conversation")
        self._current_id = self._context_use.conversation_id = (
            last if last in self._collection else self._collection.blank().id
        )
        self._connect(store)

    def _connect(self, store: ChatStore) -> None:
        self._collection.changed.connect(self.conversations_changed)
        self._session.loading.connect(self.model_loading)
        self._session.loaded.connect(self._on_model_loaded)
        self._session.failed.connect(self.model_failed)
        for signal in (self._session.ejecting, self._session.ejected):
            signal.connect(self._on_model_ejected)
        self._session.entries_changed.connect(self.models_changed)
        self._answering.started.connect(self._on_started)
        self._answering.delta.connect(self._on_delta)
        self._answering.reading.connect(self._on_reading)
        self._answering.shifted.connect(lambda generation: self.context_shifted.emit(generation.conversation_id))
        self._drafts.cost_known.connect(self.cost_known)
        self._context_use.used.connect(self.context_used)
        self._answering.ended.connect(self._on_ended)
        self.exchange.imported.connect(self._open)
        for source in (self.attachments, self.exchange, self._client, self._session, self._answering):
            source.notice.connect(self.notice)
        store.trouble.connect(self.notice)
        self._answering.waiting.connect(self.waiting)

    # ------------------------------------------------------------------------------------ what there is

    @property
    def conversations(self) -> Sequence[ConversationRecord]:
        return self._collection.visible()

    @property
    def current_id(self) -> str:
        return self._current_id

    @property
    def current_conversation(self) -> ConversationRecord:
        """The open conversation, also while it is not in the list because nothing was sent (its draft is here)."""
        return self._collection.record(self._current_id)

    @property
    def current_messages(self) -> list[MessageView]:
        self._answering.sync(self._current_id)
        return self.attachments.shown_with(self._collection.tree(self._current_id).branch(), self._current_id)

    @property
    def has_messages(self) -> bool:
        """Whether ``current_messages`` are any, without reading them."""
        return self.current_conversation.active_leaf_id is not None

    @property
    def context_start(self) -> str:
        """The first message of the open conversation that the model still reads; "" for all of them."""
        return self._answering.context_start(self._collection.tree(self._current_id))

    @property
    def folders(self) -> Folders:
        """The folders, for views to list, make, rename, fold and delete."""
        return self._collection.folders

    @property
    def trash(self) -> Trash:
        """The deleted conversations, for views to list and remove for good."""
        return self._collection.trash

    @property
    def can_undo_deletion(self) -> bool:
        """Whether something was deleted in this session that can be taken back."""
        return self._deletions.can_undo

    @property
    def is_searching(self) -> bool:
        """``conversations`` holds only what was found."""
        return self._collection.is_searching

    @property
    def search_words(self) -> tuple[str, ...]:
        """What ``conversations`` are searched for."""
        return self._collection.search_words

    def excerpt(self, conversation_id: str) -> str:
        """Of a conversation that was found: a line of the message that has one of the words; "" for none."""
        return self._collection.excerpt(conversation_id)

    @property
    def models(self) -> list[ModelEntry]:
        return list(self._session.entries)

    @property
    def has_models(self) -> bool:
        """Whether there is a model to choose."""
        return self._session.has_models

    @property
    def model_info(self) -> ModelInfo | None:
        return self._session.info

    @property
    def loading_name(self) -> str:
        """The model that is on its way; "" for none."""
        path = self._session.loading_path
        return "" if path is None else self._session.name_of(path)

    @property
    def is_generating(self) -> bool:
        """In the open conversation, also while its message waits for a model."""
        return self._current_id in self._answering.conversation_ids

    @property
    def generating_ids(self) -> set[str]:
        return self._answering.conversation_ids

    @property
    def can_load_anyway(self) -> bool:
        """The last load failed for want of memory alone."""
        return self._session.too_large_path is not None

    # ------------------------------------------------------------------------------------ inside

    def _open(self, conversation_id: str) -> None:
        self._collection.flush_draft()
        self._current_id = self._context_use.conversation_id = conversation_id
        self._answering.set_visible(conversation_id)
        self._settings.set("last_conversation", conversation_id)
        self.conversation_opened.emit(conversation_id)
        self._context_use.report()
        self._drafts.opened(conversation_id, self.current_conversation.draft)

    def _on_model_loaded(self, info: ModelInfo) -> None:
        self.model_loaded.emit(info)
        self._context_use.report()
        self._drafts.opened(self._current_id, self.current_conversation.draft)

    def _on_model_ejected(self) -> None:
        self.model_ejected.emit()
        self._context_use.report()

    def _on_started(self, generation: Generation) -> None:
        view = generation.conversation.view(generation.message_id)
        self.message_added.emit(generation.conversation_id, view)
        self.generation_started.emit(generation.conversation_id, generation.message_id)
        self.conversations_changed.emit()

    def _on_delta(self, generation: Generation, channel: str, text: str) -> None:
        self.delta.emit(generation.conversation_id, generation.message_id, channel, text)
        used = generation.num_prompt_tokens + generation.num_completion_tokens
        self._context_use.report_running(generation, used, generation.num_reused_tokens)

    def _on_reading(self, generation: Generation, computed: int, total: int, reused: int) -> None:
        self.reading_progress.emit(generation.conversation_id, computed, total, reused)
        self._context_use.report_running(generation, total, reused)

    def _on_ended(self, generation: Generation) -> None:
        view = generation.conversation.view(generation.message_id)
        self.message_changed.emit(generation.conversation_id, view)
        self.generation_finished.emit(generation.conversation_id, generation.message_id)
        self.conversations_changed.emit()
        if generation.conversation_id == self._current_id and view.record.status is not MessageStatus.FAILED:
            self._context_use.report()
