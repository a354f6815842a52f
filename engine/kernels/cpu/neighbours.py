"""How many threads the next step gets while other programs use the processor.

A step that had to dismiss threads (see ``executor``) was run beside a busy neighbour. The steps after it begin with
as many as were left; after a while one step tries again with one more, and where that fails the next try comes
later. So a neighbour that takes a core costs that core, not the waits at every barrier.
"""

from __future__ import annotations

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 3.2
_GOOD_STEPS = 30  # in a row with all threads, after which a neighbour is forgotten


class TeamSize:
    """The number of threads from step to step.

    Attributes:
        current: threads of the next step; ``begin`` may raise it.
    """

    def __init__(self, num_threads: int) -> None:
        self.current = num_threads
        self._num_threads = num_threads
        self._pause_s = _FIRST_PAUSE_S
        self._next_try = 0.0
        self._is_trying = False
        self._good_steps = 0

    def begin(self, now: float) -> int:
        """Threads for a step that begins at ``now`` (seconds on any clock)."""
        self._is_trying = self.current < self._num_threads and now >= self._next_try
        return self.current + self._is_trying

    def end(self, now: float, num_left: int) -> None:
        """Note that the step ended at ``now`` with ``num_left`` threads."""
        if num_left < self.current + self._is_trying:
            if self._good_steps < _GOOD_STEPS:
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            else:
                self._pause_s = _FIRST_PAUSE_S
            self._good_steps = 0
            self._next_try = now + self._pause_s
        elif self._is_trying or num_left == self._num_threads:
            self._good_steps += 1
        self.current = num_left
