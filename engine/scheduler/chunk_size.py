"""How many prompt tokens a step may read, so that it takes about as long as it should.

A step must end soon, because commands are taken up between steps, and because other answers are waiting. How many
tokens that allows depends on model, machine, backend and depth, so it is learnt from the steps themselves.
"""

from __future__ import annotations


class ChunkSize:
    """A power of two between two bounds, adapted to the time its steps take.

    Powers of two keep the sizes that occur few, and with them the shapes that the kernels see.

    Attributes:
        num_tokens: the size to use now.
    """

    def __init__(self, initial: int, minimum: int, maximum: int) -> None:
        self._minimum = min(minimum, maximum)
        self._maximum = maximum
        self.num_tokens = min(max(initial, minimum), maximum)

    def observe(self, num_tokens: int, seconds: float, target_s: float) -> None:
        """Learn that a step with ``num_tokens`` prompt tokens took ``seconds`` where ``target_s`` was wanted."""
        if seconds > 1.3 * target_s:
            self.num_tokens = max(self._minimum, self.num_tokens // 2)
        elif num_tokens >= self.num_tokens and seconds < 0.6 * target_s:
            self.num_tokens = min(self._maximum, self.num_tokens * 2)
