"""``generate``: one answer to one prompt."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from engine.protocol import (
    Channel,
    ContextShifted,
    Delta,
    FinishReason,
    GenerateRequest,
    Message,
    Notice,
    PromptProgress,
    RequestFailed,
    RequestFinished,
    RequestStats,
    Role,
    ToolCall,
    ToolCalled,
)
from engine.terminal.answer_form import form_of, report
from engine.terminal.arguments import config_of, read_text, sampling_of, tools_of
from engine.terminal.models import find_model
from engine.terminal.output import Output
from engine.terminal.session import GIVE_CONTEXT, Session, failure_of

REQUEST_ID = "generate"


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Generate, streaming to the screen, or one document with ``--json``."""
    request = _request(arguments, read_text(arguments.prompt))
    with Session(find_model(arguments.model), config_of(arguments), output) as session:
        answer = stream(session, request, output)
        if isinstance(answer, RequestFailed):
            output.error(failure_of(answer, "The prompt needs", GIVE_CONTEXT))
            return 1
        output.text("")
        output.note(summary(answer.end.stats))
        structured = answer.end.structured
        is_valid = structured is None or report(structured, answer.end.stats.num_completion_tokens, output)
        output.json(
            {
                "model": session.info.name,
                "text": answer.text,
                "reasoning": answer.reasoning,
                "tool_calls": answer.calls,
                "finish_reason": answer.end.reason,
                "stats": answer.end.stats,
                "notices": answer.notices,
                **({"structured": structured} if structured is not None else {}),
            }
        )
    return 130 if answer.end.reason is FinishReason.ABORTED else 0 if is_valid else 1


class Answer:
    """An answer as it came in."""

    def __init__(self) -> None:
        self.text = ""
        self.reasoning = ""
        self.calls: list[ToolCall] = []
        self.is_calling = False
        self.notices: list[str] = []
        self.end: RequestFinished


def stream(
    session: Session, request: GenerateRequest, output: Output, is_lines: bool = False
) -> Answer | RequestFailed:
    """Run ``request`` and print its answer as it comes; returns it, or how it failed.

    Ctrl+C stops the answer and keeps what came; a second one raises KeyboardInterrupt. ``is_lines`` gives each
    event as a line of JSON.
    """
    answer = Answer()
    with _interrupts(lambda: session.abort(request.request_id)):
        for event in session.generate(request):
            if is_lines:
                output.json({"event": type(event).__name__, **vars(event)})
            if isinstance(event, PromptProgress):
                output.progress(f"Reading ... {event.num_computed_tokens:,} of {event.num_prompt_tokens:,} tokens")
                continue
            output.end_progress()
            if isinstance(event, Delta):
                _show(event, answer, output)
            elif isinstance(event, ToolCalled):
                answer.calls.append(event.call)
                output.text(f"[calls {event.call.name} {event.call.arguments}]")
            elif isinstance(event, ContextShifted):
                count = len(event.dropped_messages)
                output.note(f"The context is full: the model no longer reads {count} of the oldest messages.")
            elif isinstance(event, Notice):
                output.note(event.message)
                answer.notices.append(event.message)
            elif isinstance(event, RequestFinished):
                answer.end = event
            elif isinstance(event, RequestFailed):
                return event
    return answer


@contextlib.contextmanager
def _interrupts(first: Callable[[], None]) -> Iterator[None]:
    """Within it the first Ctrl+C calls ``first`` instead of raising: an exception could lose an event."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, previous)
        first()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def summary(stats: RequestStats) -> str:
    """One line about an answer."""
    reused = f" ({stats.num_reused_tokens:,} reused)" if stats.num_reused_tokens else ""
    return (
        f"[{stats.num_prompt_tokens:,} prompt tokens{reused}, {stats.num_completion_tokens:,} new, "
        f"{stats.tokens_per_second:.1f} tokens/s, first after {stats.first_token_ms:.0f} ms, seed {stats.seed}]"
    )


def _request(arguments: argparse.Namespace, prompt: str) -> GenerateRequest:
    options = {
        "sampling": sampling_of(arguments),
        "max_tokens": arguments.max_tokens,
        "stop": tuple(arguments.stop),
        "tools": tools_of(arguments),
        "response_format": form_of(arguments),
        "certainty": arguments.certainty,
    }
    if arguments.raw:
        return GenerateRequest(REQUEST_ID, prompt=prompt, **options)
    system = (Message(Role.SYSTEM, arguments.system),) if arguments.system else ()
    return GenerateRequest(REQUEST_ID, messages=(*system, Message(Role.USER, prompt)), **options)


def _show(delta: Delta, answer: Answer, output: Output) -> None:
    if delta.channel is Channel.REASONING:
        answer.reasoning += delta.text
        output.text(delta.text, end="")
        return
    if delta.channel is Channel.TOOL_CALL:  # shown as a whole, see ``stream``
        if answer.text and not answer.is_calling:
            output.text("")
        answer.is_calling = True
        return
    if answer.reasoning and not answer.text:
        output.text("\n")
    answer.text += delta.text
    output.text(delta.text, end="")
