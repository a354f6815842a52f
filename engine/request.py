"""The text side of a request: messages to prompt tokens before it runs, tokens to events while it runs.

Tokens pass the detokenizer (whole characters only), the stop strings and the channel splitter, in this order, and
leave as ``Delta`` events. It holds the request's clock, too. It does not know threads, scheduling or the KV cache.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from engine.conversations import Reuse
from engine.errors import InvalidParameterError
from engine.prompt import encode, make_fitting_prompt, make_prompt
from engine.protocol import (
    Channel,
    ContextPolicy,
    ContextShifted,
    Delta,
    Event,
    FinishReason,
    GenerateRequest,
    Notice,
    Priority,
    PromptProgress,
    RequestFinished,
    RequestStarted,
    RequestStats,
    RereadReason,
    ResponseFormat,
    Role,
    StructuredResult,
    TokenAlternatives,
    TokenProbability,
    ToolCall,
    ToolCalled,
)
from engine.sampling.sampler import Sampler
from engine.sampling.stop import StopStrings
from engine.scheduler.sequence import Sequence

if TYPE_CHECKING:
    from engine.decoding import Ranking
    from engine.grammar.structured_answer import StructuredAnswer
    from engine.loader import LoadedModel


MAX_LOGPROBS = 100
NO_MODEL = "No model is loaded; choose one first."


class TextStream(Protocol):
    """Tokens to text, never half a character; ``text_of`` gives one token's text, whatever stands around it."""

    def push(self, token_id: int, /) -> str: ...
    def text_of(self, token_id: int, /) -> str: ...
    def flush(self) -> str: ...


class ChannelStream(Protocol):
    """Text to pieces of channels, and to the calls that became complete with them."""

    def push(self, text: str, /) -> list[tuple[Channel, str]]: ...
    def flush(self) -> list[tuple[Channel, str]]: ...
    def take_calls(self) -> list[ToolCall]: ...


class _OneChannel:
    """The channels of a raw prompt's continuation: all of it is the answer."""

    def push(self, text: str) -> list[tuple[Channel, str]]:
        return [(Channel.ANSWER, text)]

    def flush(self) -> list[tuple[Channel, str]]:
        return []

    def take_calls(self) -> list[ToolCall]:
        return []


@dataclass
class _Clock:
    """Times of a request, ``time.perf_counter`` seconds."""

    submitted_s: float
    admitted_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None


@dataclass(frozen=True)
class Prepared:
    """What ``Request.prepare`` made of the messages: tokens, the way back to text, and what did not fit."""

    sequence: Sequence
    text: TextStream
    channels: ChannelStream
    notices: tuple[str, ...]
    context_length: int
    dropped: range = range(0)
    opens_reasoning: bool = False
    form: StructuredAnswer | None = None


