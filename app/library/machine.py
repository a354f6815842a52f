"""What the models page says of this machine and its disk. Callable on any thread."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil

from app.library.storage_card import DiskUse
from engine.plain_data import dataclass


@dataclass(frozen=True)
class MachineFacts:
    """Of this machine: bytes, and bytes a second; ``bandwidth`` 0 is not measured."""

    memory: int
    disk_free: int
    bandwidth: float


def machine_facts(models: Path) -> MachineFacts:
    """What this machine has, with the disk that the models folder is on."""
    from engine.advisor import known_speeds

    speeds = known_speeds()
    return MachineFacts(int(psutil.virtual_memory().total), _free(models), speeds.bandwidth if speeds else 0.0)


def disk_use(models: Path, snapshots: Path) -> DiskUse:
    """What the folders of models and of kept chats take."""
    from engine.library.files import total_size

    downloads = total_size([models / ".downloads"])
    return DiskUse(str(models), total_size([models]) - downloads, downloads, total_size([snapshots]), _free(models))


def _free(folder: Path) -> int:
    """Bytes that are free on the disk of a folder, which need not be there yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
