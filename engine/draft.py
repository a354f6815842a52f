"""Reading ahead what the person is about to send, while nothing else is to be computed.

What it leaves is tokens in the KV cache, where the request that follows finds them. All methods are called on the
engine thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from engine.conversations import Conversations
from engine.engine import Engine
from engine.prompt import stable_prefix
from engine.protocol import FinishReason, PrefillDraft, Priority
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence

if TYPE_CHECKING:
    from engine.loader import LoadedModel

InBackground = Callable[[Callable[[], list[int]], Callable[[Future[list[int]]], None]], None]


class DraftReader:
    """Reads one draft at a time, the newest.

    ``in_background`` runs a job elsewhere and then a function here.
    """

    def __init__(self, in_background: InBackground, conversations: Conversations) -> None:
        self._in_background = in_background
        self._conversations = conversations
        self._numbers = itertools.count()
        self._engine: Engine | None = None
        self._command: PrefillDraft | None = None
        self._name = ""
        self._sequence: Sequence | None = None

    def read(self, command: PrefillDraft, model: LoadedModel | None, engine: Engine | None) -> None:
        """Read a draft in place of the last one; one without messages, or that is too long, is not read."""
        self.stop()
        if model is None or engine is None or not command.messages:
            return
        self._command, self._engine, self._name = command, engine, f"draft {next(self._numbers)}"

        def queue_it(prepared: Future[list[int]]) -> None:
            if self._command is not command or prepared.exception() is not None:
                return
            token_ids = prepared.result()
            if 0 < len(token_ids) < engine.context_length:
                then = partial(self._recall if command.only_kept else self._compute, engine, token_ids)
                self._conversations.open(self._name, command.conversation_id, token_ids, then)

        def tokens() -> list[int]:
            if self._command is not command:
                return []  # a newer draft waits behind this one
            return stable_prefix(model, command.messages, command.context_policy, command.tools)

        self._in_background(tokens, queue_it)

    def _compute(self, engine: Engine, token_ids: list[int]) -> None:
        sampler = Sampler(SamplingParams(temperature=0))
        self._sequence = Sequence(self._name, token_ids, sampler, 0, frozenset(), priority=Priority.BACKGROUND)
        engine.add(self._sequence)

    def _recall(self, _engine: Engine, token_ids: list[int]) -> None:
        assert self._command is not None, "it was opened for a command"
        self._conversations.note_recalled(self._name, self._command.conversation_id, token_ids)

    def stop(self, conversation_id: str | None = None) -> None:
        """Read no further, or only if the draft is of ``conversation_id``; what was read stays."""
        if self._command is None or conversation_id not in {None, self._command.conversation_id}:
            return
        self._conversations.abort(self._name)
        if self._sequence is not None and self._engine is not None:
            self._engine.finish(self._sequence, FinishReason.ABORTED)
        self._command = self._engine = self._sequence = None
