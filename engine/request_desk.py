"""Where the engine thread's requests lie: prepared on another thread, run in whatever engine there is.

Steps become events here, and a request ends with exactly one of ``RequestFinished`` and ``RequestFailed``. All
methods belong to the engine thread.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from engine.conversations import Conversations
from engine.engine import Engine, StepOutput
from engine.errors import EngineError, ModelNotLoadedError
from engine.failures import failed
from engine.protocol import (
    Event,
    FinishReason,
    GenerateRequest,
    Notice,
    Priority,
)
from engine.request import NO_MODEL, Prepared, Request
from engine.scheduler.sequence import Sequence

if TYPE_CHECKING:
    from engine.loader import LoadedModel

_log = logging.getLogger(__name__)


class InBackground(Protocol):
    """Runs a job on another thread, and then a function with its future on this one."""

    def __call__(self, job: Callable[[], Any], then: Callable[[Future[Any]], None], /) -> None: ...


class RequestDesk:
    """The requests in work, over the lives of engines.

    ``in_background`` serves texts, ``in_forms`` requests whose preparation may take a second.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        in_background: InBackground,
        in_forms: InBackground,
        conversations: Conversations,
    ) -> None:
        self._emit = emit
        self._in_background = in_background
        self._in_forms = in_forms
        self._conversations = conversations
        self._requests: dict[str, Request] = {}
        self._model: LoadedModel | None = None
        self._engine: Engine | None = None
        conversations.on_deleted = lambda deleted: self.forget(deleted.has)

    # ---------------------------------------------------------------------------------------------- engines

    def start_engine(self, engine: Engine, model: LoadedModel) -> None:
        """Answer with this engine from now on."""
        self._model, self._engine = model, engine

    def stop_engine(self) -> None:
        """The engine goes; what ran on it has been ended."""
        self._model = self._engine = None

    def begin_all(self) -> None:
        """Begin what has waited for a model."""
        for request in list(self._requests.values()):
            self._begin(request)

    def fail_all(self, error: BaseException) -> None:
        """End every request with an error."""
        for request in list(self._requests.values()):
            self._fail(request, error)

    def abort_all(self) -> None:
        """Stop every request."""
        for request in list(self._requests.values()):
            self._abort(request)

    # --------------------------------------------------------------------------------------------- commands

    def submit(self, command: GenerateRequest, submitted_s: float, waits_for_load: bool) -> bool:
        """Take up a request; while a model loads it waits for ``begin_all``. False where it is refused."""
        if command.request_id in self._requests:
            self._emit(Notice("This request is being answered already.", command.request_id))
            return False
        try:
            request = Request(command, submitted_s)
        except Exception as error:
            self._emit(failed(command.request_id, error))
            return False
        self._requests[request.request_id] = request
        if not waits_for_load:
            self._begin(request)
        return True

    def abort(self, request_id: str) -> None:
        """Stop a request, where there is one of that name."""
        if request_id in self._requests:
            self._abort(self._requests[request_id])

    def set_priority(self, request_id: str, priority: Priority) -> None:
        """Change whose turn it is, where there is a request of that name."""
        if request_id in self._requests:
            self._requests[request_id].set_priority(priority)

    def forget(self, is_meant: Callable[[str], bool]) -> None:
        """Let requests go on as nobody's whose conversations are deleted: nothing of them will be remembered."""
        for request in self._requests.values():
            if is_meant(request.conversation_id):
                request.conversation_id = ""

    # ------------------------------------------------------------------------------------------------ steps

    def admitted(self, sequence: Sequence) -> None:
        """A sequence got room in the KV cache; ignored where it is no request's."""
        request = self._requests.get(sequence.request_id)
        if request is not None:
            prompt, num_reused = sequence.token_ids[: sequence.num_prompt_tokens], sequence.num_reused_tokens or 0
            name, conversation_id = request.request_id, request.conversation_id
            request.reuse = self._conversations.explain(
                name, conversation_id, prompt, num_reused, request.num_dropped
            )
            self._emit(request.started())

    def take(self, output: StepOutput, engine: Engine) -> None:
        """Turn what a step brought a sequence into events; ignored where it is no request's."""
        request = self._requests.get(output.sequence.request_id)
        if request is None:
            return
        try:
            self._deliver(request, output, engine)
        except Exception as error:
            engine.finish(output.sequence, FinishReason.ABORTED)
            self._fail(request, error)

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

        run = self._in_forms if request.has_format else self._in_background
        run(lambda: request.prepare(model), queue_it)

    def _enqueue(self, request: Request) -> None:
        """Let a request run whose prompt is as far in the KV cache as it can be without reading."""
        assert request.sequence is not None, "begun"
        assert self._engine is not None, "an engine that goes ends its requests"
        try:
            self._engine.add(request.sequence)
        except Exception as error:
            self._fail(request, error)

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

    def _abort(self, request: Request) -> None:
        self._conversations.abort(request.request_id)
        if request.sequence is not None and self._engine is not None:
            self._engine.finish(request.sequence, FinishReason.ABORTED)
        self._finish(request, FinishReason.ABORTED)

    def _finish(self, request: Request, reason: FinishReason) -> None:
        for event in request.flush():
            self._emit(event)
        self._emit(request.finished(reason))
        self._requests.pop(request.request_id, None)
        if request.sequence is not None:
            computed = request.sequence.token_ids[: request.sequence.num_computed_tokens]
            name, conversation_id = request.request_id, request.conversation_id
            self._conversations.remember(name, conversation_id, computed, request.num_dropped)

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
        self._emit(failed(request.request_id, error))
        self._requests.pop(request.request_id, None)
