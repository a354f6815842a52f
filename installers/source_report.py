"""How the two commands speak: numbered steps on the screen, and one plain sentence when something is missing."""

from __future__ import annotations

import time


class SetupError(Exception):
    """The set-up cannot go on; ``str`` is one sentence that says what is missing and what to do."""


class Report:
    """Numbered steps, each with the time that the one before it took.

    Attributes:
        num_steps: steps in all.
    """

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps
        self._step = 0
        self._started = time.monotonic()

    def step(self, title: str) -> None:
        """Announce the next step."""
        self._step += 1
        elapsed = time.monotonic() - self._started
        print(f"[{self._step}/{self.num_steps}] {title}  ({elapsed:.0f} s so far)", flush=True)

    def line(self, text: str) -> None:
        """Say something inside the current step."""
        print(f"      {text}", flush=True)
