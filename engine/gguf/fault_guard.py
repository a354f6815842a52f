"""Keeps the process alive when a mapped file cannot be read: shortened by another program, or its disk pulled out.

The system then sends SIGBUS to the thread that touched the page, inside a kernel as well as inside NumPy, and a
process without a handler ends. The handler here is machine code without Python: where the address lies in a guarded
mapping, it puts a mapping of zeros over the whole of it and sets the mapping's flag, and the reader goes on, with
values that nobody may use. Whoever reads looks at ``Guard.is_damaged`` afterwards. Every other bus error takes the
way it had before. Where another handler was put in its place meanwhile, as faulthandler's when it is enabled, the
next mapping, the next look at ``is_damaged`` and ``renew`` put it first again: the engine does so before every
step, so that only a fault in the very step in which another takes its place ends the process.

Windows needs no handler against shortened files, for it lets nobody shorten a mapped one; that a page cannot be
read from its disk is an exception there that machine code without unwind tables cannot take, and ends the process.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import mmap
import sys
import threading
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from engine.gguf.bus_error import Handler

MAX_MAPPINGS: Final = 1024  # at a time; those beyond are refused

_log = logging.getLogger(__name__)


class Guard:
    """Guards one mapping from its making until ``release``, which comes after the mapping is gone."""

    def __init__(self, begin: int, num_bytes: int) -> None:
        """Raises OSError where too many mappings are guarded already."""
        self._index = _TABLE.take(begin, begin + -(-num_bytes // mmap.PAGESIZE) * mmap.PAGESIZE)

    @property
    def is_damaged(self) -> bool:
        """Whether a part could not be read, so that all of the mapping is zeros now; renews the guard."""
        if self._index is None:
            return False
        _TABLE.renew()
        return _TABLE.is_damaged(self._index)

    def renew(self) -> None:
        """Put the handler first again, should another have taken its place; 2 us."""
        _TABLE.renew()

    def release(self) -> None:
        """Guard it no longer; a second call does nothing."""
        index, self._index = self._index, None
        if index is not None:
            _TABLE.give_back(index)


class _Table:
    """The guarded mappings as the handler reads them, in memory that is never freed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots = np.zeros((MAX_MAPPINGS, 3), np.int64)  # begin, end, is_damaged
        self._view = self._slots.data  # looked at after each step: NumPy takes longer
        self._free = list(range(MAX_MAPPINGS - 1, -1, -1))
        self._handler: Handler | None = None
        self._has_tried = False

    def take(self, begin: int, end: int) -> int | None:
        """Index of a slot for the mapping; None on a system where none can be guarded."""
        with self._lock:
            if not self._has_tried:
                self._has_tried = True
                self._handler = _install(self._slots)
            if self._handler is None:
                return None
            if not self._free:
                raise OSError(errno.EMFILE, f"{MAX_MAPPINGS:,} files are mapped already")
            self._handler.install()
            index = self._free.pop()
            self._slots[index] = 0, end, 0
            self._slots[index, 0] = begin  # last, for it makes the slot count
            return index

    def renew(self) -> None:
        """Put the handler first again."""
        if self._handler is not None:
            with self._lock:
                self._handler.install()

    def is_damaged(self, index: int) -> bool:
        return self._view[index, 2] != 0

    def give_back(self, index: int) -> None:
        with self._lock:
            self._slots[index, 0] = 0
            self._free.append(index)


def _install(slots: npt.NDArray[np.int64]) -> Handler | None:
    if sys.platform not in {"linux", "darwin"} or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        from engine.gguf.bus_error import Handler  # with the first mapping: llvmlite takes its time

        handler = Handler(slots)
        return handler if handler.install() else None
    except Exception:  # where no machine code may be made, no model runs, but files can be looked at
        _log.warning("mapped files are not guarded", exc_info=True)
        return None


_TABLE = _Table()
