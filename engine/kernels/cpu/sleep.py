"""Addresses of the system's mutex, condition variable and clock, for threads outside Python to sleep and be woken.

POSIX gives ``pthread_mutex_*`` and ``pthread_cond_*``, Windows slim locks and condition variables; both work on
plain memory and are called by address from machine code with four integer arguments (the calling conventions of
all systems served ignore surplus ones). The clock is C11's, the one with the same signature everywhere.
"""

from __future__ import annotations

import ctypes
import sys
from typing import NamedTuple

OBJECT_BYTES = 64  # at least the size of a mutex or a condition variable on every system
TIME_UTC = 1  # C11's only time base
_FOREVER = 0xFFFFFFFF


class SleepCalls(NamedTuple):
    """Addresses of the calls, in the order of the control block.

    ``wait`` takes (condition, mutex, ``wait_timeout``, 0) and ``time`` (int64[2] for seconds and nanoseconds,
    ``TIME_UTC``, 0, 0).
    """

    lock: int
    unlock: int
    wait: int
    wake_all: int
    time: int
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
        clock = ctypes.CDLL("ucrtbase")._timespec64_get
    else:
        library = ctypes.CDLL(None)
        names = ("pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_wait", "pthread_cond_broadcast")
        clock = library.timespec_get
    lock, unlock, wait, wake_all, now = (
        ctypes.cast(function, ctypes.c_void_p).value or 0
        for function in (*(getattr(library, name) for name in names), clock)
    )
    return SleepCalls(lock, unlock, wait, wake_all, now, _FOREVER)


def initialize(mutex: int, condition: int) -> None:
    """Make a mutex and a condition variable at two addresses of ``OBJECT_BYTES`` zeroed bytes."""
    if sys.platform != "win32":
        library = ctypes.CDLL(None)
        for name, address in (("pthread_mutex_init", mutex), ("pthread_cond_init", condition)):
            if getattr(library, name)(ctypes.c_void_p(address), None) != 0:
                raise RuntimeError(f"{name} failed")
