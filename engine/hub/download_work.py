"""What the thread of one download does: room first, then each file, its hash and its header, then its place."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.errors import (
    DamagedDownloadError,
    DiskFullError,
    DownloadError,
    HubNotFoundError,
    ModelFileError,
    RemoteChangedError,
    UnsupportedModelError,
)
from engine.gguf import check_model_file
from engine.gguf.shards import folded
from engine.hub.client import HubClient
from engine.hub.connection import Connection
from engine.hub.download_item import DownloadItem, has_size
from engine.hub.download_record import write_record
from engine.hub.names import RemoteFile
from engine.hub.transfer import READ_BYTES, RetryPolicy, Stop, Transfer
from engine.library.hashes import keep_hashes
from engine.sizes import size_text

RESERVE_BYTES = 1 << 30  # left free on the disk; on a small one a twentieth of it


class DownloadWork:
    """One run of a download, from where it stopped to its end."""

    def __init__(
        self,
        item: DownloadItem,
        stop: Stop,
        models_folder: Path,
        policy: RetryPolicy,
        on_change: Callable[[], None],
    ) -> None:
        self._item = item
        self._stop = stop
        self._models_folder = models_folder
        self._policy = policy
        self._on_change = on_change

    def run(self, connect: Callable[[str], HubClient]) -> None:
        """Fetch what is missing and put it in its place; what changed at the hub is looked up anew, twice at most.

        Raises Stopped, HubError and DownloadError in their kinds, and OSError.
        """
        check_room(self._item, self._models_folder)
        client = connect(self._item.record.endpoint)
        try:
            for keeps_same in (True, False):
                try:
                    self._fetch_files(client.connection)
                    break
                except RemoteChangedError:
                    self._look_up_anew(client, keeps_same)
            else:
                self._fetch_files(client.connection)
        finally:
            self._item.transfer = None
            client.close()
        self._stop.check()
        self._install()

    def _fetch_files(self, connection: Connection) -> None:
        """Fetch and check each file that is not there yet."""
        item, record = self._item, self._item.record
        for index, file in enumerate(record.files):
            part, target = item.part(index), item.targets[index]
            if index in record.checked and (
                has_size(part, file.size) or (not part.exists() and has_size(target, file.size))
            ):
                continue
            if not part.exists() and self._is_in_place(index, file, target):
                self._keep_checked(index)
                continue
            url = connection.file_url(record.repository, file.path, record.revision)
            item.transfer = Transfer(
                connection,
                url,
                file,
                part,
                stop=self._stop,
                policy=self._policy,
                on_change=self._on_change,
                validators=record.validators.get(index),
                on_learned=partial(self._keep_learned, index),
            )
            item.transfer.run()
            _check_header(part, file)
            self._keep_checked(index)

    def _keep_checked(self, index: int) -> None:
        record = self._item.record
        record.checked = sorted({*record.checked, index})
        write_record(self._item.folder, record)

    def _keep_learned(self, index: int, file: RemoteFile, validators: dict[str, str]) -> None:
        """What the hub's answer said of a file is needed to go on with it after any end."""
        record, had_size = self._item.record, self._item.record.files[index].size
        record.files[index], record.validators[index] = file, validators
        write_record(self._item.folder, record)
        if not had_size:
            check_room(self._item, self._models_folder)

    def _is_in_place(self, index: int, file: RemoteFile, target: Path) -> bool:
        """Whether the file lies where it belongs, with the hub's content: a set is completed, not repeated."""
        if not file.sha256 or not has_size(target, file.size):
            return False
        self._item.message = "Checking what is here already"
        self._on_change()
        digest = hashlib.sha256()
        try:
            with open(target, "rb") as stream:
                while piece := stream.read(READ_BYTES):
                    self._stop.check()
                    digest.update(piece)
        except OSError:
            return False
        finally:
            self._item.message = ""
        if digest.hexdigest() != file.sha256:
            self._item.is_wrong.add(index)
            return False
        return True

    def _look_up_anew(self, client: HubClient, keeps_same: bool) -> None:
        """Take the files as the hub has them now, and begin again; ``keeps_same``: but go on with what is the same.

        One odd answer on the way is no reason to fetch everything once more.
        """
        record = self._item.record
        repository = client.repository(record.repository)
        self._stop.check()
        paths = [file.path for file in record.files]
        for version in repository.groups.versions:
            if [file.path for file in version.files] == paths:
                break
        else:
            raise HubNotFoundError(f"{paths[0]} is no longer in {record.repository}: choose another version.")
        for index, (old, new) in enumerate(zip(record.files, version.files, strict=True)):
            if not (keeps_same and old == new and new.sha256):
                self._item.part(index).unlink(missing_ok=True)
                record.checked = [checked for checked in record.checked if checked != index]
                record.validators.pop(index, None)
        record.files, record.revision = list(version.files), repository.revision
        write_record(self._item.folder, record)

    def _install(self) -> None:
        """Give the files their names; only now do they appear as a model."""
        item = self._item
        for index, target in enumerate(item.targets):
            if item.part(index).exists():
                refuse_other_case(target)
                refuse_obstacle(target, self._models_folder)
        hashes: dict[Path, str] = {}
        for index, (file, target) in enumerate(zip(item.record.files, item.targets, strict=True)):
            part = item.part(index)
            if part.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(part, target)
            hashes[target] = file.sha256
        with contextlib.suppress(OSError):
            keep_hashes(hashes, self._models_folder)


