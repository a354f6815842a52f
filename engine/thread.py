"""The engine thread: commands in, events out, one loop.

It owns the loaded model, its engine and the requests, and turns every failure into an event. Commands are taken up
between steps, so a stop waits for one step at most; what takes longer, loading a model and tokenizing a long text,
has a thread of its own. It knows the app only as a function that takes events.
"""

from __future__ import annotations

import gc
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from engine.config import EngineConfig
from engine.conversations import Conversations
from engine.decision.desk import DecisionDesk
from engine.draft import DraftReader
from engine.engine import Engine, StepOutput
from engine.errors import EngineError, ModelNotLoadedError, sentence_of
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
    FinishReason,
    ForgetConversation,
    GenerateRequest,
    LoadModel,
    ModelEjected,
    ModelLoaded,
    ModelLoadFailed,
    Notice,
    PrefillDraft,
    PrepareForms,
    RequestFailed,
    SetPriority,
    SetSnapshotQuota,
    Shutdown,
)
from engine.request import NO_MODEL, Prepared, Request, count_tokens
from engine.scheduler.sequence import Sequence

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
        self._decisions = DecisionDesk(self._emit, self._in_background)
        self._conversations = Conversations(config.snapshot_folder, config.snapshot_quota_bytes)
        self._drafts = DraftReader(self._in_background, self._conversations)
        self._requests: dict[str, Request] = {}
        self._is_stopping = False

    def run(self) -> None:
        """Take commands and step until ``Shutdown``."""
        while not self._is_stopping:
            self._take_commands()
            if self._conversations.is_opening:
                self._conversations.advance()
            if self._engine is not None and self._engine.has_work and not self._is_stopping:
                self._step(self._engine)
                self._conversations.note_work()
        self._conversations.close()
        for executor in (self._texts, self._forms):
            executor.shutdown(wait=False, cancel_futures=True)
        self._emit(EngineStopped())

    # ------------------------------------------------------------------------------------------- commands

    def _take_commands(self) -> None:
        """Handle all messages that are there; wait for one when there is nothing to compute.

        A wait is used to write snapshots, a little at a time.
        """
        has_work = self._conversations.is_opening or (self._engine is not None and self._engine.has_work)
        while not self._is_stopping:
            try:
                sent_s, message = self._inbox.get(not has_work, None if has_work else self._conversations.rest_s)
            except queue.Empty:
                if has_work:
                    return
                self._conversations.rest()
                continue
            self._handle(message, sent_s)
            has_work = True

    def _handle(self, message: _Message, sent_s: float) -> None:
        match message:
            case GenerateRequest():
                self._submit(message, sent_s)
            case PrepareForms():
                if (model := self._model) is not None:
                    self._forms.submit(lambda: model.grammars.prepare())
            case Decide():
                self._decisions.decide(message)
            case AbortRequest(request_id):
                if request_id in self._requests:
                    self._abort(self._requests[request_id])
                self._decisions.abort(request_id)
            case SetPriority(request_id, priority):
                if request_id in self._requests:
                    self._requests[request_id].set_priority(priority)
            case PrefillDraft():
                self._drafts.read(message, self._model, self._engine)
            case CountTokens():
                count_tokens(message, self._model, self._in_background, self._emit)
            case LoadModel():
                self._load(message)
            case ForgetConversation(conversation_id):
                self._conversations.forget(conversation_id)
            case SetSnapshotQuota(quota_bytes):
                self._conversations.set_quota(quota_bytes)
            case ClearSnapshots():
                self._conversations.clear()
            case AskSnapshotStorage():
                self._conversations.ask_storage(self._emit)
            case EjectModel():
                self._stop_loading()
                self._abort_all()
                self._eject()
            case Shutdown():
                self._stop_loading()
                self._abort_all()
                self._eject(EXIT_FLUSH_S)
                self._is_stopping = True
            case LoadProgressed():
                if self._loads.is_current(message):
                    self._emit(message.event)
            case LoadEnded():
                self._loaded(message)
            case _Done(then):
                then()

    def _in_background(
        self, job: Callable[[], T], then: Callable[[Future[T]], None], executor: ThreadPoolExecutor | None = None
    ) -> None:
        """Run ``job`` on the text thread or another one, after those before it, and then ``then`` on this one."""
        (executor or self._texts).submit(job).add_done_callback(
            lambda future: self._inbox.put((time.perf_counter(), _Done(lambda: then(future))))
        )

    def _submit(self, command: GenerateRequest, submitted_s: float) -> None:
        """Take up a request; while a model loads it waits for that."""
        if command.request_id in self._requests:
            self._emit(Notice("This request is being answered already.", command.request_id))
            return
        try:
            request = Request(command, submitted_s)
        except Exception as error:
            self._emit(RequestFailed(command.request_id, sentence_of(error)))
            return
        self._requests[request.request_id] = request
        self._drafts.stop(request.conversation_id)
        if not self._loads.is_loading:
            self._begin(request)

    def _begin(self, request: Request) -> None:
        """Have the request tokenized and then queue it in the engine."""
        model = self._model
        if model is None:
            self._fail(request, ModelNotLoadedError(NO_MODEL))
            return

        def queue_it(prepared: Future[Prepared]) -> None:
            if self._requests.get(request.request_id) is not request or self._engine is None:
                return  # stopped meanwhile
            try:
                for event in request.begin(prepared.result()):
                    self._emit(event)
                assert request.sequence is not None, "begun"
                self._conversations.open(
                    request.request_id,
                    request.conversation_id,
                    request.sequence.token_ids,
                    lambda: self._enqueue(request),
                )
            except Exception as error:
                self._fail(request, error)

        executor = self._forms if request.has_format else self._texts
        self._in_background(lambda: request.prepare(model), queue_it, executor)

    def _enqueue(self, request: Request) -> None:
        """Let a request run whose prompt is as far in the KV cache as it can be without reading."""
        assert request.sequence is not None, "begun"
        assert self._engine is not None, "an engine that goes ends its requests"
        try:
            self._engine.add(request.sequence)
        except Exception as error:
            self._fail(request, error)

    # ---------------------------------------------------------------------------------------------- model

    def _load(self, command: LoadModel) -> None:
        """Begin a load. What runs on the old model is aborted; what waits for a load waits for this one."""
        if not self._loads.is_loading:
            self._abort_all()
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
            self._emit(ModelLoadFailed(ended.command.path, message))
            for request in list(self._requests.values()):
                self._fail(request, ModelNotLoadedError(f"No model is loaded. {message}"))
            return
        self._model = ended.model
        self._engine = self._make_engine(ended.model)
        self._emit(ModelLoaded(ended.model.info, ended.load_ms))
        for notice in ended.model.notices:
            self._emit(Notice(notice))
        for request in list(self._requests.values()):
            self._begin(request)

    def _make_engine(self, model: LoadedModel) -> Engine:
        engine = Engine(
            model.backend,
            num_blocks=model.num_blocks,
            context_length=model.info.context_length,
            on_admitted=self._admitted,
            speculates=self._config.speculates,
            checkpoint_bytes=model.checkpoint_bytes,
        )
        self._conversations.start_engine(engine, model.backend, model.snapshot_key)
        self._decisions.start_engine(engine, model)
        return engine

    def _eject(self, flush_s: float = EJECT_FLUSH_S) -> None:
        """Free the model, if there is one, after its conversations were written, for at most ``flush_s``."""
        self._drafts.stop()
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
        gc.collect()  # buffers in cycles must be gone before the next model is weighed against free memory
        self._emit(ModelEjected(path))

    # ----------------------------------------------------------------------------------------------- steps

    def _step(self, engine: Engine) -> None:
        """One step of the engine; its outputs become events."""
        try:
            if self._model is not None:
                self._model.check_file()
            outputs = engine.step()
        except Exception as error:  # a shortened file, or a defect of our own: start over with an empty KV cache
            _log.exception("the engine failed")
            self._conversations.drop_engine()
            for request in list(self._requests.values()):
                self._fail(request, error)
            self._decisions.stop_engine(error)
            assert self._model is not None, "an engine has a model"
            self._engine = self._make_engine(self._model)
            return
        for output in outputs:
            if self._decisions.take(output.sequence, output.error):
                continue
            receiver = self._requests.get(output.sequence.request_id)
            if receiver is not None:
                try:
                    self._deliver(receiver, output, engine)
                except Exception as error:
                    engine.finish(output.sequence, FinishReason.ABORTED)
                    self._fail(receiver, error)

    def _deliver(self, request: Request, output: StepOutput, engine: Engine) -> None:
        """Turn what a step brought one request into events."""
        if request.num_completion_tokens == 0:
            self._emit(request.progress())
        is_stopped = False
        for token_id, ranking in itertools.zip_longest(output.token_ids, output.rankings):
            events, is_stopped = request.push(token_id, ranking)
            for event in events:
                self._emit(event)
            if is_stopped:
                break
        if is_stopped:
            engine.finish(output.sequence, FinishReason.STOP)
            self._finish(request, FinishReason.STOP)
        elif output.error is not None:
            self._fail(request, output.error)
        elif output.sequence.finish_reason is FinishReason.CONTEXT and request.can_shift:
            self._shift(request)
        elif output.sequence.finish_reason is not None:
            self._finish(request, output.sequence.finish_reason)

    def _shift(self, request: Request) -> None:
        """Let an answer that has filled the context go on without the oldest turns, where there are some."""
        assert self._model is not None, "what runs has a model"
        model = self._model

        def go_on(prepared: Future[Prepared | None]) -> None:
            if self._requests.get(request.request_id) is not request or self._engine is None:
                return  # stopped meanwhile
            try:
                shifted = prepared.result()
                if shifted is None:
                    self._finish(request, FinishReason.CONTEXT)
                    return
                for event in request.begin(shifted):
                    self._emit(event)
                self._enqueue(request)
            except Exception as error:
                self._fail(request, error)

        self._in_background(lambda: request.prepare_shift(model), go_on)

    def _admitted(self, sequence: Sequence) -> None:
        request = self._requests.get(sequence.request_id)
        if request is not None:
            prompt, num_reused = sequence.token_ids[: sequence.num_prompt_tokens], sequence.num_reused_tokens or 0
            name, conversation_id = request.request_id, request.conversation_id
            request.reuse = self._conversations.explain(name, conversation_id, prompt, num_reused)
            self._emit(request.started())

    def _abort(self, request: Request) -> None:
        self._conversations.abort(request.request_id)
        if request.sequence is not None and self._engine is not None:
            self._engine.finish(request.sequence, FinishReason.ABORTED)
        self._finish(request, FinishReason.ABORTED)

    def _abort_all(self) -> None:
        for request in list(self._requests.values()):
            self._abort(request)

    def _finish(self, request: Request, reason: FinishReason) -> None:
        for event in request.flush():
            self._emit(event)
        self._emit(request.finished(reason))
        self._requests.pop(request.request_id, None)
        if request.sequence is not None:
            computed = request.sequence.token_ids[: request.sequence.num_computed_tokens]
            self._conversations.remember(request.request_id, request.conversation_id, computed)

    def _fail(self, request: Request, error: BaseException) -> None:
        """End a request with an error; the text so far is delivered."""
        self._conversations.abort(request.request_id)
        if not isinstance(error, EngineError):
            _log.error("request %s failed", request.request_id, exc_info=error)
        try:
            for event in request.flush():
                self._emit(event)
        except Exception:
            _log.exception("flushing request %s", request.request_id)
        self._emit(RequestFailed(request.request_id, sentence_of(error)))
        self._requests.pop(request.request_id, None)

    def _emit(self, event: Event) -> None:
        try:
            self._on_event(event)
        except Exception:
            _log.exception("the receiver of events failed at %r", type(event).__name__)
