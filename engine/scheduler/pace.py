"""When prompts may be read beside streams: a step that reads delays every stream, and the delays have to add up.

Reading in crumbs would keep each delay small, but a step over a few tokens costs nearly as much as one over many,
so that little would be read: measured on SmolLM2, on one thread, a token costs 22 ms read by itself, 3.7 among 8,
2.3 among 16 and 1.9 among 24. So prompts are read in whole chunks, and between two of them the streams go on
undisturbed until they are, on the average of the time since, no slower than they may be.
"""

from __future__ import annotations

from typing import Final

RATIO: Final = 1.85  # of the time between two tokens of a stream, while others read, to that without
URGENT_RATIO: Final = 4.0  # the same while a short prompt is read that is more urgent than all streams
SHORT_PROMPT: Final = 512  # tokens to read, at most


class Pace:
    """Keeps account of the time that streams have waited for reading, and make good by generating alone."""

    def __init__(self) -> None:
        self._owed_s = 0.0

    @property
    def can_read(self) -> bool:
        """Whether the streams have caught up with the last chunk that was read."""
        return self._owed_s <= 0

    def note_reading(self, seconds: float) -> None:
        """A step has read while streams waited."""
        self._owed_s += seconds

    def note_generating(self, seconds: float, ratio: float) -> None:
        """A step has only generated, while the streams may be ``ratio`` times as slow as alone."""
        credit = (ratio - 1) * seconds
        self._owed_s = max(self._owed_s - credit, -credit)  # what is left of one step counts, idleness does not
