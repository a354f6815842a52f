"""The hub as the commands below ``models`` ask it: which hub, which model, which version, and advice on them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.library.app_settings import measured_file, read_app_settings, token_file
from engine.library.places import models_folder
from engine.terminal.output import Output

if TYPE_CHECKING:
    from engine.advisor import Advice
    from engine.config import KVType
    from engine.hub.client import HubClient, HubRepository
    from engine.hub.names import Version

Advices = dict[str, tuple[str | None, "Advice"]]  # quantization and advice, by label


@contextmanager
def hub_client(arguments: argparse.Namespace) -> Iterator[HubClient]:
    """The hub of the command line, else of the window's settings, else of HF_ENDPOINT, else the public one."""
    with new_client(arguments.endpoint or read_app_settings().hub_endpoint) as client:
        yield client


def new_client(endpoint: str) -> HubClient:
    """The hub at ``endpoint``, with the person's token."""
    # huggingface_hub takes half a second to import: only those who ask the hub pay for it.
    from engine.hub.client import HubClient
    from engine.hub.tokens import TokenStore

    return HubClient(endpoint, TokenStore(token_file()).get(endpoint))


def named_at_hub(arguments: argparse.Namespace, given: str) -> tuple[str, str | None]:
    """Repository and version that the command line names; the address of a model's page or file names them, too."""
    from engine.hub.address import chosen_endpoint, model_page

    page = model_page(given, chosen_endpoint(arguments.endpoint or read_app_settings().hub_endpoint))
    if page is None:
        return given, arguments.version
    return page.repository, arguments.version or page.file.rpartition("/")[2] or None


def find_version(repository: HubRepository, wanted: str) -> Version:
    """The version of that label or file name. Raises EngineError with those there are."""
    versions = usable_versions(repository)
    for version in versions:
        paths = {Path(file.path).name.casefold() for file in version.files}
        if wanted.casefold() in {version.label.casefold(), *paths}:
            return version
    labels = ", ".join(version.label for version in versions)
    raise EngineError(f"{repository.model.repository} has these versions: {labels}; name one of them.")


def usable_versions(repository: HubRepository) -> tuple[Version, ...]:
    """The versions of a model. Raises EngineError where there is none."""
    if not repository.groups.versions:
        left_out = "".join(f" ({path}: {reason})" for path, reason in repository.groups.refused[:1])
        raise EngineError(f"{repository.model.repository} has no GGUF file that can be used here{left_out}.")
    return repository.groups.versions


def advised_context(asked: int = 0) -> int:
    """Tokens of context that advice is for: as asked, else as set in the window, else the advisor's own."""
    from engine.advisor.advice import CONTEXT_LENGTH

    return asked or read_app_settings().context_length or CONTEXT_LENGTH


def measure_once(output: Output) -> None:
    """Measure this machine where that was not done yet."""
    from engine.advisor import measure_speeds, needs_measuring

    if needs_measuring():
        output.progress("Measuring what this machine's memory and processor give ...")
        measure_speeds()
        output.end_progress()


def advise_versions(
    client: HubClient,
    repository: HubRepository,
    context_length: int,
    kv_type: KVType,
    wanted: str | None = None,
) -> Advices:
    """Advice on the versions, by the header of one of them; of the wanted one, by its own.

    Raises EngineError where there is none, HubError, and ModelFileError for what cannot run here.
    """
    from engine.advisor import MeasuredFigures, look_at_machine, shape_of
    from engine.advisor.advice import versions_advice
    from engine.hub.remote_header import fetch_header

    name, revision = repository.model.repository, repository.revision
    versions = [version for version in usable_versions(repository) if not version.missing]
    if wanted is not None:
        versions = [find_version(repository, wanted)]
    if not versions:
        raise EngineError(f"{name} has no GGUF file that can be used here.")
    shape = shape_of(fetch_header(client.connection, name, revision, versions[len(versions) // 2]))
    rows = [(version.label, version.quantization, version.size) for version in versions]
    machine = look_at_machine(models_folder(), MeasuredFigures(measured_file()))
    return versions_advice(shape, machine, rows, context_length, kv_type)
