"""``chat``: a conversation at the prompt, or one message a line from a pipe."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import sys
from collections.abc import Sequence

from engine.errors import EngineError
from engine.protocol import (
    ContextPolicy,
    FinishReason,
    GenerateRequest,
    Message,
    ModelInfo,
    RequestFailed,
    Role,
    ToolCall,
)
from engine.terminal.arguments import MAX_TEXT_LENGTH, config_of, sampling_of, tools_of
from engine.terminal.generate import stream, summary
from engine.terminal.models import find_model
from engine.terminal.output import Output
from engine.terminal.session import Session

WHEN_FULL = {"go-on": ContextPolicy.KEEP_RECENT, "stop": ContextPolicy.STOP}
HELP = """\
/reset  begin anew, keeping the system prompt
/exit   leave (also Ctrl+D)
/help   this list
Ctrl+C  stop the answer; once more to leave"""


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Read messages and answer them until the end of input."""
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):  # not on Windows, where the console edits lines itself
            importlib.import_module("readline")
    with Session(find_model(arguments.model), config_of(arguments), output) as session:
        output.text(_greeting(session.info))
        return _Chat(arguments, session, output).run()


class _Chat:
    """The messages so far, and the loop around them."""

    def __init__(self, arguments: argparse.Namespace, session: Session, output: Output) -> None:
        self._session = session
        self._output = output
        self._sampling = sampling_of(arguments)
        self._max_tokens = arguments.max_tokens
        self._stop = tuple(arguments.stop)
        self._tools = tools_of(arguments)
        self._policy = WHEN_FULL[arguments.when_full]
        self._system = [Message(Role.SYSTEM, arguments.system)] if arguments.system else []
        self._messages = list(self._system)
        self._numbers = itertools.count(1)
        self._is_interactive = sys.stdin.isatty() and not output.is_json

    def run(self) -> int:
        is_leaving = False
        num_failures = 0
        while True:
            try:
                line = self._read()
            except KeyboardInterrupt:
                if is_leaving:
                    return 130
                is_leaving = True
                self._output.text("\nOnce more, or /exit, to leave.")
                continue
            except EngineError as error:
                self._output.error(str(error))
                num_failures += 1
                continue
            is_leaving = False
            if line is None or line.strip() in ("/exit", "/quit"):
                return 1 if num_failures and not self._is_interactive else 0
            if line.strip() == "/help":
                self._output.text(HELP)
            elif line.strip() == "/reset":
                self._messages = list(self._system)
                self._output.text("The chat begins anew.")
            elif line.strip():
                try:
                    num_failures += not self._answer(line)
                except KeyboardInterrupt:
                    return 130

    def _answer(self, text: str) -> bool:
        """Answer one message; False when that failed, and then the message is taken back."""
        self._messages.append(Message(Role.USER, text))
        return self._answer_messages(len(self._messages) - 1)

    def _answer_messages(self, num_kept: int) -> bool:
        """Answer the messages so far; where that fails only the first ``num_kept`` stay."""
        request = GenerateRequest(
            f"turn-{next(self._numbers)}",
            messages=tuple(self._messages),
            sampling=self._sampling,
            max_tokens=self._max_tokens,
            stop=self._stop,
            tools=self._tools,
            context_policy=self._policy,
        )
        answer = stream(self._session, request, self._output, is_lines=True)
        if isinstance(answer, RequestFailed):
            del self._messages[num_kept:]
            self._output.error(answer.message)
            return False
        self._messages.append(Message(Role.ASSISTANT, answer.text, answer.reasoning, tuple(answer.calls)))
        self._output.text("")
        if self._is_interactive:
            self._output.note(summary(answer.end.stats))
        if answer.end.reason is FinishReason.CONTEXT:
            self._output.note("The context is full; /reset begins anew.")
        if answer.calls and answer.end.reason is not FinishReason.ABORTED:
            return self._take_results(answer.calls, num_kept)
        return True

    def _take_results(self, calls: Sequence[ToolCall], num_kept: int) -> bool:
        """Read what the called functions gave, a line each, and go on with it; the end of input leaves it open."""
        for call in calls:
            try:
                result = self._read(f"result of {call.name}> ")
            except EngineError as error:
                del self._messages[num_kept:]
                self._output.error(str(error))
                return False
            if result is None:
                return True
            self._messages.append(Message(Role.TOOL, result, name=call.name, call_id=call.call_id))
        return self._answer_messages(num_kept)

    def _read(self, prompt: str = "> ") -> str | None:
        """The next line; None at the end of input. Raises EngineError for one that is too long, and passes it."""
        if self._is_interactive:
            try:
                return input(prompt)
            except EOFError:
                self._output.text("")
                return None
        line = sys.stdin.readline(MAX_TEXT_LENGTH + 1)
        if len(line) > MAX_TEXT_LENGTH and not line.endswith("\n"):
            while line and not line.endswith("\n"):
                line = sys.stdin.readline(MAX_TEXT_LENGTH)
            raise EngineError(f"A line is longer than {MAX_TEXT_LENGTH:,} characters; send a part of it.")
        return line.removesuffix("\n") if line else None


def _greeting(info: ModelInfo) -> str:
    return (
        f"{info.name} ({info.architecture}, {info.tensor_type}, {info.num_parameters / 1e6:,.0f} million "
        f"parameters), context of {info.context_length:,} tokens. /help lists the commands."
    )
