"""``models download`` and ``models discard``: a version into the models folder, and what was begun of one away."""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from engine.errors import EngineError, UnsupportedModelError
from engine.library.app_settings import read_app_settings
from engine.library.places import models_folder
from engine.sizes import size_text
from engine.terminal.hub_models import (
    advise_versions,
    advised_context,
    find_version,
    hub_client,
    measure_once,
    named_at_hub,
    new_client,
    usable_versions,
)
from engine.terminal.output import Output

if TYPE_CHECKING:
    from engine.hub.client import HubClient, HubRepository
    from engine.hub.download_item import DownloadRow
    from engine.hub.downloads import Downloads
    from engine.hub.names import Version

POLL_S = 0.1
LINE_SHARE, LINE_S = 0.1, 60.0  # what must have come, or passed, between two lines of progress in a log


class _Ended(KeyboardInterrupt):
    """The system, or a closed terminal, ends the program: as good as Ctrl+C.

    Attributes:
        exit_code: as a shell reports the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


def add_download(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``models download``."""
    parser.add_argument("repository", metavar="OWNER/NAME", help="or the address of its page")
    parser.add_argument(
        "version", metavar="VERSION", nargs="?", help="such as Q4_K_M; left out: the best one for this machine"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="also what is too large for this machine or cannot run here"
    )


def download_model(arguments: argparse.Namespace, output: Output) -> int:
    """Fetch a version into the models folder, showing how far it is."""
    with _signals_as_interrupts():
        return _download(arguments, output)


