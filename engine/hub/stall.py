"""Tells a download that stalls from one whose computer slept: that time says nothing of the hub."""

from __future__ import annotations

import time
from collections.abc import Callable

ALIVE_BYTES = 1024  # fewer than these in the time of a stall are none; so many of a connection are progress
_SLACK_S = 5.0  # for a disk or a machine that is busy


class StallWatch:
    """Looks at how many bytes have come, whenever some come.

    A read that waits longer than ``read_timeout_s`` ends with an error. Where more time passed between two looks,
    this program did not run meanwhile: a laptop slept, or a process was halted. The hub may have sent all it could.
    """

    def __init__(
        self, stalled_after_s: float, read_timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stalled_after_s = stalled_after_s
        self._longest_wait_s = read_timeout_s + _SLACK_S
        self._clock = clock
        self._since_s = self._looked_s = clock()
        self._num_bytes = 0  # that had come by ``_since_s``

    @property
    def has_slept(self) -> bool:
        """Whether this program did not run since the last look."""
        return self._clock() - self._looked_s > self._longest_wait_s

    def is_stalled(self, num_bytes: int) -> bool:
        """Look: whether hardly a byte came in the time of a stall, given how many have come by now."""
        has_slept, now = self.has_slept, self._clock()
        self._looked_s = now
        if not has_slept and now - self._since_s <= self._stalled_after_s:
            return False
        has_little = num_bytes - self._num_bytes < ALIVE_BYTES
        self._since_s, self._num_bytes = now, num_bytes
        return has_little and not has_slept
