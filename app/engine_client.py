"""The app's end of the engine: owns the engine thread and brings its events to the GUI thread.

A request's events go to the handler that was given with the request, and to nobody once it has ended: a stream
cannot reach another message. Deltas are put together so that a view repaints at most 60 times a second.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from app.engine_words import told
from app.storage.records import new_id
from app.tasks import Mailbox
from app.translation import tr
from engine.protocol import (
    AbortRequest,
    AskSnapshotStorage,
    ClearSnapshots,
    Command,
    ContextPolicy,
    ContextShifted,
    CountTokens,
    Delta,
    EjectModel,
    EngineStopped,
    Event,
    ForgetConversation,
    GenerateRequest,
    KVType,
    LoadModel,
    Message,
    ModelEjected,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    Notice,
    PrefillDraft,
    PrepareForms,
    Priority,
    PromptProgress,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    SetPriority,
    SetSnapshotQuota,
    SnapshotStorage,
    TokenAlternatives,
    TokensCounted,
    Tool,
    ToolCalled,
)

_log = logging.getLogger(__name__)

FRAME_MS, MAX_FRAME_MS = 33, 80
SHARE = 0.02
"""How much of a core's time the window may take from the engine while an answer streams; no picture is later than
the longest frame, though, or reading along is no pleasure."""
FREE_FRAME_MS, FREE_SHARE = 16, 0.5
"""The same where the engine leaves cores to others."""
SHUTDOWN_S = 0.8  # the app closes in less than a second

RequestEvent = (
    ContextShifted
    | RequestStarted
    | PromptProgress
    | Delta
    | TokenAlternatives
    | ToolCalled
    | RequestFinished
    | RequestFailed
)
RequestHandler = Callable[[RequestEvent], None]


class Engine(Protocol):
    """What the client needs of an engine thread."""

    def start(self) -> None: ...

    def submit(self, command: Command) -> None: ...

    def lend_core(self, is_lent: bool) -> None: ...

    def stop(self, timeout_s: float = 5) -> bool: ...


EngineFactory = Callable[[Callable[[Event], None]], Engine]


class EngineClient(QObject):
    """Commands to the engine, events from it.

    Signals:
        model_loading(ModelLoading), model_loaded(ModelLoaded), model_load_failed(ModelLoadFailed),
        model_ejected(ModelEjected): about the model.
        request_finished(RequestFinished): after its handler has had it.
        notice(text): something to know that is no failure.
        stopped(): the engine thread ended by itself; all requests have failed.
    """

    model_loading = Signal(object)
    model_loaded = Signal(object)
    model_load_failed = Signal(object)
    model_ejected = Signal(object)
    request_finished = Signal(object)
    notice = Signal(str)
    stopped = Signal()

    def __init__(self, make_engine: EngineFactory, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._handlers: dict[str, RequestHandler] = {}
        self._counters: dict[str, Callable[[int], None]] = {}
        self._on_storage: Callable[[SnapshotStorage], None] | None = None
        self._is_closed = False
        self._uses_all_cores = False
        self._mailbox = Mailbox(
            self._on_events,
            FRAME_MS,
            self,
            share=SHARE,
            max_interval_ms=MAX_FRAME_MS,
            lend_core=self._lend_core,
        )
        self._engine = make_engine(self._mailbox.post)

    @property
    def is_busy(self) -> bool:
        """Whether a request waits or is computed."""
        return bool(self._handlers)

    def start(self) -> None:
        """Let the engine begin; what was submitted before is done first."""
        self._engine.start()

    def load(
        self,
        path: Path,
        context_length: int = 0,
        num_threads: int = 0,
        memory_limit_bytes: int = 0,
        kv_type: KVType | None = None,
        *,
        takes_more: bool = False,
    ) -> None:
        """Load a model in place of the one that is loaded; 0 and None leave the choice to the engine.

        With ``takes_more`` also where it needs more memory than is free.
        """
        self._submit(LoadModel(path, context_length, num_threads, memory_limit_bytes, kv_type, takes_more))

    def eject(self) -> None:
        """Free the model that is loaded."""
        self._submit(EjectModel())

    def generate(self, request: GenerateRequest, on_event: RequestHandler) -> None:
        """Submit a request; ``on_event`` gets its events until it has finished or failed."""
        self._handlers[request.request_id] = on_event
        self._submit(request)

    def prepare_forms(self) -> None:
        """Answers in a given form will be asked for: let the engine get ready."""
        self._submit(PrepareForms())

    def abort(self, request_id: str) -> None:
        """Stop a request; its handler still gets the end. Unknown ids are ignored."""
        if request_id in self._handlers:
            self._submit(AbortRequest(request_id))

    def set_priority(self, request_id: str, priority: Priority) -> None:
        """Change whose request is computed first; unknown ids are ignored."""
        if request_id in self._handlers:
            self._submit(SetPriority(request_id, priority))

    def read_ahead(
        self,
        conversation_id: str,
        messages: tuple[Message, ...] = (),
        context_policy: ContextPolicy = ContextPolicy.STOP,
        tools: tuple[Tool, ...] = (),
        *,
        only_kept: bool = False,
    ) -> None:
        """Read a draft while nothing else is to be computed; without messages that ends.

        With ``only_kept`` nothing is computed: what the disk has of the messages comes back.
        """
        self._submit(PrefillDraft(conversation_id, messages, context_policy, tools, only_kept))

    def count_tokens(self, text: str, on_counted: Callable[[int], None]) -> None:
        """Count the tokens of ``text``; only the newest call is answered."""
        request_id = new_id()
        self._counters = {request_id: on_counted}
        self._submit(CountTokens(request_id, text))

    def forget(self, conversation_id: str) -> None:
        """Delete what the engine keeps of a conversation on the disk."""
        self._submit(ForgetConversation(conversation_id))

    def set_snapshot_quota(self, quota_bytes: int) -> None:
        """Let the engine keep so much of read conversations on the disk; 0 is nothing and deletes all."""
        self._submit(SetSnapshotQuota(quota_bytes))

    def clear_snapshots(self) -> None:
        """Delete what the engine keeps of all conversations on the disk."""
        self._submit(ClearSnapshots())

    def ask_storage(self, on_answer: Callable[[SnapshotStorage], None]) -> None:
        """Find out what the engine keeps on the disk; only the newest call is answered."""
        self._on_storage = on_answer
        self._submit(AskSnapshotStorage())

    def catch_up(self) -> None:
        """Hand over at once what the engine has said so far."""
        self._mailbox.deliver()

    def close(self) -> bool:
        """End the engine thread; False when it did not end in time. Requests get no further events."""
        if self._is_closed:
            return True
        self._is_closed = True
        self._mailbox.close()
        self._handlers.clear()
        self._counters.clear()
        self._on_storage = None
        is_ended = self._engine.stop(timeout_s=SHUTDOWN_S)
        if not is_ended:
            _log.error("the engine thread did not end within %.1f s", SHUTDOWN_S)
        return is_ended

    def _submit(self, command: Command) -> None:
        if not self._is_closed:
            self._engine.submit(command)

    def _lend_core(self, is_lent: bool) -> None:
        """Take a core from an engine that leaves none, for the time of a picture."""
        if self._uses_all_cores and not self._is_closed:
            self._engine.lend_core(is_lent)

    def _on_events(self, events: list[Event]) -> None:
        for event in coalesce(events):
            if self._is_closed:
                return
            try:
                self._dispatch(event)
            except Exception:
                # One view's mistake must not swallow the events behind this one.
                _log.exception("handling %s failed", type(event).__name__)

    def _dispatch(self, event: Event) -> None:
        match event:
            case (
                ContextShifted()
                | RequestStarted()
                | PromptProgress()
                | Delta()
                | TokenAlternatives()
                | ToolCalled()
            ):
                if (handler := self._handlers.get(event.request_id)) is not None:
                    handler(event)
            case RequestFinished() | RequestFailed():
                if (handler := self._handlers.pop(event.request_id, None)) is not None:
                    handler(event)
                if isinstance(event, RequestFinished):
                    self.request_finished.emit(event)
            case TokensCounted():
                if (counter := self._counters.pop(event.request_id, None)) is not None:
                    counter(event.num_tokens)
            case SnapshotStorage():
                answer, self._on_storage = self._on_storage, None
                if answer is not None:
                    answer(event)
            case ModelLoading():
                self.model_loading.emit(event)
            case ModelLoaded():
                leaves_cores = event.info.num_threads < _num_cores()
                self._uses_all_cores = not leaves_cores
                self._mailbox.set_pace(
                    FREE_FRAME_MS if leaves_cores else FRAME_MS, FREE_SHARE if leaves_cores else SHARE
                )
                self.model_loaded.emit(event)
            case ModelLoadFailed():
                self.model_load_failed.emit(event)
            case ModelEjected():
                self.model_ejected.emit(event)
            case Notice():
                self.notice.emit(told(event.message))
            case EngineStopped():
                self._on_engine_stopped()

    def _on_engine_stopped(self) -> None:
        handlers, self._handlers = self._handlers, {}
        for request_id, handler in handlers.items():
            handler(RequestFailed(request_id, tr("The engine ended unexpectedly; start Fireside again.")))
        self.stopped.emit()


def _num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def coalesce(events: list[Event]) -> list[Event]:
    """Join neighbouring deltas of one request and channel; of neighbouring progress reports keep the last."""
    joined: list[Event] = []
    texts: list[str] = []  # of the delta that ends ``joined``

    def close_delta() -> None:
        if len(texts) > 1:
            last = joined[-1]
            assert isinstance(last, Delta)
            joined[-1] = Delta(last.request_id, last.channel, "".join(texts), last.num_completion_tokens)
        texts.clear()

    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, Delta):
            if texts and isinstance(last, Delta) and _same_stream(last, event):
                joined[-1] = event
                texts.append(event.text)
                continue
            close_delta()
            texts.append(event.text)
        else:
            close_delta()
            if _supersedes(event, last):
                joined.pop()
        joined.append(event)
    close_delta()
    return joined


def _same_stream(first: Delta, second: Delta) -> bool:
    return first.request_id == second.request_id and first.channel is second.channel


def _supersedes(event: Event, last: Event | None) -> bool:
    if isinstance(event, PromptProgress) and isinstance(last, PromptProgress):
        return event.request_id == last.request_id
    return isinstance(event, ModelLoading) and isinstance(last, ModelLoading) and event.path == last.path
