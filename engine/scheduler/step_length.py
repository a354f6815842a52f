"""How many tokens of a stream a step computes one after the other, before anybody hears of them.

What passes between two steps, sampling, books, text and events, costs the same whatever a step computes. Where a
token takes little time, a step computes several: as many as a person still sees as one flow.
"""

from __future__ import annotations

from typing import Final

TARGET_S: Final = 0.033  # of a step over several tokens, two pictures of a screen; a command waits for its end


class StepLength:
    """Adapts to the time that a token takes.

    Attributes:
        num_ahead: tokens after the first one; ``most`` is as many as the backend can.
    """

    def __init__(self, most: int) -> None:
        self.num_ahead = 0
        self._most = most
        self._token_s = 0.0  # moving average

    def observe(self, num_tokens: int, seconds: float) -> None:
        """Learn that ``num_tokens``, one after the other, took ``seconds``."""
        token_s = seconds / num_tokens
        self._token_s = 0.7 * self._token_s + 0.3 * token_s if self._token_s > 0 else token_s
        self.num_ahead = min(self._most, max(0, int(TARGET_S / max(self._token_s, 1e-6)) - 1))
