"""A file mapped for reading that another program may shorten, change or take away meanwhile.

Knows nothing of what is in it.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np

from engine.errors import ModelFileError, TruncatedFileError
from engine.gguf.fault_guard import Guard


class MappedFile(mmap.mmap):
    """All bytes of a file, read-only; reading what is not there any more gives zeros instead of ending the process.

    Attributes:
        path: the file.
    """

    path: Path
    _descriptor: int
    _changed_ns: int
    _guard: Guard

    def __new__(cls, path: Path, file: BinaryIO) -> MappedFile:
        """Raises OSError where it cannot be mapped, ValueError where it is empty."""
        mapped = super().__new__(cls, file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.path = path
        mapped._guard = Guard(np.frombuffer(mapped, np.uint8).ctypes.data, len(mapped))
        mapped._descriptor = os.dup(file.fileno())
        mapped._changed_ns = os.fstat(mapped._descriptor).st_mtime_ns
        return mapped

    def renew_guard(self) -> None:
        """Before it is read: another handler of faults may have taken the place of the guard's."""
        self._guard.renew()

    def check_readable(self) -> None:
        """Raises ModelFileError where the file became shorter, or a part of it could not be read so far.

        What was read before is then of no use.
        """
        self._check_size(self._state())

    def check_unchanged(self) -> None:
        """The same, and also where the file was written to since it was mapped."""
        state = self._state()
        self._check_size(state)
        if state.st_mtime_ns != self._changed_ns:
            raise ModelFileError(
                self.path, "the file was changed while it was in use; once it is complete, load the model again"
            )

    def close(self) -> None:
        """Unmap it, or raise BufferError where arrays still show it; it then goes with the last of them."""
        super().close()
        self._let_go()

    def __del__(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        """After the mapping is gone, or in the same moment."""
        if (descriptor := self.__dict__.pop("_descriptor", None)) is not None:
            os.close(descriptor)
        if (guard := self.__dict__.get("_guard")) is not None:
            guard.release()

    def _state(self) -> os.stat_result:
        try:
            return os.fstat(self._descriptor)
        except OSError as error:  # a stick that was pulled out, a network that is gone
            raise self._unreadable(error.strerror) from None

    def _check_size(self, state: os.stat_result) -> None:
        if state.st_size < len(self):
            raise TruncatedFileError(
                self.path,
                f"the file was shortened from {len(self):,} to {state.st_size:,} bytes while it was in use; "
                "wait until it is complete, or download it again",
            )
        if self._guard.is_damaged:
            raise self._unreadable(None)

    def _unreadable(self, reason: str | None) -> ModelFileError:
        why = f" ({reason})" if reason else ""
        return ModelFileError(
            self.path,
            f"the file could not be read while it was in use{why}; check the disk or stick that it is on, "
            "and load the model again",
        )