def check_room(item: DownloadItem, models_folder: Path, promised: int = 0) -> None:
    """Raises DiskFullError where what is missing would not leave the reserve free.

    ``promised`` are the bytes that other downloads, which run or wait, have still to receive.
    """
    place = models_folder
    while not place.exists() and place != place.parent:
        place = place.parent
    usage = shutil.disk_usage(place)
    missing = item.num_missing() + promised + reserve_bytes(place) - usage.free
    if missing > 0:
        others = f", of which other downloads need {size_text(promised)}" if promised else ""
        raise DiskFullError(
            f"{size_text(item.record.size)} do not fit: the disk of {models_folder} has "
            f"{size_text(usage.free)} free{others}; free {size_text(missing)} and try again.",
            missing,
        )


def reserve_bytes(place: Path) -> int:
    """What is to stay free on the disk of an existing folder."""
    return min(RESERVE_BYTES, shutil.disk_usage(place).total // 20)


def refuse_other_case(target: Path) -> None:
    """Raises DownloadError for a neighbour whose name is the same to many disks."""
    try:
        names = os.listdir(target.parent)
    except OSError:
        return
    for name in names:
        if name != target.name and folded(name) == folded(target.name):
            raise DownloadError(
                f"{target.name} cannot be stored beside {name}, which differs in upper and lower case alone, or in "
                "how accents are written: delete or rename that file first."
            )


def refuse_obstacle(target: Path, models_folder: Path) -> None:
    """Raises DownloadError where something in the models folder keeps the file from its place."""
    if target.is_dir():
        raise DownloadError(f"{target} is a folder, where a file of that name belongs: move or rename the folder.")
    for folder in target.parents:
        if os.path.lexists(folder):
            if not folder.is_dir():
                raise DownloadError(
                    f"{folder} is no folder, which it must be for {target.name}: move or rename it."
                )
            return
        if folder == models_folder:
            return


def _check_header(part: Path, file: RemoteFile) -> None:
    """A file whose bytes are those of the hub may still be no model: damaged there, or something else."""
    if not file.path.lower().endswith(".gguf"):
        return
    try:
        check_model_file(part)
    except UnsupportedModelError:
        return  # sound, but for another version of this program; the library says so
    except ModelFileError as error:
        part.unlink(missing_ok=True)
        reason = str(error).partition(": ")[2]
        raise DamagedDownloadError(
            f"{file.path} is damaged at the hub itself ({reason}); choose another version or another model."
        ) from error
