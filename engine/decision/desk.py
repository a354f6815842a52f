"""Where the engine thread's decisions lie: tokenized on another thread, run in whatever engine there is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from engine.decision.decider import Decider, PreparedPrompt, prepare
from engine.errors import ModelNotLoadedError, RequestError
from engine.failures import failed
from engine.protocol import Decide, Decided, Event
from engine.request import NO_MODEL
from engine.request_desk import InBackground
from engine.scheduler.sequence import Sequence

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.loader import LoadedModel


class DecisionDesk:
    """Decisions over the lives of engines; all methods belong to the engine thread."""

    def __init__(self, emit: Callable[[Event], None], in_background: InBackground) -> None:
        self._emit = emit
        self._in_background = in_background
        self._decider: Decider | None = None
        self._model: LoadedModel | None = None
        self._preparing: dict[str, Decide] = {}

    def start_engine(self, engine: Engine, model: LoadedModel) -> None:
        """Decide with this engine from now on."""
        self._model = model
        self._decider = Decider(engine, lambda name, made: self._emit(Decided(name, made)), self._failed)

    def stop_engine(self, error: BaseException | None = None) -> None:
        """End all decisions; the engine goes."""
        if self._decider is not None:
            self._decider.fail_all(error or RequestError("The decision was stopped."))
        self._decider = self._model = None

    def decide(self, command: Decide) -> None:
        """Take up a decision."""
        model, decider = self._model, self._decider
        if model is None or decider is None:
            self._failed(command.request_id, ModelNotLoadedError(NO_MODEL))
            return

        if command.request_id in self._preparing or decider.has(command.request_id):
            return  # it is answered once
        self._preparing[command.request_id] = command

        def begin(prepared: Future[list[PreparedPrompt]]) -> None:
            if self._preparing.get(command.request_id) is not command:
                return  # stopped meanwhile
            del self._preparing[command.request_id]
            try:
                if self._decider is not decider:
                    raise ModelNotLoadedError("The model was changed before the decision was made.")
                decider.begin(command, prepared.result(), model.tokenizer.end_token_ids)
            except Exception as error:
                self._failed(command.request_id, error)

        self._in_background(lambda: prepare(model, command), begin)

    def abort(self, request_id: str) -> None:
        """Stop a decision, where there is one of that name."""
        stopped = RequestError("The decision was stopped.")
        if self._preparing.pop(request_id, None) is not None:
            self._failed(request_id, stopped)
        elif self._decider is not None:
            self._decider.fail(request_id, stopped)

    def take(self, sequence: Sequence, error: BaseException | None) -> bool:
        """Take up what a step brought a sequence; False where it is none of a decision's."""
        return self._decider is not None and self._decider.take(sequence, error)

    def _failed(self, request_id: str, error: BaseException) -> None:
        self._emit(failed(request_id, error))
