"""The commands and their arguments; every failure becomes one sentence and exit code 1."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from engine.bench import chat_command as chat_bench
from engine.bench import command as bench
from engine.bench import json_command as bench_json
from engine.errors import EngineError
from engine.terminal import chat, decide, extract, generate, inspection, library, score
from engine.terminal.answer_form import add_form
from engine.terminal.arguments import add_engine, add_model, add_sampling, add_tools
from engine.terminal.output import Output

Command = Callable[[argparse.Namespace, Output], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (1: an error, 2: wrong usage, 130: interrupted)."""
    _open_closed_streams()
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "replace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)
    arguments = _parser().parse_args(argv)
    output = Output(arguments.json)
    command: Command = arguments.command
    try:
        return command(arguments, output)
    except EngineError as error:
        output.error(str(error))
        return 1
    except BrokenPipeError:  # the reader has left, and so do we
        _discard_output()
        return 1
    except OSError as error:  # the output's disk is full, most likely
        _discard_output()
        output.note(f"The work ended because the system refused it: {error.strerror or error}.")
        return 1
    except KeyboardInterrupt as interrupt:
        with contextlib.suppress(OSError):  # the terminal may be gone
            output.note("Interrupted.")
        return getattr(interrupt, "exit_code", 130)


def _open_closed_streams() -> None:
    """Put the null device in place of the streams that the caller closed, which Python shows as None."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _discard_output() -> None:
    """Send what is still in stdout's buffer nowhere, so that there is no second error at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Says which commands there are where none is named."""

    def error(self, message: str) -> NoReturn:
        if message.endswith(": COMMAND"):
            self.print_help(sys.stderr)
            self.exit(2, f"\n{self.prog}: name one of the commands.\n")
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="python -m engine", description="Language models on this machine, from the terminal."
    )
    _add_commands(parser)
    return parser


def _add_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_chat(commands)
    _add_generate(commands)
    extract.add_arguments(_add(commands, "extract", extract.run, "a table of values from many texts, by a schema"))
    decide.add_arguments(_add(commands, "decide", decide.run, "how likely each of some answers is"))
    _add_tokenize(commands)
    _add_inspect(commands)
    _add_score(commands)
    models = commands.add_parser(
        "models", help="find, download and list models", description="Find and keep models."
    )
    library.add_arguments(models)
    bench.add_arguments(_add(commands, "bench", bench.run, "speed, start and memory, beside a peer's"))
    bench_json.add_arguments(_add(commands, "bench-json", bench_json.run, "structured answers, beside a peer's"))
    text = "what turns, edits, branches and pastes of a chat cost, beside a peer's"
    chat_bench.add_arguments(_add(commands, "bench-chat", chat_bench.run, text))


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, command: Command, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(command=command)
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="results as JSON on stdout")
    return parser


def _add_chat(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "chat", chat.run, "a conversation; from a pipe, one message a line")
    parser.add_argument(
        "--when-full",
        choices=(*chat.WHEN_FULL,),
        default="go-on",
        help="when the context is full: go on without the oldest turns, or stop and say so",
    )
    add_tools(parser)
    add_sampling(parser)
    add_engine(parser)


def _add_generate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "generate", generate.run, "one answer to one prompt")
    parser.add_argument("prompt", metavar="PROMPT", help='what to answer; "-" reads stdin')
    parser.add_argument("--raw", action="store_true", help="continue the prompt as it is, without a chat template")
    add_tools(parser)
    add_form(parser)
    add_sampling(parser)
    add_engine(parser)


def _add_tokenize(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "tokenize", inspection.tokenize, "the tokens of a text")
    parser.add_argument("text", metavar="TEXT", help='"-" reads stdin')
    parser.add_argument("--specials", action="store_true", help="let control tokens in the text be control tokens")
    parser.add_argument("--prompt", action="store_true", help="as a whole prompt: with the model's first token")


def _add_inspect(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    _add(commands, "inspect", inspection.inspect, "header, chat template and tensors of a file")


def _add_score(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "score", score.run, "perplexity of a text, and divergence from kept logits")
    parser.add_argument("file", metavar="FILE", help='a text file; "-" reads stdin')
    parser.add_argument("--tokens", type=int, default=0, metavar="N", help="only the first N tokens")
    parser.add_argument("--all", action="store_true", help="with --json, the figure of each token, too")
    parser.add_argument(
        "--save-logits", metavar="F", help="write all logits to F (4 bytes for each token and entry)"
    )
    parser.add_argument(
        "--against", metavar="F", help="compare with the logits in F: divergence, same first choices"
    )
    add_engine(parser)