@contextlib.contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Meanwhile the signals that end a program raise _Ended, except those that whoever started it had ignored."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise _Ended(number)

    names = ("SIGTERM", "SIGHUP", "SIGBREAK")  # each system has some of them
    numbers = [number for name in names if (number := getattr(signal, name, None)) is not None]
    before = {number: signal.getsignal(number) for number in numbers}
    taken = [number for number, handler in before.items() if handler == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


def _download(arguments: argparse.Namespace, output: Output) -> int:
    from engine.hub.downloads import Downloads

    name, wanted = named_at_hub(arguments, arguments.repository)
    with hub_client(arguments) as client:
        repository = client.repository(name)
        if wanted is None:
            version = _best_version(client, repository, arguments.anyway, output)
        else:
            version = find_version(repository, wanted)
        if (paths := _paths_here(repository, version)) is not None:
            output.note(f"{version.label} of {repository.model.repository} is here already.")
            return _print_paths(paths, version.size, output)
        if wanted is not None and not arguments.anyway:
            _refuse_useless(client, repository, version)
        endpoint = client.endpoint
    done: list[DownloadRow] = []
    downloads = Downloads(models_folder(), new_client, on_done=done.append)
    try:
        downloads.add(endpoint, repository.model.repository, repository.revision, version)
        _watch(downloads, done, output)
    except KeyboardInterrupt as interrupt:
        _pause(downloads, output)
        return interrupt.exit_code if isinstance(interrupt, _Ended) else 130
    finally:
        with contextlib.suppress(OSError):
            output.end_progress()
        downloads.close()
    return _print_paths(done[0].paths, done[0].size, output)


def _print_paths(paths: tuple[Path, ...], size: int, output: Output) -> int:
    output.json({"paths": paths, "size": size})
    output.text(str(paths[0]))
    return 0


def _paths_here(repository: HubRepository, version: Version) -> tuple[Path, ...] | None:
    """Where the version lies; None where a file of it is missing in the models folder."""
    from engine.hub.download_item import has_size
    from engine.hub.download_record import own_path

    folder, name = models_folder(), repository.model.repository
    paths = tuple(own_path(folder, name, file.path) for file in version.files)
    is_here = all(has_size(path, file.size) for path, file in zip(paths, version.files, strict=True))
    return paths if is_here and not version.missing else None


def _watch(downloads: Downloads, done: list[DownloadRow], output: Output) -> None:
    """Show how far the download is until it is done; raises EngineError where it stops."""
    from engine.hub.download_record import DownloadState

    shown_share, shown_s = 0.0, time.monotonic()
    while not done:
        for row in downloads.rows():
            if row.state in {DownloadState.FAILED, DownloadState.PAUSED}:
                raise EngineError(row.message)
            share, now = row.num_received / row.size if row.size else 0.0, time.monotonic()
            is_due = share - shown_share > LINE_SHARE - 1e-9 or now - shown_s >= LINE_S
            output.progress(_progress(row), is_line_due=is_due)
            if is_due:
                shown_share, shown_s = share, now
        time.sleep(POLL_S)


def _pause(downloads: Downloads, output: Output) -> None:
    """Whoever stops a download here does not want it to go on by itself when the window opens."""
    for row in downloads.rows():
        downloads.pause(row.id)
    with contextlib.suppress(OSError):  # the terminal may be gone
        output.note(
            "Interrupted: the same command goes on where this one stopped, and so does Resume in the window; "
            "`models discard` deletes what has come."
        )


def _best_version(client: HubClient, repository: HubRepository, is_anyway: bool, output: Output) -> Version:
    """The recommended version; where none can run here the smallest with ``is_anyway``, else EngineError."""
    from engine.advisor import recommend

    versions = usable_versions(repository)
    smallest = next((version for version in versions if not version.missing), versions[0])
    if len(versions) > 1:
        measure_once(output)
    try:
        advices = advise_versions(client, repository, advised_context(), read_app_settings().kv_type)
    except UnsupportedModelError as error:
        if is_anyway:
            return smallest
        raise _useless(smallest, str(error)) from error
    best = recommend(advices)
    if best is None and is_anyway:
        return smallest
    if best is None:
        raise _useless(smallest, advices[smallest.label][1].sentence)
    if len(versions) > 1:
        output.note(f"{best} is the best version for this machine.")
    return find_version(repository, best)


def _refuse_useless(client: HubClient, repository: HubRepository, version: Version) -> None:
    """Raises EngineError for a version that is of no use on this machine, before its gigabytes come."""
    from engine.advisor import Fit

    if version.missing:
        return  # which the download itself refuses
    kv_type = read_app_settings().kv_type
    try:
        advices = advise_versions(client, repository, advised_context(), kv_type, version.label)
    except UnsupportedModelError as error:
        raise _useless(version, str(error)) from error
    ((_, advice),) = advices.values()
    if advice.fit is Fit.TOO_LARGE:
        raise _useless(version, advice.sentence)


def _useless(version: Version, reason: str) -> EngineError:
    return EngineError(
        f"{reason.rstrip('.')}; --anyway downloads {version.label}, {size_text(version.size)}, all the same."
    )


def _progress(row: DownloadRow) -> str:
    text = f"{row.repository} {row.label}: {size_text(row.num_received)}"
    if row.size:
        text += f" of {size_text(row.size)}, {row.num_received / row.size:.0%}"
    if row.message:
        return f"{text}. {row.message}"
    left = f", {row.seconds_left:.0f} s left" if row.seconds_left is not None else ""
    return f"{text}, {row.bytes_per_second / 1e6:.1f} MB/s{left}"


def discard_download(arguments: argparse.Namespace, output: Output) -> int:
    """Delete what was begun of a download, and say what that freed."""
    from engine.hub.unfinished import discard, unfinished_downloads

    rows = unfinished_downloads(models_folder())
    wanted = arguments.name.casefold()
    found = [row for row in rows if wanted in {name.casefold() for name in names_of(row)}]
    if len(found) != 1:
        names = ", ".join(names_of(row)[0] for row in found or rows) or "none"
        problem = "is more than one unfinished download" if found else "is no unfinished download"
        raise EngineError(f"{arguments.name[:200]} {problem}; there are: {names}.")
    freed = discard(models_folder(), found[0].id)
    output.json({"discarded": names_of(found[0])[0], "freed_bytes": freed})
    output.text(f"{names_of(found[0])[0]}: {size_text(freed)} freed.")
    return 0


def names_of(row: DownloadRow) -> tuple[str, ...]:
    """What a person may call an unfinished download; the first is the full name."""
    if not row.repository:
        return (row.id,)
    return f"{row.repository} {row.label}", row.repository, row.label, row.id, *(path.name for path in row.paths)
