"""Decisions in work: each prompt is read once, then all choices after it are computed in one batch.

The text side (messages to tokens) may run on any thread; the rest is the engine thread's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.decision.combine import combine
from engine.decision.decision import MAX_CHOICES, PLACEHOLDER, Decision
from engine.decision.label_trie import LabelProbe, LabelTrie, Path
from engine.errors import EngineError, InvalidParameterError
from engine.protocol import Decide, FinishReason, Message
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import Sampler
from engine.scheduler.sequence import Sequence

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.loader import LoadedModel

MAX_ORDERS = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedPrompt:
    """One prompt of a decision as tokens; ``paths`` are the choices in the order in which they were given."""

    token_ids: list[int]
    paths: tuple[Path, ...]
    is_content_free: bool


@dataclass
class _Reading:
    """A prompt in work: first it alone, then one sequence for each leaf."""

    prompt: PreparedPrompt
    trie: LabelTrie
    num_left: int = 0


@dataclass
class _Work:
    """A decision in work."""

    command: Decide
    end_token_ids: frozenset[int]
    readings: list[_Reading] = field(default_factory=list)
    sequences: dict[str, tuple[_Reading, Sequence]] = field(default_factory=dict)


def prepare(model: LoadedModel, command: Decide) -> list[PreparedPrompt]:
    """The prompts of a decision. Raises InvalidParameterError for choices that make no sense, TemplateError."""
    choices = command.choices
    if not 2 <= len(choices) <= MAX_CHOICES or len(set(choices)) < len(choices) or not all(map(str.strip, choices)):
        raise InvalidParameterError(f"A decision needs 2 to {MAX_CHOICES} different choices, none of them empty.")
    if command.calibration is not None and set(command.calibration.choices) != set(choices):
        raise InvalidParameterError("The calibration was fitted for other choices; fit it anew.")
    paths = tuple(tuple(model.tokenizer.encode_continuation(choice)) for choice in choices)
    if len(set(paths)) < len(paths):
        raise InvalidParameterError("Two choices are the same to this model; make them differ in more than spaces.")
    is_listed = any(PLACEHOLDER in message.content for message in command.messages)
    if command.shuffles and not is_listed:
        raise InvalidParameterError(f"To shuffle the choices, say where they are listed with {PLACEHOLDER}.")
    num_orders = min(len(choices), MAX_ORDERS) if command.shuffles else 1
    prompts = []
    for first in range(num_orders):  # rotations: each choice comes to each place equally often
        start = first * len(choices) // num_orders
        listed = (*choices[start:], *choices[:start])
        for messages, is_content_free in ((command.messages, False), (command.content_free, True)):
            if messages:
                token_ids = _prompt(model, messages, listed)
                prompts.append(PreparedPrompt(token_ids, paths, is_content_free))
    return prompts


def _prompt(model: LoadedModel, messages: tuple[Message, ...], listed: tuple[str, ...]) -> list[int]:
    text = ", ".join(listed)
    filled = [replace(message, content=message.content.replace(PLACEHOLDER, text)) for message in messages]
    return model.tokenizer.encode_prompt(model.template.render(filled).segments)


class Decider:
    """Runs decisions as sequences of one engine; ``on_decided`` and ``on_failed`` get the end of each."""

    def __init__(
        self,
        engine: Engine,
        on_decided: Callable[[str, Decision], None],
        on_failed: Callable[[str, BaseException], None],
    ) -> None:
        self._engine = engine
        self._on_decided = on_decided
        self._on_failed = on_failed
        self._works: dict[str, _Work] = {}
        self._by_sequence: dict[str, _Work] = {}

    def begin(self, command: Decide, prompts: list[PreparedPrompt], end_token_ids: frozenset[int]) -> None:
        """Read the prompts of a decision."""
        work = self._works[command.request_id] = _Work(command, end_token_ids)
        for prompt in prompts:
            reading = _Reading(prompt, LabelTrie(prompt.paths, end_token_ids))
            work.readings.append(reading)
            self._queue(work, reading, ())

    def has(self, request_id: str) -> bool:
        """Whether a decision of that name is in work."""
        return request_id in self._works

    def take(self, sequence: Sequence, error: BaseException | None) -> bool:
        """Take up what a step brought a sequence; False where it is none of a decision's."""
        work = self._by_sequence.get(sequence.request_id)
        if work is None:
            return False
        try:
            if error is not None:
                self.fail(work.command.request_id, error)
            elif sequence.finish_reason is not None:
                self._finished(work, sequence)
        except Exception as failure:  # a defect of our own ends the decision, and nothing else
            _log.exception("a decision failed")
            self.fail(work.command.request_id, failure)
        return True

    def fail(self, request_id: str, error: BaseException) -> None:
        """End a decision with an error; nothing happens where it has ended."""
        work = self._works.pop(request_id, None)
        if work is not None:
            for name, (_, sequence) in work.sequences.items():
                del self._by_sequence[name]
                self._engine.finish(sequence, FinishReason.ABORTED)
            self._on_failed(request_id, error)

    def fail_all(self, error: BaseException) -> None:
        """End all decisions with an error."""
        for request_id in list(self._works):
            self.fail(request_id, error)

    def _queue(self, work: _Work, reading: _Reading, path: Path) -> None:
        """Compute the logits after the prompt and ``path``; the one token that is generated is not used."""
        name = f"{work.command.request_id}\0{len(self._by_sequence)}\0{id(reading)}\0{path}"
        token_ids = [*reading.prompt.token_ids, *path]
        sampler = Sampler(SamplingParams(temperature=0))
        sequence = Sequence(name, token_ids, sampler, 1, work.end_token_ids)
        sequence.probe = LabelProbe(reading.trie, len(reading.prompt.token_ids), path)
        work.sequences[name] = (reading, sequence)
        self._by_sequence[name] = work
        reading.num_left += 1
        try:
            self._engine.add(sequence)
        except EngineError as error:
            self.fail(work.command.request_id, error)

    def _finished(self, work: _Work, sequence: Sequence) -> None:
        reading, _ = work.sequences.pop(sequence.request_id)
        del self._by_sequence[sequence.request_id]
        reading.num_left -= 1
        if sequence.num_prompt_tokens == len(reading.prompt.token_ids):
            for leaf in reading.trie.leaves:
                if work.command.request_id in self._works:
                    self._queue(work, reading, leaf)
            return
        if any(other.num_left for other in work.readings):
            return
        command = work.command
        asked = [r.trie.logprobs() for r in work.readings if not r.prompt.is_content_free]
        empty = [r.trie.logprobs() for r in work.readings if r.prompt.is_content_free]
        decision = combine(command.choices, asked, empty, command.calibration)
        del self._works[command.request_id]
        self._on_decided(command.request_id, decision)
