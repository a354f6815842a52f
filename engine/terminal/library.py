"""``models``: what is on this machine, what the hub has, and downloads."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.library.app_settings import all_places
from engine.library.places import models_folder
from engine.sizes import size_text
from engine.terminal.advise import advise_on
from engine.terminal.download import add_download, discard_download, download_model, names_of
from engine.terminal.hub_models import find_version, hub_client, named_at_hub, usable_versions
from engine.terminal.output import Output, count_text

if TYPE_CHECKING:
    from engine.hub.client import HubRepository
    from engine.hub.download_item import DownloadRow
    from engine.hub.filters import SearchFilter

SORTS = ("trending", "downloads", "likes", "updated")

Command = Callable[[argparse.Namespace, Output], int]
Commands = argparse._SubParsersAction


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The commands below ``models``."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add(commands, "list", list_models, "models on this machine, whoever put them there")
    search = _add(commands, "search", search_hub, "models with GGUF files at the hub")
    search.add_argument("query", metavar="WORDS", nargs="*", help="what their names have; left out: the best known")
    search.add_argument("--sort", choices=SORTS, default="trending", help="(%(default)s)")
    search.add_argument("--author", default="", metavar="OWNER", help="only this owner's models")
    search.add_argument("--license", default="", metavar="NAME", help="such as apache-2.0 or mit")
    search.add_argument("--open", action="store_true", help="leave out what asks to accept terms")
    search.add_argument("--min-parameters", type=_parameters, default=0, metavar="N", help="such as 500M or 3B")
    search.add_argument("--max-parameters", type=_parameters, default=0, metavar="N", help="such as 8B")
    search.add_argument("--fits", action="store_true", help="only what fits into this machine's memory")
    search.add_argument("--any-architecture", action="store_true", help="also what cannot run here")
    search.add_argument("--limit", type=_limit, default=20, metavar="N", help="at most so many (%(default)s)")
    inspect = _add(commands, "inspect", inspect_repository, "the versions of one model at the hub, and its header")
    inspect.add_argument("repository", metavar="OWNER/NAME", help="or the address of its page")
    inspect.add_argument("version", metavar="VERSION", nargs="?", help="its header, too, without a download")
    download = _add(commands, "download", download_model, "fetch a version; an interrupted one goes on")
    add_download(download)
    discard = _add(commands, "discard", discard_download, "delete what has come of a download that is not done")
    discard.add_argument("name", metavar="NAME", help="as `models list` shows it, or a part of that")
    advice = _add(commands, "advise", advise_on, "what a model needs and how fast it is here, before a download")
    advice.add_argument("model", metavar="MODEL", help="a model on this machine, or OWNER/NAME at the hub")
    advice.add_argument("version", metavar="VERSION", nargs="?", help="of one at the hub; left out: all of them")
    advice.add_argument("--context", type=int, default=0, metavar="N", help="tokens of context; 0 is 8192")
    advice.add_argument("--kv-type", choices=("f16", "q8_0"), help="q8_0 halves the KV cache")
    for each in (search, inspect, download, advice):
        each.add_argument(
            "--endpoint", default="", metavar="URL", help="another hub; else the window's setting, then HF_ENDPOINT"
        )


def _add(
    commands: Commands[argparse.ArgumentParser], name: str, command: Command, text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(command=command)
    parser.add_argument("--json", action="store_true", help="results as JSON on stdout")
    return parser


def list_models(_arguments: argparse.Namespace, output: Output) -> int:
    """Print what lies on this machine."""
    from engine.hub.unfinished import unfinished_downloads
    from engine.library import FileState, Scanner

    found, unfinished = Scanner().scan(all_places()), unfinished_downloads(models_folder())
    output.json([*(dataclasses.asdict(model) for model in found), *(_unfinished(row) for row in unfinished)])
    for model in found:
        line = f"{model.name:40} {model.quantization:10} {size_text(model.size):>9}  {model.origin.value}"
        output.text(line if model.state is FileState.READY else f"{line}: {model.problem or model.state.value}")
    for row in unfinished:
        come = size_text(row.num_received) + (f" of {size_text(row.size)}" if row.size else "")
        reason = f": {row.message}" if row.message else ""
        output.text(f"{names_of(row)[0]}  unfinished download, {come}, {row.state.value}{reason}")
    if unfinished:
        output.text("`models download` goes on with an unfinished one, `models discard NAME` deletes it.")
    if not found and not unfinished:
        output.text(f"There is no model yet: `models search` finds some. They will lie in {models_folder()}.")
    return 0


def _unfinished(row: DownloadRow) -> dict[str, object]:
    """A download that is not done, as JSON lists it among the models."""
    return {
        "name": names_of(row)[0],
        "repository": row.repository,
        "state": "unfinished",
        "download": row.state,
        "num_received": row.num_received,
        "size": row.size,
        "problem": row.message,
    }


def search_hub(arguments: argparse.Namespace, output: Output) -> int:
    """Print what the hub finds."""
    from engine.hub.client import Sort

    with hub_client(arguments) as client:
        sort, wanted = Sort[arguments.sort.upper()], _wanted(arguments)
        words = " ".join(arguments.query)
        found = list(client.search(words, sort=sort, wanted=wanted, limit=arguments.limit))
    output.json([{**dataclasses.asdict(model), "updated": str(model.updated or "")} for model in found])
    for model in found:
        parameters = count_text(model.num_parameters)
        gated = "  asks to accept terms" if model.gated else ""
        output.text(f"{model.repository:60} {parameters:>8} {model.downloads:>12,} downloads{gated}")
    if not found:
        output.text("Nothing was found; try fewer or other words, or fewer filters.")
    return 0


def _wanted(arguments: argparse.Namespace) -> SearchFilter:
    """What the options of a search leave in."""
    from engine.advisor import look_at_machine, most_parameters, supported_architectures
    from engine.hub.filters import SearchFilter

    most: int = arguments.max_parameters
    if arguments.fits:
        most = min(most or sys.maxsize, most_parameters(look_at_machine(models_folder())))
    return SearchFilter(
        author=arguments.author.strip(),
        license=arguments.license.strip().lower(),
        is_open_only=arguments.open,
        min_parameters=arguments.min_parameters,
        max_parameters=most,
        architectures=frozenset() if arguments.any_architecture else supported_architectures(),
    )


def _parameters(text: str) -> int:
    """A number of parameters as people write it; argparse turns ValueError into its own sentence."""
    from engine.hub.filters import parameters_in

    count = parameters_in(text) or int(text)
    if count < 0:
        raise ValueError
    return count


def _limit(text: str) -> int:
    """A number of results."""
    from engine.hub.client import MAX_RESULTS

    try:
        count = int(text)
    except ValueError:
        count = 0
    if not 1 <= count <= MAX_RESULTS:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no number of results: give one from 1 to {MAX_RESULTS}")
    return count


_parameters.__name__ = "number of parameters"  # what argparse calls it


def inspect_repository(arguments: argparse.Namespace, output: Output) -> int:
    """Print the versions of a repository, or the header of one of them."""
    if os.path.exists(arguments.repository):
        raise EngineError(
            f"{arguments.repository} is on this machine: `inspect` without `models` shows it; "
            "`models inspect` asks the hub for OWNER/NAME."
        )
    from engine.hub.remote_header import fetch_header
    from engine.loader import tensor_type_name

    name, wanted = named_at_hub(arguments, arguments.repository)
    with hub_client(arguments) as client:
        repository = client.repository(name)
        if wanted is None:
            usable_versions(repository)
            _show_versions(repository, output)
            return 0
        version = find_version(repository, wanted)
        header = fetch_header(client.connection, repository.model.repository, repository.revision, version)
    facts = {
        "architecture": header.architecture,
        "tensor_type": tensor_type_name(header),
        "file_bytes": header.file_bytes,
        "num_tensors": len(header.tensors),
        "context_length": header.metadata.integer(f"{header.architecture}.context_length", 0),
        "has_chat_template": "tokenizer.chat_template" in header.metadata,
        "metadata": {key: header.metadata.raw(key) for key in header.metadata},
    }
    output.json(facts)
    for key, fact in facts.items():
        if key != "metadata":
            output.text(f"{key + ':':20} {_shown(fact)}")
    return 0


def _show_versions(repository: HubRepository, output: Output) -> None:
    model = repository.model
    output.json(
        {
            "model": {**dataclasses.asdict(model), "updated": str(model.updated or "")},
            "revision": repository.revision,
            "versions": [
                {**dataclasses.asdict(version), "size": version.size, "quality": version.quality.words}
                for version in repository.groups.versions
            ],
            "companions": [dataclasses.asdict(file) for file in repository.groups.companions],
            "refused": dict(repository.groups.refused),
        }
    )
    terms = ", asks to accept its terms" if model.gated else ""
    output.text(f"{model.repository}, {model.license or 'no licence stated'}{terms}")
    for version in repository.groups.versions:
        missing = f"  lacks {version.missing_words}" if version.missing else ""
        output.text(f"  {version.label:24} {size_text(version.size):>9}  {version.quality.words}{missing}")
    for file in repository.groups.companions:
        output.text(f"  {file.path:24} {size_text(file.size):>9}  an image part, not a chat model")
    for path, reason in repository.groups.refused:
        output.text(f"  {path} is left out: {reason}")


def _shown(fact: object) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return f"{fact:,}" if isinstance(fact, int) else str(fact)
