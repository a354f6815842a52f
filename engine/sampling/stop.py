"""Stop strings over streamed text: nothing of a stop string is ever shown, and nothing else is lost or repeated.

Knows text only; end-of-generation tokens are the engine's matter.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Holds back text that may turn out to be the beginning of a stop string.

    The stop string that is complete first wins, whatever the pieces the text comes in; of two that end at the
    same character, the longer one.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(text for text in stop if text)
        self._held = ""
        self._is_stopped = False

    def push(self, text: str) -> tuple[str, bool]:
        """Return the text that is certain to be shown, and whether a stop string was met.

        After a stop every further call returns ``("", True)``.
        """
        if self._is_stopped:
            return "", True
        if not self._stop:
            return text, False
        self._held += text
        cut = self._first_match()
        if cut is not None:
            self._is_stopped = True
            shown, self._held = self._held[:cut], ""
            return shown, True
        keep = self._num_held()
        shown = self._held[: len(self._held) - keep]
        self._held = self._held[len(shown) :]
        return shown, False

    def flush(self) -> str:
        """Return what was held back: the text ended and no stop string came of it."""
        held, self._held = self._held, ""
        return held

    def _first_match(self) -> int | None:
        """Start of the stop string that is complete first."""
        best: tuple[int, int] | None = None  # (end, start)
        for stop in self._stop:
            start = self._held.find(stop)
            if start >= 0 and (best is None or (start + len(stop), start) < best):
                best = (start + len(stop), start)
        return None if best is None else best[1]

    def _num_held(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        longest = 0
        for stop in self._stop:
            for length in range(min(len(stop) - 1, len(self._held)), longest, -1):
                if self._held.endswith(stop[:length]):
                    longest = length
                    break
        return longest
