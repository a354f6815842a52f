"""The engine thread: commands in, events out, one loop.

It owns the loaded model, its engine and the requests, and turns every failure into an event. Commands are taken up
between steps, and those that stop something end the step; what takes longer, loading a model and tokenizing a long
text, has a thread of its own. It knows the app only as a function that takes events.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from engine.config import EngineConfig
from engine.conversations import Conversations
from engine.decision.desk import DecisionDesk
from engine.draft import DraftReader
from engine.engine import Engine
from engine.errors import InsufficientMemoryError, ModelFileError, ModelNotLoadedError, sentence_of
from engine.freed_memory import return_freed_memory
from engine.load_thread import LoadEnded, LoadProgressed, LoadThread
from engine.loader import LoadedModel, OnProgress, load_model
from engine.protocol import (
    AbortRequest,
    AskSnapshotStorage,
    ClearSnapshots,
    Command,
    CountTokens,
    Decide,
    EjectModel,
    EngineStopped,
    Event,
    ForgetConversation,
    GenerateRequest,
    LoadModel,
    ModelEjected,
    ModelLoaded,
    ModelLoadFailed,
    Notice,
    PrefillDraft,
    PrepareForms,
    SetPriority,
    SetSnapshotQuota,
    Shutdown,
)
from engine.request_desk import RequestDesk
from engine.token_counts import TokenCounts

EJECT_FLUSH_S = 2.0  # for writing what is not written of a model's conversations
EXIT_FLUSH_S = 0.5  # of the second that closing the app may take
_log = logging.getLogger(__name__)

Load = Callable[[LoadModel, EngineConfig, OnProgress], LoadedModel]
T = TypeVar("T")


@dataclass(frozen=True)
class _Done:
    """A job on the text thread has ended; ``then`` is called on the engine thread."""

    then: Callable[[], None]


_Message = Command | LoadProgressed | LoadEnded | _Done
_Inbox = queue.SimpleQueue[tuple[float, _Message]]  # with the time of sending


class EngineThread:
    """The engine behind a queue of commands; the public face of the package.

    ``on_event`` is called on the engine thread, in order, and must only hand the event over.
    """

    def __init__(
        self, on_event: Callable[[Event], None], config: EngineConfig | None = None, *, load: Load = load_model
    ) -> None:
        self._inbox: _Inbox = queue.SimpleQueue()
        self._worker = _Worker(on_event, config or EngineConfig(), load, self._inbox)
        self._thread = threading.Thread(target=self._worker.run, name="engine", daemon=True)

    def start(self) -> None:
        """Start the thread; it uses no processor time until a command comes."""
        self._thread.start()

    def submit(self, command: Command) -> None:
        """Hand over a command; returns at once, from any thread."""
        self._inbox.put((time.perf_counter(), command))
        self._worker.interrupt_for(command)

    def lend_core(self, is_lent: bool) -> None:
        """Leave a core to the calling thread, or take it back; for some milliseconds of work, at once.

        Waits up to two of them until the core is free. So the work costs the engine the share of one core; it would
        else stand still, all of it, where it uses all cores.
        """
        self._worker.lend_core(is_lent)

    def stop(self, timeout_s: float = 5.0) -> bool:
        """Abort everything and end the thread; False when it did not end in time."""
        self.submit(Shutdown())
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


class _Worker:
    """What runs on the engine thread."""

    def __init__(
        self,
        on_event: Callable[[Event], None],
        config: EngineConfig,
        load: Load,
        inbox: _Inbox,
    ) -> None:
        self._on_event = on_event
        self._config = config
        self._inbox = inbox
        self._loads = LoadThread(load, config, lambda message: inbox.put((time.perf_counter(), message)))
        self._texts = ThreadPoolExecutor(1, "text")
        self._forms = ThreadPoolExecutor(1, "grammar")  # waits for the vocabulary's index, a second
        self._model: LoadedModel | None = None
        self._engine: Engine | None = None
        self._counting = ThreadPoolExecutor(1, "count")  # a long draft takes a second, and no request waits for it
        self._conversations = Conversations(config.snapshot_folder, config.snapshot_quota_bytes)
        self._requests = RequestDesk(self._emit, self._in_background, self._in_forms, self._conversations)
        self._decisions = DecisionDesk(self._emit, self._in_background)
        self._counts = TokenCounts(self._emit, partial(self._submit_to, self._counting))
        self._drafts = DraftReader(self._in_background, self._conversations)
        self._is_stopping = False

    def run(self) -> None:
        """Take commands and step until ``Shutdown``."""
        self._take_commands(waits=False)
        self._conversations.keep_quota()  # that of the configuration, or of a command that was there first
        while not self._is_stopping:
            self._take_commands()
            if self._conversations.is_opening:
                self._conversations.advance()
            if self._engine is not None and self._has_steps and not self._is_stopping:
                self._step(self._engine)
                self._conversations.note_work()
        self._conversations.close()
        self._counts.stop()
        for executor in (self._texts, self._forms, self._counting):
            executor.shutdown(wait=False, cancel_futures=True)
        self._emit(EngineStopped())

    def interrupt_for(self, command: Command) -> None:
        """End the running step early where the command will end what it computes; from any thread.

        A step may take seconds on a large model, and a person who stops an answer sees that at once.
        """
        engine = self._engine
        if engine is None:
            return
        match command:
            case AbortRequest(request_id):
                engine.interrupt(request_id)
            case EjectModel() | LoadModel() | Shutdown():
                engine.interrupt()

    def lend_core(self, is_lent: bool) -> None:
        """See ``EngineThread.lend_core``."""
        if (engine := self._engine) is not None:
            engine.lend_core(is_lent)

    @property
    def _has_steps(self) -> bool:
        return self._engine is not None and self._engine.has_work

    # ------------------------------------------------------------------------------------------- commands

    def _take_commands(self, waits: bool = True) -> None:
        """Handle all messages that are there; wait for one when there is nothing to compute.

        A wait is used to write snapshots, a little at a time.
        """
        has_work = not waits or self._conversations.is_opening or self._has_steps
        while not self._is_stopping:
            if has_work and self._inbox.empty():
                return
            try:
                sent_s, message = self._inbox.get(timeout=None if has_work else self._conversations.rest_s)
            except queue.Empty:
                self._conversations.rest()
                continue
            self._handle(message, sent_s)
            has_work = True

    def _handle(self, message: _Message, sent_s: float) -> None:
        match message:
            case GenerateRequest():
                if self._requests.submit(message, sent_s, self._loads.is_loading):
                    self._drafts.stop(message.conversation_id)
            case PrepareForms():
                if (model := self._model) is not None:
                    self._forms.submit(lambda: model.grammars.prepare())
            case Decide():
                self._decisions.decide(message)
            case AbortRequest(request_id):
                self._requests.abort(request_id)
                self._decisions.abort(request_id)
            case SetPriority(request_id, priority):
                self._requests.set_priority(request_id, priority)
            case PrefillDraft():
                self._drafts.read(message, self._model, self._engine)
            case CountTokens():
                self._counts.count(message, self._model)
            case LoadModel():
                self._load(message)
            case ForgetConversation(conversation_id):
                self._forget(conversation_id)
            case SetSnapshotQuota(quota_bytes):
                self._conversations.set_quota(quota_bytes)
            case ClearSnapshots():
                self._conversations.clear()
            case AskSnapshotStorage():
                self._conversations.ask_storage(self._emit)
            case EjectModel():
                self._stop_loading()
                self._requests.abort_all()
                self._eject()
            case Shutdown():
                self._stop_loading()
                self._requests.abort_all()
                self._eject(EXIT_FLUSH_S)
                self._is_stopping = True
            case LoadProgressed():
                if self._loads.is_current(message):
                    self._emit(message.event)
            case LoadEnded():
                self._loaded(message)
            case _Done(then):
                then()

    def _forget(self, conversation_id: str) -> None:
        """Delete what is kept of a conversation, and keep nothing of its requests when they end."""
        if conversation_id:
            self._requests.forget(lambda each: each == conversation_id)
            self._drafts.stop(conversation_id)
            self._conversations.forget(conversation_id)

    def _in_background(self, job: Callable[[], T], then: Callable[[Future[T]], None]) -> None:
        """Run ``job`` on the text thread, after those before it, and then ``then`` on this one."""
        self._submit_to(self._texts, job, then)

    def _in_forms(self, job: Callable[[], T], then: Callable[[Future[T]], None]) -> None:
        """The same on the thread of forms."""
        self._submit_to(self._forms, job, then)

    def _submit_to(
        self, executor: ThreadPoolExecutor, job: Callable[[], T], then: Callable[[Future[T]], None]
    ) -> None:
        executor.submit(job).add_done_callback(
            lambda future: self._inbox.put((time.perf_counter(), _Done(lambda: then(future))))
        )

    # ---------------------------------------------------------------------------------------------- model

    def _load(self, command: LoadModel) -> None:
        """Begin a load. What runs on the old model is aborted; what waits for a load waits for this one."""
        if not self._loads.is_loading:
            self._requests.abort_all()
        self._stop_loading()
        self._eject()
        self._loads.start(command)

    def _stop_loading(self) -> None:
        path = self._loads.cancel()
        if path is not None:
            self._emit(ModelLoadFailed(path, "Loading was stopped."))

    def _loaded(self, ended: LoadEnded) -> None:
        """Take over a model that was loaded, or say why it was not."""
        if not self._loads.take(ended):
            return
        if ended.model is None:
            message = sentence_of(ended.error)
            can_load_anyway = isinstance(ended.error, InsufficientMemoryError) and ended.error.can_load_anyway
            self._emit(ModelLoadFailed(ended.command.path, message, can_load_anyway))
            self._requests.fail_all(ModelNotLoadedError(f"No model is loaded. {message}"))
            return
        self._model = ended.model
        self._engine = self._make_engine(ended.model)
        self._emit(ModelLoaded(ended.model.info, ended.load_ms))
        for notice in ended.model.notices:
            self._emit(Notice(notice))
        self._requests.begin_all()

    def _make_engine(self, model: LoadedModel) -> Engine:
        engine = Engine(
            model.backend,
            num_blocks=model.num_blocks,
            context_length=model.info.context_length,
            on_admitted=self._requests.admitted,
            speculates=self._config.speculates,
            checkpoint_bytes=model.checkpoint_bytes,
        )
        self._conversations.start_engine(engine, model.backend, model.snapshot_key)
        self._requests.start_engine(engine, model)
        self._decisions.start_engine(engine, model)
        return engine

    def _eject(self, flush_s: float = EJECT_FLUSH_S) -> None:
        """Free the model, if there is one, after its conversations were written, for at most ``flush_s``."""
        self._drafts.stop()
        self._requests.stop_engine()
        self._decisions.stop_engine()
        model, self._model, self._engine = self._model, None, None
        if model is None:
            return
        self._conversations.stop_engine(flush_s)
        path = model.info.path
        try:
            model.close()
        except Exception:
            _log.exception("closing %s", path)
        del model
        return_freed_memory()  # before the next model is weighed against free memory
        self._emit(ModelEjected(path))

    # ----------------------------------------------------------------------------------------------- steps

    def _step(self, engine: Engine) -> None:
        """One step of the engine; its outputs become events."""
        try:
            outputs = engine.step()
        except Exception as error:
            self._recover(error)
            return
        for output in outputs:
            if not self._decisions.take(output.sequence, output.error):
                self._requests.take(output, engine)

    def _recover(self, error: Exception) -> None:
        """After a step that brought nothing: all that was computed of late is doubtful and goes.

        A file that was shortened or changed takes the model with it. After a defect of our own the model starts
        over with an empty KV cache.
        """
        _log.error("the engine failed", exc_info=error)
        self._conversations.drop_engine()
        self._requests.fail_all(error)
        self._decisions.stop_engine(error)
        if isinstance(error, ModelFileError):
            self._emit(Notice(sentence_of(error)))
            self._eject()
        else:
            assert self._model is not None, "an engine has a model"
            self._engine = self._make_engine(self._model)

    def _emit(self, event: Event) -> None:
        try:
            self._on_event(event)
        except Exception:
            _log.exception("the receiver of events failed at %r", type(event).__name__)
