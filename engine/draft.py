"""A draft that is read ahead: the prompt of a message the person has not sent yet, computed while nothing else is.

What it leaves is tokens in the KV cache, where the request that follows finds them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from engine.prompt import stable_prefix
from engine.protocol import PrefillDraft, Priority
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence

if TYPE_CHECKING:
    from engine.loader import LoadedModel

_numbers = itertools.count()


class Draft:
    """A ``PrefillDraft`` in work.

    Attributes:
        conversation_id: whose next message it may become.
        sequence: its tokens in the engine; None until ``begin``.
    """

    def __init__(self, command: PrefillDraft) -> None:
        self.conversation_id = command.conversation_id
        self.sequence: Sequence | None = None
        self._command = command

    def prepare(self, model: LoadedModel) -> list[int]:
        """The tokens that will stay when the draft is written on; changes nothing, so that any thread may do it."""
        return stable_prefix(model, self._command.messages, self._command.context_policy)

    def begin(self, token_ids: list[int]) -> Sequence:
        """Make the sequence that reads ``token_ids`` and chooses nothing."""
        sampler, name = Sampler(SamplingParams(temperature=0)), f"draft {next(_numbers)}"
        self.sequence = Sequence(name, token_ids, sampler, 0, frozenset(), priority=Priority.BACKGROUND)
        return self.sequence
