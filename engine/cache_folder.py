"""Where the engine keeps what can be made again: compiled kernels, derived merges, this machine's speeds.

One folder for all of the program; earlier versions had one of another spelling beside it.
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "FIRESIDE_CACHE_DIR"
_NAME, _OLD_NAME = "Fireside", "fireside"


def cache_folder() -> Path:
    """``FIRESIDE_CACHE_DIR``, or the program's folder in the user's cache folder."""
    configured = os.environ.get(CACHE_VARIABLE)
    if configured:
        return Path(configured)
    folder = Path(platformdirs.user_cache_dir(_NAME, appauthor=False))
    _take_over(folder.with_name(_OLD_NAME), folder)
    return folder


@cache
def _take_over(old: Path, new: Path) -> None:
    """Bring what the old folder has into the new one; many disks take the two names for one folder."""
    with contextlib.suppress(OSError):
        if not old.is_dir() or old.is_symlink() or (new.exists() and old.samefile(new)):
            return
        new.mkdir(parents=True, exist_ok=True)
        for path in sorted(old.iterdir()):
            target = new / path.name
            if path.is_dir() and target.is_dir():
                for inner in sorted(path.iterdir()):
                    if not os.path.lexists(target / inner.name):
                        os.replace(inner, target / inner.name)
            elif not os.path.lexists(target):
                os.replace(path, target)
        for path in (*old.iterdir(), old):
            with contextlib.suppress(OSError):
                path.rmdir()  # what is left in it stays
        if not old.exists():  # an earlier version that is still used finds its kernels
            os.symlink(new.name, old)
