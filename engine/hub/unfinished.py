"""What is left of downloads that are not done, for those who only look or delete; nothing begins here."""

from __future__ import annotations

import shutil
from pathlib import Path

import filelock

from engine.errors import DownloadError
from engine.hub.download_item import DownloadItem, DownloadRow
from engine.hub.download_record import (
    COPY_PREFIX,
    DOWNLOADS_FOLDER,
    LOCK_NAME,
    ORPHANS_KEPT_S,
    DownloadRecord,
    DownloadState,
    part_bytes,
    read_records,
    take_orphans,
)

UNKNOWN_PARTS = (
    "What they belong to is no longer known. Download the same version again and it goes on with them, "
    "or delete them."
)
UNFINISHED_COPY = "Copying a file into the models folder was interrupted: add the file again, and delete this."


def unfinished_items(
    models_folder: Path, orphans_kept_s: float = ORPHANS_KEPT_S
) -> tuple[dict[str, DownloadItem], dict[str, DownloadRow]]:
    """Downloads that can go on, and rows of parts that cannot, both by id; orphans older than that are deleted."""
    items, left = {}, {}
    for folder, num_bytes in take_orphans(models_folder, orphans_kept_s).items():
        message = UNFINISHED_COPY if folder.name.startswith(COPY_PREFIX) else UNKNOWN_PARTS
        left[folder.name] = _left_row(folder.name, num_bytes, message)
    for folder, record in read_records(models_folder):
        if record.state is DownloadState.DONE:
            continue
        try:
            items[record.id] = DownloadItem(folder, models_folder, record)
        except DownloadError as error:  # its place leads out of the models folder now
            left[record.id] = _left_row(record.id, _bytes_in(folder), str(error), record)
    return items, left


def unfinished_downloads(models_folder: Path) -> list[DownloadRow]:
    """The downloads in the folder that are not done, whoever began them."""
    items, left = unfinished_items(models_folder, orphans_kept_s=float("inf"))
    return [*(item.row() for item in items.values()), *left.values()]


def discard(models_folder: Path, download_id: str) -> int:
    """Delete what has come of a download; returns the bytes that were freed.

    Raises DownloadError where a program works on it, or the system refuses.
    """
    folder = models_folder / DOWNLOADS_FOLDER / download_id
    try:
        with filelock.FileLock(folder / LOCK_NAME, timeout=0):
            freed = part_bytes(folder)
        shutil.rmtree(folder)
    except filelock.Timeout as error:
        raise DownloadError("Another Fireside downloads this at the moment: stop it there first.") from error
    except OSError as error:
        raise DownloadError(f"{folder} cannot be deleted: {error.strerror or error}.") from error
    return freed


def _left_row(left_id: str, num_bytes: int, message: str, record: DownloadRecord | None = None) -> DownloadRow:
    """The row of parts that cannot go on."""
    return DownloadRow(
        id=left_id,
        repository=record.repository if record is not None else "",
        label=record.label if record is not None else "",
        state=DownloadState.LEFT,
        num_received=num_bytes,
        size=record.size if record is not None else 0,
        bytes_per_second=0.0,
        seconds_left=None,
        message=message,
        paths=(),
    )


def _bytes_in(folder: Path) -> int:
    try:
        return part_bytes(folder)
    except OSError:
        return 0
