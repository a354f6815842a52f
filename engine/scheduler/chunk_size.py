"""How many prompt tokens a step may read, so that it takes about as long as it should.

A step must end soon, because commands are taken up between steps, and because other answers are waiting. How many
tokens that allows depends on model, machine, backend and depth, so it is learnt from the steps themselves.
"""

from __future__ import annotations

GRAIN = 16  # tokens; sizes are multiples of it, which suit the kernels' tiles and the blocks of the KV cache


class ChunkSize:
    """A number of tokens between two bounds, adapted to the time its steps take.

    A step takes some time whatever it reads, so a size is corrected in proportion, half way for the sake of noise.

    Attributes:
        num_tokens: the size to use now.
    """

    def __init__(self, initial: int, minimum: int, maximum: int) -> None:
        self._minimum = min(minimum, maximum)
        self._maximum = maximum
        self.num_tokens = min(max(initial, minimum), maximum)

    def observe(self, num_tokens: int, seconds: float, target_s: float) -> None:
        """Learn that a step with ``num_tokens`` prompt tokens took ``seconds`` where ``target_s`` was wanted."""
        size = self.num_tokens
        fitting = max(num_tokens, GRAIN) * target_s / max(seconds, 1e-6)  # fewer tokens cost as much
        if seconds > 2 * target_s:
            size = min(size, int(fitting))
        elif fitting < size and (seconds > target_s or num_tokens >= size):
            size = int((size + fitting) / 2)
        elif fitting > size and num_tokens >= size:
            size = int((size + min(fitting, 3 * size)) / 2)
        size -= size % GRAIN
        self.num_tokens = max(self._minimum, min(size, self._maximum))
