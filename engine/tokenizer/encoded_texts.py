"""The ids of texts that were encoded lately.

Each turn of a chat encodes all of its messages again, and only the last one is new.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from engine.tokenizer.models import Encode

MAX_CHARACTERS = 4_000_000  # of all texts together: with their ids about 16 MB
MIN_CHARACTERS = 64  # below that encoding is as quick as looking


class EncodedTexts:
    """``encode`` with a memory, the least recently used texts forgotten first. For any thread."""

    def __init__(self, encode: Encode, max_characters: int = MAX_CHARACTERS) -> None:
        self._encode = encode
        self._max_characters = max_characters
        self._ids: OrderedDict[str, npt.NDArray[np.int32]] = OrderedDict()
        self._num_characters = 0
        self._lock = threading.Lock()

    def __call__(self, text: str) -> list[int]:
        """Ids of ``text``."""
        if not MIN_CHARACTERS <= len(text) <= self._max_characters:
            return self._encode(text)
        with self._lock:
            known = self._ids.get(text)
            if known is not None:
                self._ids.move_to_end(text)
        if known is not None:
            ids: list[int] = known.tolist()
            return ids
        ids = self._encode(text)
        with self._lock:
            if text not in self._ids:
                self._ids[text] = np.array(ids, np.int32)
                self._num_characters += len(text)
            while self._num_characters > self._max_characters:
                forgotten, _ = self._ids.popitem(last=False)
                self._num_characters -= len(forgotten)
        return ids
