"""``models``: what is on this machine, what the hub has, and downloads."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineError, HubUnreachableError, UnsupportedModelError
from engine.library.app_settings import all_places, measured_file, read_app_settings, token_file
from engine.library.places import models_folder
from engine.terminal.output import Output

if TYPE_CHECKING:
    from engine.advisor import Advice
    from engine.config import KVType
    from engine.hub.client import HubClient, HubRepository
    from engine.hub.download_item import DownloadRow
    from engine.hub.filters import SearchFilter
    from engine.hub.names import Version

POLL_S = 0.1
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
    inspect.add_argument("repository", metavar="OWNER/NAME")
    inspect.add_argument("version", metavar="VERSION", nargs="?", help="its header, too, without a download")
    download = _add(commands, "download", download_model, "fetch a version; an interrupted one goes on")
    download.add_argument("repository", metavar="OWNER/NAME")
    download.add_argument(
        "version", metavar="VERSION", nargs="?", help="such as Q4_K_M; left out: the best one for this machine"
    )
    advice = _add(commands, "advise", advise_on, "what a model needs and how fast it is here, before a download")
    advice.add_argument("model", metavar="MODEL", help="a model on this machine, or OWNER/NAME at the hub")
    advice.add_argument("version", metavar="VERSION", nargs="?", help="of one at the hub; left out: all of them")
    advice.add_argument("--context", type=int, default=0, metavar="N", help="tokens of context; 0 is 8192")
    advice.add_argument("--kv-type", choices=("f16", "q8_0"), help="q8_0 halves the KV cache")
    for each in (search, inspect, download, advice):
        each.add_argument(
            "--endpoint", default="", metavar="URL", help="another hub; else HF_ENDPOINT, then the window's setting"
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
    from engine.library import FileState, Scanner

    found = Scanner().scan(all_places())
    output.json([dataclasses.asdict(model) for model in found])
    for model in found:
        line = f"{model.name:40} {model.quantization:10} {_size(model.size):>9}  {model.origin.value}"
        output.text(line if model.state is FileState.READY else f"{line}: {model.problem or model.state.value}")
    if not found:
        output.text(f"There is no model yet: `models search` finds some. They will lie in {models_folder()}.")
    return 0


def search_hub(arguments: argparse.Namespace, output: Output) -> int:
    """Print what the hub finds."""
    from engine.hub.client import Sort

    with _client(arguments) as client:
        sort, wanted = Sort[arguments.sort.upper()], _wanted(arguments)
        words = " ".join(arguments.query)
        found = list(client.search(words, sort=sort, wanted=wanted, limit=arguments.limit))
    output.json([{**dataclasses.asdict(model), "updated": str(model.updated or "")} for model in found])
    for model in found:
        parameters = f"{model.num_parameters / 1e9:.1f} B" if model.num_parameters else ""
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
    """A number of results; argparse turns ValueError into its own sentence."""
    if (count := int(text)) < 1:
        raise ValueError
    return count


_limit.__name__ = "number of results, from 1,"  # what argparse calls it
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

    with _client(arguments) as client:
        repository = client.repository(arguments.repository)
        if arguments.version is None:
            _show_versions(repository, output)
            return 0
        version = find_version(repository, arguments.version)
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


def download_model(arguments: argparse.Namespace, output: Output) -> int:
    """Fetch a version into the models folder, showing how far it is."""
    from engine.hub.download_record import DownloadState
    from engine.hub.downloads import Downloads

    with _client(arguments) as client:
        repository = client.repository(arguments.repository)
        version = find_version(repository, arguments.version or _best_version(client, repository, output))
        endpoint = client.endpoint
    done: list[DownloadRow] = []
    downloads = Downloads(models_folder(), lambda endpoint: _new_client(endpoint), on_done=done.append)
    try:
        downloads.add(endpoint, repository.model.repository, repository.revision, version)
        while not done:
            rows = downloads.rows()
            if rows and rows[0].state in {DownloadState.FAILED, DownloadState.PAUSED}:
                raise EngineError(rows[0].message)
            if rows:
                output.progress(_progress(rows[0]))
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        output.note("Interrupted: the same command goes on where this one stopped.")
        return 130
    finally:
        output.end_progress()
        downloads.close()
    output.json({"paths": done[0].paths, "size": done[0].size})
    output.text(str(done[0].paths[0]))
    return 0


def advise_on(arguments: argparse.Namespace, output: Output) -> int:
    """Print what a model on disk, or the versions of one at the hub, would need here."""
    from engine.advisor import measure_speeds, needs_measuring, recommend
    from engine.advisor.advice import CONTEXT_LENGTH
    from engine.hub.names import is_repository
    from engine.terminal.models import find_model

    if arguments.context < 0:
        raise EngineError(
            f"--context {arguments.context}: a context has at least one token; 0 is {CONTEXT_LENGTH}."
        )
    if needs_measuring():
        output.progress("Measuring what this machine's memory and processor give ...")
        measure_speeds()
        output.end_progress()
    settings = read_app_settings()
    context_length = arguments.context or settings.context_length or CONTEXT_LENGTH
    kv_type = arguments.kv_type or settings.kv_type
    if not is_repository(arguments.model) or os.path.exists(arguments.model):
        advice = _advise_file(find_model(arguments.model), context_length, kv_type)
        output.json(_plain(advice))
        output.text(advice.sentence)
        return 0
    try:
        with _client(arguments) as client:
            repository = client.repository(arguments.model)
            advices = _advise_versions(client, repository, context_length, kv_type, arguments.version)
    except HubUnreachableError as error:
        advices = _advise_kept(arguments.model, context_length, kv_type)
        if not advices:
            raise
        output.note(f"{error} This is what is on this machine of it:")
    best = recommend(advices)
    output.json(
        {"recommended": best, "versions": {label: _plain(advice) for label, (_, advice) in advices.items()}}
    )
    for label, (_, advice) in advices.items():
        output.text(f"{'*' if label == best else ' '} {label:16} {advice.sentence}")
    return 0


def _plain(advice: Advice) -> dict[str, object]:
    return {**dataclasses.asdict(advice), "total_need": advice.need.total, "sentence": advice.sentence}


def _advise_file(path: Path, context_length: int, kv_type: KVType) -> Advice:
    from engine.advisor import MeasuredFigures, advise, look_at_machine, shape_of
    from engine.gguf import open_model

    figures = MeasuredFigures(measured_file())
    with open_model(path) as file:
        shape = shape_of(file)
    machine = look_at_machine(models_folder(), figures)
    return advise(shape, machine, context_length, kv_type, figures.of(path))


def _advise_kept(repository: str, context_length: int, kv_type: KVType) -> dict[str, tuple[str | None, Advice]]:
    """Advice on the versions of a repository that are on this machine."""
    from engine.library import FileState, Scanner

    found = [model for model in Scanner().scan(all_places()) if model.repository == repository]
    return {
        model.quantization or model.name: (
            model.quantization or None,
            _advise_file(model.path, context_length, kv_type),
        )
        for model in found
        if model.state is FileState.READY
    }


def _advise_versions(
    client: HubClient,
    repository: HubRepository,
    context_length: int,
    kv_type: KVType,
    wanted: str | None = None,
) -> dict[str, tuple[str | None, Advice]]:
    """Advice on the versions, by the header of one of them; of the wanted one, by its own."""
    from engine.advisor import MeasuredFigures, look_at_machine, shape_of
    from engine.advisor.advice import versions_advice
    from engine.hub.remote_header import fetch_header

    versions = [version for version in repository.groups.versions if not version.missing]
    if wanted is not None:
        versions = [find_version(repository, wanted)]
    if not versions:
        raise EngineError(f"{repository.model.repository} has no GGUF file that can be used here.")
    name, revision = repository.model.repository, repository.revision
    shape = shape_of(fetch_header(client.connection, name, revision, versions[len(versions) // 2]))
    rows = [(version.label, version.quantization, version.size) for version in versions]
    machine = look_at_machine(models_folder(), MeasuredFigures(measured_file()))
    return versions_advice(shape, machine, rows, context_length, kv_type)


def _best_version(client: HubClient, repository: HubRepository, output: Output) -> str | None:
    """The recommended version. Raises EngineError where none can run here: who names one gets it all the same."""
    from engine.advisor import recommend
    from engine.advisor.advice import CONTEXT_LENGTH

    try:
        best = recommend(_advise_versions(client, repository, CONTEXT_LENGTH, read_app_settings().kv_type))
    except UnsupportedModelError as error:
        raise EngineError(f"{str(error).rstrip('.')}. Name a version to download it anyway.") from error
    if best is None:
        raise EngineError(f"No version of {repository.model.repository} fits into this machine's memory; name one.")
    if len(repository.groups.versions) > 1:
        output.note(f"{best} is the best version for this machine.")
    return best


def find_version(repository: HubRepository, wanted: str | None) -> Version:
    """The version of that name; the only one where none is named. Raises EngineError with those there are."""
    versions = repository.groups.versions
    if not versions:
        raise EngineError(f"{repository.model.repository} has no GGUF file that can be used here.")
    if wanted is None and len(versions) == 1:
        return versions[0]
    for version in versions:
        paths = {Path(file.path).name.casefold() for file in version.files}
        if wanted is not None and wanted.casefold() in {version.label.casefold(), *paths}:
            return version
    labels = ", ".join(version.label for version in versions)
    raise EngineError(f"{repository.model.repository} has these versions: {labels}; name one of them.")


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
        output.text(f"  {version.label:24} {_size(version.size):>9}  {version.quality.words}{missing}")
    for file in repository.groups.companions:
        output.text(f"  {file.path:24} {_size(file.size):>9}  an image part, not a chat model")
    for path, reason in repository.groups.refused:
        output.text(f"  {path} is left out: {reason}")


def _progress(row: DownloadRow) -> str:
    share = row.num_received / row.size if row.size else 0.0
    text = f"{row.repository} {row.label}: {_size(row.num_received)} of {_size(row.size)}, {share:.0%}"
    if row.message:
        return f"{text}. {row.message}"
    left = f", {row.seconds_left:.0f} s left" if row.seconds_left is not None else ""
    return f"{text}, {row.bytes_per_second / 1e6:.1f} MB/s{left}"


@contextmanager
def _client(arguments: argparse.Namespace) -> Iterator[HubClient]:
    """The hub that is named on the command line, in the environment, or in the window's settings, in that order."""
    named = arguments.endpoint or os.environ.get("HF_ENDPOINT", "").strip()
    with _new_client(named or read_app_settings().hub_endpoint) as client:
        yield client


def _new_client(endpoint: str) -> HubClient:
    # huggingface_hub takes half a second to import: only those who ask the hub pay for it.
    from engine.hub.client import HubClient
    from engine.hub.tokens import TokenStore

    return HubClient(endpoint, TokenStore(token_file()).get())


def _shown(fact: object) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return f"{fact:,}" if isinstance(fact, int) else str(fact)


def _size(num_bytes: int) -> str:
    if num_bytes < 1e6:
        return f"{num_bytes / 1e3:.0f} kB"
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"
