"""Addresses of the system's mutex and condition variable, so that threads outside Python can sleep and be woken.

POSIX gives ``pthread_mutex_*`` and ``pthread_cond_*``, Windows slim locks and condition variables; both work on
plain memory and are called by address from machine code with four integer arguments (the calling conventions of
all systems served ignore surplus ones).
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

OBJECT_BYTES = 64  # at least the size of a mutex or a condition variable on every system
_FOREVER = 0xFFFFFFFF


@dataclass(frozen=True)
class SleepCalls:
    """Addresses of the four calls; wait takes (condition, mutex, ``wait_timeout``, 0)."""

    lock: int
    unlock: int
    wait: int
    wake_all: int
    wait_timeout: int


def sleep_calls() -> SleepCalls:
    """The calls of this system."""
    if sys.platform == "win32":
        library = ctypes.WinDLL("kernel32")
        names = (
            "AcquireSRWLockExclusive",
            "ReleaseSRWLockExclusive",
            "SleepConditionVariableSRW",
            "WakeAllConditionVariable",
        )
    else:
        library = ctypes.CDLL(None)
        names = ("pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_wait", "pthread_cond_broadcast")
    lock, unlock, wait, wake_all = (
        ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names
    )
    return SleepCalls(lock, unlock, wait, wake_all, _FOREVER)


def initialize(mutex: int, condition: int) -> None:
    """Make a mutex and a condition variable at two addresses of ``OBJECT_BYTES`` zeroed bytes."""
    if sys.platform != "win32":
        library = ctypes.CDLL(None)
        for name, address in (("pthread_mutex_init", mutex), ("pthread_cond_init", condition)):
            if getattr(library, name)(ctypes.c_void_p(address), None) != 0:
                raise RuntimeError(f"{name} failed")
