"""How many threads the next step gets while other programs use the processor.

A thread is dismissed in mid-step (see ``executor``) when the others wait for it too long. How long is too long is
said here: over some steps together, so that a window that paints a picture now and then costs no more than the
time of the picture, while a busy neighbour soon shows. The steps after a dismissal begin with as many threads as
were left; after a while one step tries again with one more, and where that one fails by itself the next try comes
later. So a neighbour that takes a core costs that core, not the waits at every barrier.
"""

from __future__ import annotations

PATIENCE_NS = 40_000_000  # a large picture takes less, and of a window's time it is a small part
PATIENCE_IN_TRY_NS = 4_000_000  # about a time slice
WINDOW_S = 0.2  # of steps that are judged together
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 3.2
_GOOD_STEPS = 30  # in a row with all threads, after which a neighbour is forgotten


class TeamSize:
    """The number of threads from step to step.

    Attributes:
        current: threads of the next step; ``begin`` may raise it.
        counts_anew: lateness before the step that begins no longer counts.
    """

    def __init__(self, num_threads: int) -> None:
        self.current = num_threads
        self.counts_anew = True
        self._num_threads = num_threads
        self._pause_s = _FIRST_PAUSE_S
        self._next_try = 0.0
        self._is_trying = False
        self._good_steps = 0
        self._window_begun = float("-inf")

    @property
    def patience_ns(self) -> int:
        """How long, in all, threads may wait for one that is late before it is dismissed."""
        return PATIENCE_IN_TRY_NS if self._is_trying else PATIENCE_NS

    def begin(self, now: float) -> int:
        """Threads for a step that begins at ``now`` (seconds on any clock)."""
        was_trying = self._is_trying
        self._is_trying = self.current < self._num_threads and now >= self._next_try
        self.counts_anew = self._is_trying or was_trying or now - self._window_begun > WINDOW_S
        if self.counts_anew:
            self._window_begun = now
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
