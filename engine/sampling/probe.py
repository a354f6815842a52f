"""Who wants to see logits beside the sampler: probabilities of values, scores of given tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt


class LogitsProbe(Protocol):
    """Looks at the logits of one sequence; it changes nothing."""

    def wants(self, start: int, end: int) -> bool:
        """Whether the logits after each of the tokens ``[start, end)`` are wanted, not only after the last."""
        ...

    def see(self, token_ids: Sequence[int], first: int, rows: npt.NDArray[np.float32]) -> None:
        """Take up logits, (n, vocab_size), valid during the call.

        Row i comes after ``token_ids[first + i]``; where the next token is there already, it was chosen from it,
        forced, or given.
        """
        ...
