"""The chat's controller: what a person can do, one method each, and signals for what came of it.

The only thing the chat views talk to. Knows no widget; the work is done by the collection (conversations and their
store), the answering (generations) and the model session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from PySide6.QtCore import QObject, Signal

from app.chat.answering import Answering
from app.chat.attachments import Attachments
from app.chat.branching import Branching
from app.chat.collection import ConversationCollection
from app.chat.context_use import ContextUse
from app.chat.conversation import MessageView, clean_text
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
from app.translation import tr
from engine.protocol import ContextPolicy, ModelInfo


class ChatController(QObject):
    """All a chat view may ask for.

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
    cost_known = Signal(int, float, float)  # tokens of the draft, share of the context, seconds to read; 0 unknown
    context_shifted = Signal(str)  # conversation id: other messages are outside the context now
    looked_closer = Signal(object)  # CloserLook

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
        self._session.ejected.connect(self._on_model_ejected)
        self._session.entries_changed.connect(self.models_changed)
        self._answering.started.connect(self._on_started)
        self._answering.delta.connect(self._on_delta)
        self._answering.reading.connect(self._on_reading)
        self._answering.shifted.connect(lambda generation: self.context_shifted.emit(generation.conversation_id))
        self._drafts.cost_known.connect(self.cost_known)
        self._context_use.used.connect(self.context_used)
        self._answering.ended.connect(self._on_ended)
        self.exchange.imported.connect(self.open_conversation)
        for source in (self.attachments, self.exchange, self._client, self._session, self._answering):
            source.notice.connect(self.notice)
        store.trouble.connect(self.notice)
        self._answering.waiting.connect(self.waiting)

    # ------------------------------------------------------------------------------------ what there is

    @property
    def conversations(self) -> list[ConversationRecord]:
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
    def model_info(self) -> ModelInfo | None:
        return self._session.info

    @property
    def is_generating(self) -> bool:
        """In the open conversation, also while its message waits for a model."""
        return self._current_id in self._answering.conversation_ids

    @property
    def generating_ids(self) -> set[str]:
        return self._answering.conversation_ids

    # ------------------------------------------------------------------------------------ conversations

    def new_conversation(self, folder_id: str | None = None) -> None:
        """Open the conversation in which nothing was sent yet, in a folder or outside of all."""
        folder_id = folder_id if folder_id in self.folders else None  # it may have been deleted meanwhile
        record = self._collection.blank()
        if record.folder_id != folder_id:
            self._collection.update(replace(record, folder_id=folder_id))
        self._open(record.id)

    def open_conversation(self, conversation_id: str) -> None:
        if conversation_id in self._collection:
            self._open(conversation_id)
        else:
            self.notice.emit(tr("This chat does not exist any more."))

    def rename_conversation(self, conversation_id: str, title: str) -> None:
        """Give a conversation another title; an empty one is ignored."""
        self._collection.rename(conversation_id, title)

    def delete_conversations(self, conversation_ids: Sequence[str]) -> None:
        """Put conversations into the trash; ``restore_conversations`` takes them out again."""
        deleted_ids = [id_ for id_ in conversation_ids if id_ in self._collection]
        for conversation_id in deleted_ids:
            self._answering.stop(conversation_id)
        if self._current_id in deleted_ids:  # whoever hears of the deletion must find another one open
            remaining = [record.id for record in self._collection.visible() if record.id not in deleted_ids]
            other_id = remaining[0] if remaining else self._collection.blank().id
            if other_id in deleted_ids:
                return
            self._open(other_id)
        self._collection.delete(deleted_ids)

    def restore_conversations(self, conversation_ids: Sequence[str]) -> None:
        """Take conversations out of the trash and open the first of them."""
        if restored := self._collection.restore(conversation_ids):
            self._open(restored[0])

    def pin_conversations(self, conversation_ids: Sequence[str], is_pinned: bool) -> None:
        self._collection.change(conversation_ids, is_pinned=is_pinned)

    def move_conversations(self, conversation_ids: Sequence[str], folder_id: str | None) -> None:
        """Put conversations into a folder, or with None outside of all."""
        if folder_id is None or folder_id in self.folders:
            self._collection.change(conversation_ids, folder_id=folder_id)

    def search(self, text: str) -> None:
        """Keep the ``conversations`` with these words in titles or messages; ``conversations_changed`` follows."""
        self._collection.search(text)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Let the open conversation have these options of its own."""
        record = self._collection.record(self._current_id)
        if record.options != options:
            self._collection.update(replace(record, options=dict(options)))
        if options.get("schema"):
            self._client.prepare_forms()

    def save_draft(self, text: str) -> None:
        self._collection.set_draft(self._current_id, clean_text(text))

    # ------------------------------------------------------------------------------------ messages

    def send(self, text: str) -> bool:
        """Send a message in the open conversation; False when it was not taken (keep the text then)."""
        has_content = text.strip() or self.attachments.draft(self._current_id)
        if not has_content or self._answering.is_busy(self._current_id):
            return False
        self._answering.sync(self._current_id)
        leaf_id = self._collection.tree(self._current_id).record.active_leaf_id
        self._branching.ask(self._current_id, leaf_id, text)
        return True

    def stop(self) -> None:
        """Stop the answer of the open conversation; what was written stays."""
        self._answering.stop(self._current_id)

    def regenerate(self, message_id: str) -> None:
        """Write another answer beside ``message_id``; given a message of the person, an answer to it."""
        if self._branching.regenerate(self._current_id, message_id):
            self.conversation_opened.emit(self._current_id)
        else:
            self.notice.emit(tr("There is no message that this answer could be written anew for."))

    def drop_turns(self, message_id: str) -> None:
        """Answer again without the oldest turns, and let the chat go on like that when it is full."""
        record = self._collection.record(self._current_id)
        self.set_options({**record.options, "context_policy": ContextPolicy.KEEP_RECENT.value})
        self.regenerate(message_id)

    def reproduce(self, message_id: str) -> None:
        """Write an answer again with the seed that it was drawn with."""
        if self._branching.reproduce(self._current_id, message_id):
            self.conversation_opened.emit(self._current_id)
        else:
            self.notice.emit(tr("The seed of this answer is not known, so it cannot be drawn again."))

    def continue_answer(self, message_id: str) -> None:
        """Let the model go on with an answer where it ends."""
        if self._branching.continue_answer(self._current_id, message_id):
            self.conversation_opened.emit(self._current_id)

    def branch_from(self, message_id: str, content: str) -> None:
        """Write a version of an answer that begins with ``content``."""
        if self._branching.branch_from(self._current_id, message_id, content):
            self.conversation_opened.emit(self._current_id)

    def look_closer(self, message_id: str, offset: int) -> None:
        """Ask the model for the alternatives at a place of an answer; ``looked_closer`` follows."""
        tree = self._collection.tree(self._current_id)
        self._answering.look_closer(tree, message_id, offset, self.looked_closer.emit)

    def fork(self, message_id: str) -> None:
        """Copy the chat up to a message into a new one, and open that."""
        self._answering.sync(self._current_id)
        if (record := self._branching.fork(self._current_id, message_id)) is not None:
            self._open(record.id)

    def edit_and_resend(self, message_id: str, text: str) -> None:
        """Put an edited version beside a message and answer it; the original stays.

        An edited answer is not answered: it stands as the person wrote it.
        """
        if self._branching.edit(self._current_id, message_id, text):
            self.conversation_opened.emit(self._current_id)

    def give_results(self, message_id: str, results: Sequence[str]) -> None:
        """Give what the functions gave that an answer called, in their order, and let the model go on."""
        if self._branching.give_results(self._current_id, message_id, results):
            self.conversation_opened.emit(self._current_id)

    def select_sibling(self, message_id: str, step: Literal[-1, 1]) -> None:
        """Show the previous or next alternative; ``conversation_opened`` follows for the same id."""
        if self._branching.select_sibling(self._current_id, message_id, step):
            self.conversation_opened.emit(self._current_id)
            self._context_use.report()

    def count_tokens(self, text: str) -> None:
        """Count the tokens of the draft ``text`` and its attachments; ``cost_known`` follows when typing pauses."""
        self._drafts.follow(self._current_id, text)

    # ------------------------------------------------------------------------------------ models

    def load_model(self, path: str) -> None:
        self._session.load(Path(path))

    @property
    def can_load_anyway(self) -> bool:
        """The last load failed for want of memory alone."""
        return self._session.too_large_path is not None

    def load_anyway(self) -> None:
        """Load the model for which there is too little memory; the machine swaps then."""
        if self._session.too_large_path is not None:
            self._session.load(self._session.too_large_path, takes_more=True)

    def eject_model(self) -> None:
        self._session.eject()

    def refresh_models(self) -> None:
        """Look through the models folder again; ``models_changed`` follows when it differs."""
        self._find_models()

    # ------------------------------------------------------------------------------------ start and end

    def start(
        self, opening_notices: Sequence[str] = (), model: Path | None = None, *, loads_by_itself: bool = True
    ) -> None:
        """Once the views are connected: show the open conversation, load the model, say what was found.

        With ``loads_by_itself`` False no model but ``model`` is loaded.
        """
        self.conversations_changed.emit()
        self._open(self._current_id)
        for text in opening_notices:
            self.notice.emit(text)
        self._session.start(model, loads_by_itself=loads_by_itself)
        self._find_models()
        self.trash.purge_old()

    def close(self) -> None:
        """Close running answers where they are and hand all drafts to the store."""
        self._drafts.close()
        self._collection.flush_draft()
        self._answering.close()
        self.attachments.close()
        self.exchange.close()

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
