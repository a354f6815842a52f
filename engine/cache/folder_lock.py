"""A lock between the programs that share a folder; it ends with the program that holds it, whatever ends that."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

POLL_S = 0.005

if sys.platform == "win32":
    import msvcrt

    def _open(folder: Path) -> int:
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)

    def _try(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _open(folder: Path) -> int:
        return os.open(folder, os.O_RDONLY)

    def _try(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def folder_lock(folder: Path, timeout_s: float) -> Iterator[bool]:
    """Hold the lock of ``folder``; gives whether it was to be had within ``timeout_s``.

    A file system without locks counts as one that nobody else uses. Not reentrant. Raises OSError where there is no
    such folder.
    """
    descriptor = _open(folder)
    try:
        yield _wait(descriptor, time.monotonic() + timeout_s)
    finally:
        os.close(descriptor)


def _wait(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            _try(descriptor)
        except (BlockingIOError, PermissionError):  # somebody holds it, as POSIX and Windows say it
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        except OSError:
            return True
        else:
            return True
