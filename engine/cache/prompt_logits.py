"""The logits after the last few prompts, so that an answer is generated anew without reading a token.

Keys and values of a prompt alone do not tell its next token: the last token would have to be run again. Knows token
ids and logits only; whether the prompt is still in the KV cache is its user's question.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MAX_BYTES = 16 << 20  # 16 prompts of a vocabulary of 262,144


class PromptLogits:
    """Logits by prompt, the least recently used forgotten first."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rows: OrderedDict[tuple[int, ...], npt.NDArray[np.float32]] = OrderedDict()

    def get(self, token_ids: Sequence[int]) -> npt.NDArray[np.float32] | None:
        """(vocab_size,) float32 after ``token_ids``, None where they are not known; the row never changes."""
        key = tuple(token_ids)
        if key in self._rows:
            self._rows.move_to_end(key)
        return self._rows.get(key)

    def prefixes(self, token_ids: Sequence[int], count: int) -> list[tuple[int, ...]]:
        """The known prompts that ``token_ids`` begin with, at most ``count``, the longest first."""
        key = tuple(token_ids)
        found = [known for known in self._rows if key[: len(known)] == known]
        return sorted(found, key=len, reverse=True)[:count]

    def put(self, token_ids: Sequence[int], logits: npt.NDArray[np.float32]) -> None:
        """Keep a copy of ``logits``."""
        self._rows[tuple(token_ids)] = logits.copy()
        self._rows.move_to_end(tuple(token_ids))
        while len(self._rows) * logits.nbytes > self._max_bytes:
            self._rows.popitem(last=False)
