"""Tokens and merges of a file without a Python object for each: a table of what the tokens stand for, and its use.

262,144 tokens and as many merges take 40 ms here, without the GIL; read into Python strings, looked up and put
together they took 1.5 s. Knows nothing of types or families: it is told which tokens count.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from engine.gguf import Metadata
from engine.kernels.cpu.jit import KernelSource, load_kernels
from engine.kernels.cpu.kernel_call import run_kernel
from engine.tokenizer.byte_level import byte_by_character
from engine.tokenizer.merges import Merges
from engine.tokenizer.vocabulary import PREFIX

_EMPTY: Final = -1
_INDEX_TOKENS: Final = KernelSource("engine.tokenizer.byte_kernels", "index_tokens")
_READ_MERGES: Final = KernelSource("engine.tokenizer.byte_kernels", "read_merges")


class TokenTable:
    """The usable tokens of a file by the bytes that they stand for.

    Attributes:
        by_byte: (256,) int32, tokens of one byte; -1 where there is none.
        operands: arrays and numbers as kernels take them.
    """

    def __init__(self, metadata: Metadata, usable: npt.NDArray[np.bool_], *, has_alphabet: bool) -> None:
        """``usable`` (tokens,) bool; with ``has_alphabet`` the file writes bytes as printable characters."""
        data, count = metadata.string_data(PREFIX + "tokens")
        keys = np.full(1 << (2 * count).bit_length(), _EMPTY, np.int64)
        ids = np.empty(keys.size, np.int32)
        self._alphabet = byte_by_character() if has_alphabet else None
        self.by_byte = np.full(256, -1, np.int32)
        self.operands = (keys, ids, keys.size - 1)
        kernel = load_kernels([_INDEX_TOKENS])[_INDEX_TOKENS]
        alphabet = 0 if self._alphabet is None else self._alphabet
        run_kernel(kernel, data, data.size, count, usable.view(np.int8), alphabet, *self.operands, self.by_byte)

    def read_merges(self, metadata: Metadata) -> Merges | int:
        """The merges that the file lists, without those whose parts or result are no usable tokens.

        Returns the index of the first that is no pair where there is one.
        """
        data, count = metadata.string_data(PREFIX + "merges")
        columns = [np.empty(count, np.int32) for _ in range(3)]
        broken = np.empty(1, np.int64)
        kernel = load_kernels([_READ_MERGES])[_READ_MERGES]
        alphabet = 0 if self._alphabet is None else self._alphabet
        found = run_kernel(kernel, data, data.size, count, alphabet, *self.operands, *columns, broken)
        return int(broken[0]) if broken[0] >= 0 else Merges(*(column[:found].copy() for column in columns))
