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
    """Logits by prompt, the least recently used forgotten first; ``max_bytes`` bounds rows and prompts together."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._rows: OrderedDict[bytes, npt.NDArray[np.float32]] = OrderedDict()

    def get(self, token_ids: Sequence[int]) -> npt.NDArray[np.float32] | None:
        """(vocab_size,) float32 after ``token_ids``, None where they are not known; the row never changes."""
        key = _key(token_ids)
        if key in self._rows:
            self._rows.move_to_end(key)
        return self._rows.get(key)

    def prefixes(self, token_ids: Sequence[int], count: int) -> list[list[int]]:
        """The known prompts that ``token_ids`` begin with, at most ``count``, the longest first."""
        key = _key(token_ids)
        found = sorted((known for known in self._rows if key.startswith(known)), key=len, reverse=True)
        return [np.frombuffer(known, np.int32).tolist() for known in found[:count]]

    def put(self, token_ids: Sequence[int], logits: npt.NDArray[np.float32]) -> None:
        """Keep a copy of ``logits``."""
        key = _key(token_ids)
        if (known := self._rows.pop(key, None)) is not None:
            self._num_bytes -= len(key) + known.nbytes
        self._rows[key] = logits.copy()
        self._num_bytes += len(key) + logits.nbytes
        while self._num_bytes > self._max_bytes:
            oldest, row = self._rows.popitem(last=False)
            self._num_bytes -= len(oldest) + row.nbytes


def _key(token_ids: Sequence[int]) -> bytes:
    """A long prompt's ids as objects would take many times what its logits do."""
    return np.asarray(token_ids, np.int32).tobytes()
