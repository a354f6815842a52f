"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import io
import sys

from engine.config import EngineConfig
from engine.errors import EngineError, InputError
from engine.extraction.texts import marked_encoding
from engine.protocol import Tool
from engine.sampling.params import SamplingParams
from engine.sampling.sampler import check_params
from engine.tools import parse_tools

MAX_TEXT_LENGTH = 16 << 20  # characters read from a file or a pipe; tokenizing takes a few hundred bytes for each
_MAX_BYTES = 4 * MAX_TEXT_LENGTH  # of so many characters


def add_model(parser: argparse.ArgumentParser) -> None:
    """The positional MODEL, which may be left out."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a GGUF file, or the name of one in the models folder; left out: the starter model",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Options of the engine."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--backend", choices=("cpu", "reference"), default="cpu", help="reference is the slow definition in NumPy"
    )
    group.add_argument("--context", type=int, default=0, metavar="N", help="tokens of context; 0 chooses")
    group.add_argument(
        "--kv-type", choices=("f16", "q8_0"), default="f16", help="q8_0 halves the KV cache (%(default)s)"
    )
    group.add_argument("--threads", type=int, default=0, metavar="N", help="threads; 0 is one a physical core")


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """Options of the sampler and of the answer's end."""
    default = SamplingParams()
    group = parser.add_argument_group("sampling")
    group.add_argument("--temperature", type=float, default=default.temperature, help="0 is greedy (%(default)s)")
    group.add_argument("--top-k", type=int, default=default.top_k, help="0 is off (%(default)s)")
    group.add_argument("--top-p", type=float, default=default.top_p, help="1 is off (%(default)s)")
    group.add_argument("--min-p", type=float, default=default.min_p, help="0 is off (%(default)s)")
    group.add_argument(
        "--repeat-penalty", type=float, default=default.repeat_penalty, help="1 is off (%(default)s)"
    )
    group.add_argument(
        "--presence-penalty", type=float, default=default.presence_penalty, help="0 is off (%(default)s)"
    )
    group.add_argument(
        "--frequency-penalty", type=float, default=default.frequency_penalty, help="0 is off (%(default)s)"
    )
    group.add_argument("--seed", type=int, default=None, help="makes the answer reproducible")
    group.add_argument("--max-tokens", type=int, default=0, metavar="N", help="0 is up to the end of the context")
    group.add_argument("--stop", action="append", default=[], metavar="TEXT", help="ends the answer; repeatable")
    group.add_argument("--system", default="", metavar="TEXT", help="a system prompt")


def add_tools(parser: argparse.ArgumentParser) -> None:
    """The option that offers tools."""
    parser.add_argument(
        "--tools",
        metavar="FILE",
        help="JSON list of functions that the model may call, each with name, description and parameters",
    )


def tools_of(arguments: argparse.Namespace) -> tuple[Tool, ...]:
    """The tools of ``add_tools``. Raises EngineError where the file is no list of functions."""
    if arguments.tools is None:
        return ()
    try:
        return parse_tools(read_file(arguments.tools))
    except InputError as error:
        raise EngineError(
            f"{arguments.tools[:200]} is no JSON list of functions that can be used. {error}"
        ) from error


def config_of(arguments: argparse.Namespace) -> EngineConfig:
    """The engine's configuration from the options of ``add_engine``."""
    return EngineConfig(
        backend=arguments.backend,
        num_threads=arguments.threads,
        context_length=arguments.context,
        kv_type=arguments.kv_type,
    )


def sampling_of(arguments: argparse.Namespace) -> SamplingParams:
    """The sampling parameters from the options of ``add_sampling``; InvalidParameterError for one out of range."""
    params = SamplingParams(
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        repeat_penalty=arguments.repeat_penalty,
        presence_penalty=arguments.presence_penalty,
        frequency_penalty=arguments.frequency_penalty,
        seed=arguments.seed,
    )
    check_params(params)
    if arguments.max_tokens < 0:
        raise EngineError("--max-tokens cannot be negative; 0 means up to the end of the context.")
    return params


def read_text(given: str) -> str:
    """The text itself, or all of stdin for "-". Raises EngineError as ``read_file`` does."""
    return read_file(given) if given == "-" else given


def read_file(given: str) -> str:
    """The text of a file, or all of stdin for "-", in UTF-8 or what its byte order mark says.

    Raises EngineError where it is endless or in another encoding.
    """
    name = "The input" if given == "-" else given
    try:
        if given != "-":
            with open(given, "rb") as file:
                data = file.read(_MAX_BYTES + 1)
        elif isinstance(sys.stdin, io.TextIOWrapper):
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            data = sys.stdin.read(MAX_TEXT_LENGTH + 1).encode()  # another program's, which is text already
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise EngineError(f"{name[:200]} cannot be read: {reason}.") from error
    is_longer = len(data) > _MAX_BYTES
    text = "" if is_longer else _decoded(data, name)
    if is_longer or len(text) > MAX_TEXT_LENGTH:
        raise EngineError(f"{name} is longer than {MAX_TEXT_LENGTH:,} characters; give a part of it.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(data: bytes, name: str) -> str:
    encoding = marked_encoding(data) or "utf-8"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        label = encoding.removesuffix("-sig").upper()
        raise EngineError(f"{name} is not {label} text (byte {error.start:,}).") from error