class Request:
    """A ``GenerateRequest`` in work.

    Attributes:
        request_id: of the command.
        sequence: its tokens in the engine; None until ``begin``.
        num_completion_tokens: tokens taken up so far, an end token included.
        conversation_id: that it belongs to; empty for none, or for one that was deleted meanwhile.
        reuse: what of its prompt was not read, known once it has started.
        has_format: the answer must have a form, so that preparing may take longer.
    """

    def __init__(self, command: GenerateRequest, submitted_s: float) -> None:
        self.request_id = command.request_id
        self.sequence: Sequence | None = None
        self.num_completion_tokens = 0
        self.conversation_id = command.conversation_id
        self.reuse = Reuse()
        self.has_format = command.response_format is not None
        self._command = command
        self._priority = command.priority
        self._form: StructuredAnswer | None = None
        self._clock = _Clock(submitted_s)
        self._dropped = range(0)
        self._num_read_in_full: int | None = None  # tokens read before the context shifted in mid-answer
        self._context_length = 0
        self._text: TextStream | None = None
        self._channels: ChannelStream | None = None
        self._stop = StopStrings(command.stop)
        self._sampler = Sampler(command.sampling)
        if command.max_tokens < 0:
            raise InvalidParameterError("max_tokens cannot be negative; 0 means up to the end of the context.")
        if not 0 <= command.logprobs <= MAX_LOGPROBS:
            raise InvalidParameterError(f"logprobs is {command.logprobs}, but it must be 0 to {MAX_LOGPROBS}.")
        if (command.prompt is None) == (not command.messages):
            raise InvalidParameterError("A request has either messages or a prompt.")

    def prepare(self, model: LoadedModel) -> Prepared:
        """Render and tokenize the prompt and make the sequence; changes nothing, so that any thread may do it.

        Raises TemplateError where no template can render the messages, ContextOverflowError where they leave no
        room for an answer, GrammarError where the form of the answer cannot be honoured.
        """
        wanted = self._command.response_format
        if wanted is not None:
            model.grammars.prepare()  # beside what comes first
        prepared = self._prepare_text(model)
        return prepared if wanted is None else self._with_form(model, prepared, wanted)

    def _prepare_text(self, model: LoadedModel) -> Prepared:
        if self._command.prompt is not None:
            token_ids = encode(model, [(self._command.prompt, True)])
            return self._prepared(model, token_ids, _OneChannel(), continues_text=True)
        messages = self._command.messages
        tools = self._command.tools
        prompt = make_fitting_prompt(model, messages, self._command.context_policy, tools)
        channels = model.template.new_splitter(prompt.rendered, tools)
        continues = messages[-1].role is Role.ASSISTANT
        prepared = self._prepared(model, prompt.token_ids, channels, continues, prompt.rendered.notices)
        return replace(prepared, dropped=prompt.dropped, opens_reasoning=prompt.rendered.opens_reasoning)

    @property
    def can_shift(self) -> bool:
        """Whether an answer that fills the context may go on without the oldest turns; one with a form does not."""
        command = self._command
        keeps_recent = command.context_policy is ContextPolicy.KEEP_RECENT
        return keeps_recent and bool(command.messages) and command.response_format is None

    def prepare_shift(self, model: LoadedModel) -> Prepared | None:
        """What goes on after the context is full, without the oldest turns; None where none can leave.

        Changes nothing, so that any thread may do it.
        """
        full = self.sequence
        assert full is not None, "begun"
        assert self._text is not None, "begun"
        assert self._channels is not None, "begun"
        completion = full.token_ids[full.num_prompt_tokens :]
        messages, tools = self._command.messages, self._command.tools
        prompt = make_prompt(model, messages, ContextPolicy.KEEP_RECENT, tools, len(completion))
        room = model.info.context_length - len(prompt.token_ids) - len(completion)
        if len(prompt.dropped) <= len(self._dropped) or room <= 0:
            return None
        sequence = Sequence(
            self.request_id, prompt.token_ids, full.sampler, full.max_tokens, full.end_token_ids, full.constraint
        )
        sequence.continue_from(full)
        return Prepared(sequence, self._text, self._channels, (), model.info.context_length, prompt.dropped)

    def _with_form(self, model: LoadedModel, prepared: Prepared, wanted: ResponseFormat) -> Prepared:
        """What was prepared, its sequence bound to the form of the answer."""
        from engine.grammar.answer_gate import AnswerGate
        from engine.grammar.certainty import CertaintyTrace
        from engine.grammar.structured_answer import StructuredAnswer

        tokenizer, template, messages = model.tokenizer, model.template, self._command.messages
        grammar = model.grammars.grammar(wanted)
        written = messages[-1].content if messages and messages[-1].role is Role.ASSISTANT else ""
        gate = None
        if messages and not written:
            gate = AnswerGate(
                template.channels,
                template.source,
                prepared.opens_reasoning,
                tokenizer.token_id,
                tokenizer.token_bytes,
            )
        sequence = prepared.sequence
        if self._command.certainty:
            sequence.probe = trace = CertaintyTrace(sequence.num_prompt_tokens, tokenizer.token_bytes)
        else:
            trace = None
        sequence.constraint = constraint = model.grammars.constraint(grammar, gate, trace, written)
        form = StructuredAnswer(grammar, constraint, trace, written, tokenizer.token_bytes)
        return replace(prepared, form=form, notices=(*prepared.notices, *grammar.notices))

    def _prepared(
        self,
        model: LoadedModel,
        token_ids: list[int],
        channels: ChannelStream,
        continues_text: bool,
        notices: tuple[str, ...] = (),
    ) -> Prepared:
        max_tokens = self._command.max_tokens or model.info.context_length
        end_token_ids = model.tokenizer.end_token_ids
        sequence = Sequence(self.request_id, token_ids, self._sampler, max_tokens, end_token_ids)
        sequence.num_logprobs = self._command.logprobs
        text = model.new_text_stream(continues_text)
        return Prepared(sequence, text, channels, notices, model.info.context_length)

    def begin(self, prepared: Prepared) -> list[Event]:
        """Take over what was prepared; returns its notices, and what has left the context."""
        if self.sequence is not None and self._num_read_in_full is None:
            self._num_read_in_full = self.sequence.num_read_tokens
        self.sequence, self._text, self._channels = prepared.sequence, prepared.text, prepared.channels
        self.sequence.priority = self._priority
        self._form = prepared.form
        self._dropped, self._context_length = prepared.dropped, prepared.context_length
        events: list[Event] = [Notice(notice, self.request_id) for notice in prepared.notices]
        if prepared.dropped and self.sequence.num_tokens < self._context_length:
            num_tokens, dropped = self.sequence.num_prompt_tokens, tuple(prepared.dropped)
            events.append(ContextShifted(self.request_id, dropped, num_tokens, self._context_length))
        return events

    @property
    def num_dropped(self) -> int:
        """Messages that have left the context."""
        return len(self._dropped)

    def set_priority(self, priority: Priority) -> None:
        """Change whose turn it is, also while it runs."""
        self._priority = priority
        if self.sequence is not None:
            self.sequence.priority = priority

    def started(self) -> RequestStarted:
        """The event for when the sequence got room in the KV cache."""
        assert self.sequence is not None, "begun"
        self._clock.admitted_s = time.perf_counter()
        return RequestStarted(
            self.request_id, self.sequence.num_prompt_tokens, self.sequence.num_reused_tokens or 0
        )

    def progress(self) -> PromptProgress:
        """The event for a share of the prompt that was read."""
        assert self.sequence is not None, "begun"
        num_computed = min(self.sequence.num_computed_tokens, self.sequence.num_prompt_tokens)
        return PromptProgress(self.request_id, num_computed, self.sequence.num_prompt_tokens)

    def push(self, token_id: int, ranking: Ranking | None = None) -> tuple[list[Event], bool]:
        """Take up a new token; returns its events, and whether a stop string ends the answer here.

        ``ranking`` is the engine's where alternatives were asked for.
        """
        assert self.sequence is not None, "begun"
        assert self._text is not None, "begun"
        self.num_completion_tokens += 1
        clock = self._clock
        clock.last_token_s = time.perf_counter()
        clock.first_token_s = clock.first_token_s or clock.last_token_s
        events: list[Event] = [self._alternatives(token_id, ranking)] if self._command.logprobs else []
        if token_id in self.sequence.end_token_ids:
            return events, False
        shown, is_stopped = self._stop.push(self._text.push(token_id))
        return events + self._deltas(shown), is_stopped

    def flush(self) -> list[Event]:
        """Deltas of the text that was held back, for when no more tokens come."""
        if self._text is None or self._channels is None:
            return []
        shown, _ = self._stop.push(self._text.flush())
        events = self._deltas(shown + self._stop.flush())
        return events + self._split(self._channels.flush())

    def finished(self, reason: FinishReason) -> RequestFinished:
        """The last event of a request that ran, or that was stopped before it did."""
        return RequestFinished(self.request_id, reason, self._stats(), self._structured(reason))

    def _structured(self, reason: FinishReason) -> StructuredResult | None:
        """Whether the answer has its form, where one was asked for."""
        if self._form is None or self.sequence is None:
            return None
        completion = self.sequence.token_ids[self.sequence.num_prompt_tokens :]
        return self._form.result(completion, reason is FinishReason.STOP, self.sequence.end_token_ids)

    def _deltas(self, text: str) -> list[Event]:
        assert self._channels is not None, "begun"
        if not text:
            return []
        return self._split(self._channels.push(text))

    def _split(self, pieces: list[tuple[Channel, str]]) -> list[Event]:
        """Deltas of pieces of text, and the calls that they completed."""
        assert self._channels is not None, "begun"
        name, num_tokens = self.request_id, self.num_completion_tokens
        events: list[Event] = [Delta(name, channel, text, num_tokens) for channel, text in pieces if text]
        events += [ToolCalled(name, call) for call in self._channels.take_calls()]
        return events

    def _alternatives(self, token_id: int, ranking: Ranking | None) -> TokenAlternatives:
        assert self._text is not None, "begun"
        text_of = self._text.text_of
        probabilities = [TokenProbability(t.token_id, text_of(t.token_id), t.logprob) for t in ranking or ()]
        chosen = next((token for token in probabilities if token.token_id == token_id), None)
        return TokenAlternatives(
            self.request_id,
            self.num_completion_tokens,
            token_id,
            text_of(token_id),
            chosen,
            tuple(probabilities[: self._command.logprobs]),
        )

    def _stats(self) -> RequestStats:
        clock, sequence = self._clock, self.sequence
        now = time.perf_counter()
        num_read = sequence.num_read_tokens if sequence else 0
        num_reread, reason = min(self.reuse.num_reread_tokens, num_read), self.reuse.reason
        if self._num_read_in_full is not None:
            num_reread, reason = num_reread + num_read - self._num_read_in_full, RereadReason.CONTEXT_SHIFTED
        num_completion = self.num_completion_tokens
        first = clock.first_token_s
        generation_s = (clock.last_token_s or 0.0) - first if first is not None else 0.0
        return RequestStats(
            num_prompt_tokens=sequence.num_prompt_tokens if sequence else 0,
            # A prompt that has become shorter since cannot have been reused beyond its end.
            num_reused_tokens=min(sequence.num_reused_tokens or 0, sequence.num_prompt_tokens) if sequence else 0,
            num_completion_tokens=num_completion,
            prompt_ms=1e3 * ((first or now) - clock.admitted_s) if clock.admitted_s is not None else 0.0,
            first_token_ms=1e3 * (first - clock.submitted_s) if first is not None else 0.0,
            generation_ms=1e3 * generation_s,
            # The first token belongs to the prompt's time, so n tokens are n - 1 intervals.
            tokens_per_second=(num_completion - 1) / generation_s if generation_s > 0 else 0.0,
            seed=self._sampler.seed,
            num_snapshot_tokens=self.reuse.num_snapshot_tokens,
            reread_reason=reason,
            num_reread_tokens=num_reread,
            num_read_tokens=num_read,
            num_forced_tokens=sequence.num_forced_tokens if sequence else 0,
            num_proposed_tokens=sequence.num_proposed_tokens if sequence else 0,
            num_accepted_tokens=sequence.num_accepted_tokens if sequence else 0,
            context_length=self._context_length,
        )
