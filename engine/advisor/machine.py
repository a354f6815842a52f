"""This machine: its memory and disk, and the speeds of the engine's own kernels on it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from engine.advisor.kernel_speeds import known_speeds
from engine.advisor.measured import MeasuredFigures
from engine.advisor.speeds import Speeds, guessed_speeds
from engine.loader import num_physical_cores

OWN_BYTES = 250_000_000  # of a process with a window and no model


@dataclass(frozen=True)
class Machine:
    """Memory and disk in bytes; ``available_bytes`` is what can be taken without swapping."""

    total_bytes: int
    available_bytes: int
    disk_free_bytes: int
    num_cores: int
    speeds: Speeds = field(compare=False)


def speeds_of_kernels() -> Speeds:
    """Of the kernels alone: measured, or guessed where nothing was measured."""
    return known_speeds() or guessed_speeds(num_physical_cores())


def look_at_machine(models_folder: Path, figures: MeasuredFigures | None = None) -> Machine:
    """The machine as it is now; what a loaded model takes of this process would be free for another one.

    The ``figures`` of models that have run here correct the kernels' speeds.
    """
    memory = psutil.virtual_memory()
    own = psutil.Process().memory_info()
    own_bytes = releasable_bytes(own.rss, getattr(own, "shared", 0))
    place = models_folder
    while not place.exists() and place != place.parent:
        place = place.parent
    speeds = speeds_of_kernels()
    return Machine(
        total_bytes=int(memory.total),
        available_bytes=min(int(memory.total), int(memory.available) + own_bytes),
        disk_free_bytes=shutil.disk_usage(place).free,
        num_cores=num_physical_cores(),
        speeds=figures.corrected(speeds) if figures is not None else speeds,
    )


def releasable_bytes(resident_bytes: int, shared_bytes: int) -> int:
    """What this process would give back without its model: mapped weights (shared) count as available anyway."""
    return max(0, resident_bytes - shared_bytes - OWN_BYTES)
