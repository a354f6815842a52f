"""Which rows to ask about next, and what the engine's events say of them. Knows no thread: who drives it has one.

Several rows are asked about at once, so that each pass over the weights serves all of them; what the rows have in
common stands first in each prompt, so that the engine reads it once.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.extraction.answers import parse_answer
from engine.extraction.journal import Journal, RowResult
from engine.extraction.sources import Source
from engine.protocol import (
    Channel,
    Delta,
    Event,
    FinishReason,
    FormatKind,
    GenerateRequest,
    Message,
    Priority,
    RequestFailed,
    RequestFinished,
    ResponseFormat,
    Role,
    SamplingParams,
)

PARALLEL_ROWS = 8
MAX_ANSWER_TOKENS = 2048
_MAX_SHOWN_SCHEMA = 6000  # characters; the answer follows a longer one all the same
_RATE_ROWS = 24  # the last rows that the rate is taken from


@dataclass
class _Asked:
    row: int
    pieces: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        num_rows: of the source.
        num_done: with an answer.
        num_failed: with an error.
        rows_per_minute: lately; 0 while it is not known.
        seconds_left: 0 while it is not known.
        num_prefix_tokens: that all rows share and that were read once; 0 while it is not known.
        forced_share: of the answers' tokens that the schema left no choice about.
    """

    num_rows: int
    num_done: int
    num_failed: int
    rows_per_minute: float = 0.0
    seconds_left: float = 0.0
    num_prefix_tokens: int = 0
    forced_share: float = 0.0


class ExtractionRun:
    """One pass over the rows that have no result yet."""

    def __init__(
        self,
        source: Source,
        journal: Journal,
        parallel: int = PARALLEL_ROWS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._journal = journal
        self._parallel = parallel
        self._clock = clock
        self._prefix = shared_prompt(journal.task.instruction, journal.task.schema)
        self._asked: dict[str, _Asked] = {}
        self._open = deque(row for row in range(len(source.rows)) if row not in journal.results)
        self._times: deque[float] = deque(maxlen=_RATE_ROWS + 1)
        self._num_tokens = self._num_forced = self._num_prefix_tokens = 0
        self.is_paused = False

    @property
    def is_finished(self) -> bool:
        """Every row has a result."""
        return not self._open and not self._asked

    @property
    def running_ids(self) -> list[str]:
        """Ids of the requests that the engine has."""
        return list(self._asked)

    @property
    def running_rows(self) -> set[int]:
        """Rows that the engine is asked about now."""
        return {asked.row for asked in self._asked.values()}

    @property
    def progress(self) -> Progress:
        """How far it is."""
        results = self._journal.results.values()
        num_failed = sum(bool(result.error) for result in results)
        rate = self._rate()
        left = len(self._open) + len(self._asked)
        return Progress(
            len(self._source.rows),
            len(self._journal.results) - num_failed,
            num_failed,
            rate * 60,
            left / rate if rate > 0 else 0.0,
            self._num_prefix_tokens,
            self._num_forced / self._num_tokens if self._num_tokens else 0.0,
        )

    def next_requests(self) -> list[GenerateRequest]:
        """Requests to give to the engine now; rows that cannot be asked about get their result at once.

        Raises InputError when a result cannot be kept.
        """
        requests: list[GenerateRequest] = []
        while self._open and not self.is_paused and len(self._asked) < self._parallel:
            row = self._open.popleft()
            if problem := self._source.rows[row].problem:
                self._journal.add(RowResult(row, error=problem))
                continue
            request = self._request(row)
            self._asked[request.request_id] = _Asked(row)
            requests.append(request)
        if requests and not self._times:
            self._times.append(self._clock())
        return requests

    def on_event(self, event: Event) -> RowResult | None:
        """Take up an event; the row's result when it is known now. Raises InputError when it cannot be kept."""
        if not isinstance(event, Delta | RequestFinished | RequestFailed):
            return None
        asked = self._asked.get(event.request_id)
        if asked is None:
            return None
        if isinstance(event, Delta):
            if event.channel is Channel.ANSWER:
                asked.pieces.append(event.text)
            return None
        del self._asked[event.request_id]
        result = self._result(asked, event)
        if result is None:
            self._open.appendleft(asked.row)
            return None
        self._times.append(self._clock())
        self._journal.add(result)
        return result

    def retry(self, row: int) -> None:
        """Ask about a row again; raises InputError when that cannot be kept."""
        if row not in self.running_rows and row not in self._open:
            self._journal.forget(row)
            self._open.append(row)

    def pause(self) -> None:
        """Ask about no further rows; abort ``running_ids`` to stop at once, their rows are asked about again."""
        self.is_paused = True

    def resume(self) -> None:
        """Go on."""
        self.is_paused = False
        self._open = deque(sorted(self._open))
        self._times.clear()

    def _request(self, row: int) -> GenerateRequest:
        task = self._journal.task
        return GenerateRequest(
            f"row-{row}-{uuid.uuid4().hex}",
            (Message(Role.USER, self._prefix + self._source.rows[row].text(task.columns)),),
            sampling=SamplingParams(temperature=0.0),
            max_tokens=MAX_ANSWER_TOKENS,
            response_format=ResponseFormat(FormatKind.JSON_SCHEMA, task.schema, task.check_afterwards),
            certainty=True,
            priority=Priority.BACKGROUND,  # who chats meanwhile does not wait for rows
        )

    def _result(self, asked: _Asked, event: RequestFinished | RequestFailed) -> RowResult | None:
        """The row's result; None when it was stopped and is to be asked about again."""
        if isinstance(event, RequestFailed):
            return RowResult(asked.row, error=_problem_of(event))
        if event.reason is FinishReason.ABORTED:
            return None
        structured = event.structured
        self._num_tokens += event.stats.num_completion_tokens
        if event.stats.num_reused_tokens:
            self._num_prefix_tokens = event.stats.num_reused_tokens
        if structured is not None:
            self._num_forced += structured.num_forced_tokens
            if not structured.is_valid:
                return RowResult(asked.row, error=structured.message)
        try:
            value = parse_answer("".join(asked.pieces))
        except json.JSONDecodeError:
            return RowResult(asked.row, error="The answer is no JSON.")
        except ValueError as error:
            return RowResult(asked.row, error=f"The answer cannot be kept: {error}.")
        fields = structured.fields if structured is not None else ()
        return RowResult(asked.row, value, {certain.path: certain.probability for certain in fields})

    def _rate(self) -> float:
        """Rows a second, lately."""
        if len(self._times) < 2:
            return 0.0
        spent = self._times[-1] - self._times[0]
        return (len(self._times) - 1) / spent if spent > 0 else 0.0


def _problem_of(event: RequestFailed) -> str:
    overflow, problem = event.overflow, event.message
    if overflow is not None:  # it is no conversation that could go on elsewhere
        problem = (
            f"This row needs {overflow.count} tokens with its schema but the context holds "
            f"{overflow.context_length:,}; shorten its text, or load the model with a larger context."
        )
    return problem


def shared_prompt(instruction: str, schema: str) -> str:
    """What stands before every row's own text: what to do, and the schema with its descriptions."""
    words = instruction.strip() or "Extract the data from this text."
    try:
        compact = json.dumps(json.loads(schema), ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        compact = schema
    form = f"\n\nAnswer with JSON of this form: {compact}" if len(compact) <= _MAX_SHOWN_SCHEMA else ""
    return f"{words}{form}\n\nText:\n"
