"""One answer being written: bound to its message from the first to the last event.

Collects the text, saves it at least once a second, and closes the message with its status and figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace

from PySide6.QtCore import QObject, Signal

from app.chat.collection import ConversationCollection
from app.chat.conversation import Conversation
from app.chat.figures import figure
from app.chat.tool_calls import CALLS
from app.engine_client import RequestEvent
from app.engine_words import told
from app.storage.records import MessageRecord, MessageStatus, new_id
from app.throttle import Throttle
from app.translation import tr
from engine.protocol import (
    Channel,
    ContextShifted,
    Delta,
    FinishReason,
    PromptProgress,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    ToolCalled,
)

CAN_DROP_TURNS = "can_drop_turns"
OVERFLOW_TOKENS = "overflow_tokens"  # of a prompt that does not fit into the context
"""In the figures of an answer that failed: without the conversation's oldest turns it would not have."""
_NEEDS = (CAN_DROP_TURNS, OVERFLOW_TOKENS)
SAVE_INTERVAL_MS = 700  # with the write itself a killed process loses less than a second


class Generation(QObject):
    """The answer that is being written into ``message_id``.

    Attributes:
        conversation: the tree that holds the message.
        request_id: of the engine's request; fresh for each generation.
        is_started: the engine has said what it reads.
        prompt_ids: ids of the request's messages; "" for the system prompt.
        context_start: the first message that the model still reads; "" for all of them.
        seed: to draw the answer with; None leaves it to the options.
        is_saved: the message is on disk, so the engine may begin.
        is_submitted: the engine has the request.
        is_stopping: the person has stopped it; the end is on its way.
        num_prompt_tokens, num_reused_tokens, num_completion_tokens: as far as known.
        remark: what the person is told when nothing came of going on with an answer.

    Signals:
        reading(computed, total, reused), ended().
        shifted(): messages left the context; ``context_start`` is another one.
    """

    reading = Signal(int, int, int)
    shifted = Signal()
    ended = Signal()

    def __init__(
        self,
        conversation: Conversation,
        message: MessageRecord,
        collection: ConversationCollection,
        on_delta: Callable[[Generation, str, str], None],
        parent: QObject | None = None,
        seed: int | None = None,
        before: MessageRecord | None = None,
    ) -> None:
        """What ``message`` holds already is gone on with; ``on_delta`` gets each piece, its channel's value first.

        It is no signal, for it comes with each picture of the stream. ``before`` is the answer as it was, where it
        is gone on with in its own message: it stays so when nothing comes of that.
        """
        super().__init__(parent)
        self.conversation = conversation
        self.message_id = message.id
        self.seed = seed
        self.request_id = new_id()
        self.is_saved = False
        self.is_submitted = False
        self.is_stopping = False
        self.is_started = False
        self.prompt_ids: list[str] = []
        self.context_start = ""
        self.num_prompt_tokens = 0
        self.num_reused_tokens = 0
        self.num_completion_tokens = 0
        self.remark = ""
        self._is_ended = False
        self._reasoning_began_s: float | None = None
        self._reasoning_ms: float | None = None
        self._before = before if before is not None and (before.content or before.reasoning) else None
        self._reasoned_before_ms = figure((before.stats if before is not None else None) or {}, "reasoning_ms")
        self._collection = collection
        self._on_piece = on_delta
        self._tool_calls: list[dict[str, object]] = []
        self._answer: list[str] = [message.content]
        self._reasoning: list[str] = [message.reasoning]
        self._saver = Throttle(SAVE_INTERVAL_MS, self._save, self)

    @property
    def conversation_id(self) -> str:
        """Of the conversation that holds the message."""
        return self.conversation.record.id

    def handle(self, event: RequestEvent) -> None:
        """Take up one of the request's events."""
        if self._is_ended:
            return
        match event:
            case Delta():
                self._on_delta(event)
            case ContextShifted():
                kept = max(event.dropped_messages, default=-1) + 1
                self.is_started = True
                self.context_start = self.prompt_ids[kept] if 0 < kept < len(self.prompt_ids) else ""
                self.shifted.emit()
            case RequestStarted():
                self.is_started = True
                self.num_prompt_tokens = event.num_prompt_tokens
                self.num_reused_tokens = event.num_reused_tokens
                self.reading.emit(event.num_reused_tokens, event.num_prompt_tokens, event.num_reused_tokens)
            case PromptProgress():
                self.reading.emit(event.num_computed_tokens, event.num_prompt_tokens, self.num_reused_tokens)
            case ToolCalled():
                self._tool_calls.append(asdict(event.call))
            case RequestFinished():
                is_aborted = event.reason is FinishReason.ABORTED
                self.num_completion_tokens = event.stats.num_completion_tokens
                stats = {**asdict(event.stats), "finish_reason": event.reason.value}
                if self._tool_calls:
                    stats[CALLS] = self._tool_calls
                if self.context_start:
                    stats["context_start"] = self.context_start
                if event.structured is not None:
                    num_tokens = event.stats.num_completion_tokens
                    stats["structured"] = {**asdict(event.structured), "num_tokens": num_tokens}
                self.end(MessageStatus.STOPPED if is_aborted else MessageStatus.COMPLETE, stats=stats)
            case RequestFailed():
                needs: dict[str, object] | None = None
                if (overflow := event.overflow) is not None:
                    needs = {OVERFLOW_TOKENS: overflow.num_tokens, CAN_DROP_TURNS: overflow.can_drop_turns}
                self.end(MessageStatus.FAILED, error=told(event.message), stats=needs)

    def sync(self) -> MessageRecord:
        """Put the text so far into the tree and return the message."""
        record = self.conversation.message(self.message_id)
        if not self._is_ended:
            record = replace(record, content="".join(self._answer), reasoning="".join(self._reasoning))
            self.conversation.update(record)
        return record

    def end(self, status: MessageStatus, *, error: str = "", stats: dict[str, object] | None = None) -> None:
        """Close the message with what there is; later events are ignored."""
        if self._is_ended:
            return
        self._saver.cancel()
        self._end_reasoning()
        reasoning_ms = self._reasoned_before_ms + (self._reasoning_ms or 0.0)
        if stats is not None and reasoning_ms:
            stats = {**stats, "reasoning_ms": reasoning_ms}
        record = replace(self.sync(), status=status, error=error, stats=stats)
        if self._before is not None and self._has_nothing_new(record):
            record = self._as_before(record)
        self._is_ended = True
        self.conversation.update(record)
        self.conversation.record = replace(self.conversation.record, updated_at=time.time())
        self._collection.save(self.conversation, [record])
        self.ended.emit()

    def _on_delta(self, event: Delta) -> None:
        if event.channel is Channel.REASONING:
            self._reasoning.append(event.text)
            self._reasoning_began_s = self._reasoning_began_s or time.monotonic()
        elif event.channel is Channel.ANSWER:
            self._answer.append(event.text)
            self._end_reasoning()
        self.num_completion_tokens = event.num_completion_tokens
        self._saver.request()
        self._on_piece(self, event.channel.value, event.text)

    def _has_nothing_new(self, record: MessageRecord) -> bool:
        assert self._before is not None, "asked where an answer is gone on with"
        is_same = (record.content, record.reasoning) == (self._before.content, self._before.reasoning)
        return is_same and not self._tool_calls

    def _as_before(self, record: MessageRecord) -> MessageRecord:
        """The answer that was gone on with, unchanged but for what a context would have to hold; says why."""
        assert self._before is not None, "there is an answer to go back to"
        self.remark = record.error
        if record.status is MessageStatus.COMPLETE:
            self.remark = tr("The model has nothing to add to this answer.")
        needs = {key: value for key, value in (record.stats or {}).items() if key in _NEEDS}
        return replace(self._before, stats={**(self._before.stats or {}), **needs} or None)

    def _end_reasoning(self) -> None:
        """Take the time that the reasoning took, once."""
        if self._reasoning_began_s is not None and self._reasoning_ms is None:
            self._reasoning_ms = (time.monotonic() - self._reasoning_began_s) * 1000

    def _save(self) -> None:
        self._collection.save_progress(self.sync())
