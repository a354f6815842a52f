"""Answers being written, in any number of conversations: started, waiting for the store or a model, stopped.

An answer's message exists, on disk, before the engine gets its request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chat.attachments import Attachments
from app.chat.collection import ConversationCollection
from app.chat.conversation import Conversation
from app.chat.figures import figure
from app.chat.generation import Generation
from app.chat.options import effective, format_of, sampling_of, tools_of
from app.engine_client import EngineClient, RequestEvent
from app.engine_words import told
from app.model_session import ModelSession
from app.settings import Settings
from app.storage.records import MessageRecord, MessageStatus, new_id
from app.storage.store import Write
from app.translation import tr
from engine.errors import InputError
from engine.protocol import (
    ContextPolicy,
    GenerateRequest,
    Message,
    ModelInfo,
    Priority,
    RequestFailed,
    Role,
    SamplingParams,
    TokenAlternatives,
    Tool,
)

if TYPE_CHECKING:
    from app.chat.closer_look import CloserLook

_MIN_READ_TOKENS = 32


class Answering(QObject):
    """Starts and stops generations and says which there are.

    Attributes:
        reading_rate: prompt tokens a second, of the last answer that read enough to tell; 0 before.

    Signals:
        started(Generation), ended(Generation): it exists from now on, or no longer.
        delta(Generation, channel value, text), reading(Generation, computed, total, reused): its progress.
        shifted(Generation): other messages are outside the context now.
        notice(text): one sentence for the person.
        waiting(text): a message waits for a model; holds until one is loaded or the load fails.
    """

    started = Signal(object)
    ended = Signal(object)
    delta = Signal(object, str, str)
    reading = Signal(object, int, int, int)
    shifted = Signal(object)
    notice = Signal(str)
    waiting = Signal(str)

    def __init__(
        self,
        client: EngineClient,
        session: ModelSession,
        collection: ConversationCollection,
        settings: Settings,
        attachments: Attachments,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._client = client
        self._session = session
        self._collection = collection
        self._settings = settings
        self._attachments = attachments
        self._generations: list[Generation] = []
        self._visible_id = ""
        self.reading_rate = 0.0
        session.loaded.connect(self._on_model_loaded)
        session.failed.connect(self._on_model_failed)
        session.ejecting.connect(self._on_ejecting)

    @property
    def conversation_ids(self) -> set[str]:
        """Conversations in which an answer is being written or waits."""
        return {generation.conversation_id for generation in self._generations}

    def is_busy(self, conversation_id: str) -> bool:
        """Whether an answer that nobody has stopped is on its way there."""
        return any(
            generation.conversation_id == conversation_id and not generation.is_stopping
            for generation in self._generations
        )

    def sync(self, conversation_id: str) -> None:
        """Put the text so far of the conversation's answers into its tree."""
        for generation in self._generations:
            if generation.conversation_id == conversation_id:
                generation.sync()

    def answer(
        self,
        conversation: Conversation,
        message_id: str,
        unsaved: Sequence[MessageRecord] = (),
        seed: int | None = None,
        also: Write | None = None,
    ) -> None:
        """Begin an answer to ``message_id``; the ``unsaved`` messages and ``also`` are stored together with it.

        With a ``seed`` it is drawn with that one, whatever the options say.
        """
        message = conversation.new_message(
            message_id, Role.ASSISTANT, "", created_at=time.time(), status=MessageStatus.STREAMING
        )
        generation = Generation(conversation, message, self._collection, self.delta.emit, self, seed)
        self._begin(generation, [*unsaved, message], also)

    def continue_answer(
        self, conversation: Conversation, message: MessageRecord, before: MessageRecord | None = None
    ) -> None:
        """Go on with an answer at its end, in its own message, which stays ``before`` when nothing comes of it."""
        message = replace(message, status=MessageStatus.STREAMING, error="", stats=None)
        conversation.update(message)
        generation = Generation(conversation, message, self._collection, self.delta.emit, self, before=before)
        self._begin(generation, [message])

    def _begin(self, generation: Generation, unsaved: Sequence[MessageRecord], also: Write | None = None) -> None:
        conversation = generation.conversation
        conversation.record = replace(conversation.record, updated_at=time.time())
        self._generations.append(generation)
        generation.shifted.connect(lambda: self.shifted.emit(generation))
        generation.reading.connect(lambda done, total, reused: self.reading.emit(generation, done, total, reused))
        generation.ended.connect(lambda: self._on_ended(generation))
        self._collection.save(
            conversation,
            unsaved,
            on_saved=lambda: self._on_saved(generation),
            also=also,
            on_error=lambda sentence: generation.end(MessageStatus.FAILED, error=sentence),
        )
        self.started.emit(generation)
        if self._session.info is None:
            self.waiting.emit(self._session.ensure())

    def context_policy(self, conversation: Conversation) -> ContextPolicy:
        """What happens when the conversation outgrows the context."""
        return ContextPolicy(effective(conversation.record.options, self._settings)["context_policy"])

    def set_visible(self, conversation_id: str) -> None:
        """The person looks at this conversation now: its answers are computed first."""
        self._visible_id = conversation_id
        for generation in self._generations:
            if generation.is_submitted:
                self._client.set_priority(generation.request_id, self._priority(generation))

    def context_start(self, conversation: Conversation) -> str:
        """The first message that the model still reads, by the last answer that is shown; "" for all of them."""
        running = {generation.message_id: generation for generation in self._generations}
        for view in reversed(conversation.branch()):
            if (generation := running.get(view.record.id)) is not None and generation.is_started:
                return generation.context_start
            if view.record.stats is not None:
                return str(view.record.stats.get("context_start") or "")
        return ""

    def _priority(self, generation: Generation) -> Priority:
        return Priority.VISIBLE if generation.conversation_id == self._visible_id else Priority.NORMAL

    def prompt(self, conversation: Conversation, message_id: str | None) -> tuple[Message, ...]:
        """What the engine is given when ``message_id`` ends the prompt, attached texts included."""
        values = effective(conversation.record.options, self._settings)
        return conversation.prompt_for(
            message_id,
            values["system_prompt"],
            lambda id_: self._attachments.prompt_text(conversation.record.id, id_),
        )

    def tools(self, conversation: Conversation) -> tuple[Tool, ...]:
        """The functions that the model is told of; none where their list is none."""
        try:
            return tools_of(effective(conversation.record.options, self._settings))
        except InputError:
            return ()

    def look_closer(
        self, conversation: Conversation, message_id: str, offset: int, on_look: Callable[[CloserLook], None]
    ) -> None:
        """Ask for the likeliest tokens at a place of an answer; without a model the person is told."""
        from app.chat.closer_look import MAX_ALTERNATIVES, CloserLook, prefix_before

        if message_id not in conversation:
            return
        if self._session.info is None:
            self.notice.emit(tr("Load a model first: it is asked for the alternatives."))
            return
        message = conversation.message(message_id)
        prefix = prefix_before(message.content, offset)
        if message.parent_id is None:
            self.notice.emit(tr("There is no message that this answer could be written anew for."))
            return
        messages = self.prompt(conversation, message.parent_id)
        if prefix:
            messages += (Message(Role.ASSISTANT, prefix, message.reasoning),)
        request = GenerateRequest(
            new_id(),
            messages,
            sampling=SamplingParams(temperature=0.0),
            max_tokens=1,
            logprobs=MAX_ALTERNATIVES,
            context_policy=self.context_policy(conversation),
            conversation_id=conversation.record.id,
            tools=self.tools(conversation),
        )

        def on_event(event: RequestEvent) -> None:
            match event:
                case TokenAlternatives():
                    on_look(CloserLook(message_id, prefix, event.alternatives))
                case RequestFailed():
                    self.notice.emit(told(event.message))

        self._client.generate(request, on_event)

    def stop(self, conversation_id: str) -> None:
        """Stop the conversation's answers; what was written stays."""
        for generation in list(self._generations):
            if generation.conversation_id != conversation_id or generation.is_stopping:
                continue
            generation.is_stopping = True
            if generation.is_submitted:
                self._client.abort(generation.request_id)
            else:
                generation.end(MessageStatus.STOPPED)

    def close(self) -> None:
        """Close all answers where they are, because the app ends."""
        for generation in list(self._generations):
            self._client.abort(generation.request_id)
            generation.end(MessageStatus.INTERRUPTED)

    def _on_saved(self, generation: Generation) -> None:
        generation.is_saved = True
        if self._session.info is not None:
            self._submit(generation, self._session.info)

    def _submit(self, generation: Generation, info: ModelInfo) -> None:
        if generation not in self._generations or generation.is_submitted:
            return
        generation.is_submitted = True
        conversation = generation.conversation
        message = replace(generation.sync(), model_name=info.name)
        conversation.update(message)
        conversation.record = replace(conversation.record, model_path=str(info.path))
        self._collection.save(conversation, [message])
        values = effective(conversation.record.options, self._settings)
        try:
            tools = tools_of(values)
        except InputError as error:
            generation.end(MessageStatus.FAILED, error=told(error))
            return
        request = GenerateRequest(
            generation.request_id,
            self.prompt(conversation, message.id),  # without the message while it is empty
            sampling=sampling_of(values, generation.seed),
            max_tokens=values["max_tokens"],
            response_format=format_of(values),
            certainty=format_of(values) is not None,
            priority=self._priority(generation),
            context_policy=ContextPolicy(values["context_policy"]),
            conversation_id=conversation.record.id,
            tools=tools,
        )
        system = [""] if request.messages and request.messages[0].role is Role.SYSTEM else []
        generation.prompt_ids = system + [record.id for record in conversation.prompt_records(message.id)]
        self._client.generate(request, generation.handle)

    def _learn_rate(self, generation: Generation) -> None:
        stats = generation.conversation.message(generation.message_id).stats or {}
        num_read = figure(stats, "num_prompt_tokens") - figure(stats, "num_reused_tokens")
        spent_ms = figure(stats, "prompt_ms")
        if num_read >= _MIN_READ_TOKENS and spent_ms > 0:
            self.reading_rate = num_read / spent_ms * 1000

    def _on_model_loaded(self, info: ModelInfo) -> None:
        for generation in list(self._generations):
            if generation.is_saved:
                self._submit(generation, info)

    def _on_model_failed(self, message: str) -> None:
        for generation in list(self._generations):
            if not generation.is_submitted:
                generation.end(
                    MessageStatus.FAILED, error=tr("The model could not be loaded. {message}", message=message)
                )

    def _on_ejecting(self) -> None:
        """What the engine has is aborted there; what it has not yet waits for no model."""
        for generation in list(self._generations):
            if not generation.is_submitted:
                generation.end(MessageStatus.STOPPED)

    def _on_ended(self, generation: Generation) -> None:
        self._generations.remove(generation)
        self._learn_rate(generation)
        self.ended.emit(generation)
        if generation.remark:
            self.notice.emit(generation.remark)
        generation.deleteLater()
