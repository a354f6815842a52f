"""The texts of a vocabulary, read from the file's bytes one at a time when they are asked for.

262,144 Python strings and a dictionary of them took 0.4 s and 30 MB; few of them are ever looked at. Here the
file's array is copied and indexed in 15 ms, without the GIL. Knows nothing of token types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from engine.kernels.cpu.jit import KernelSource, load_kernels
from engine.kernels.cpu.kernel_call import run_kernel
from engine.tokenizer.byte_level import byte_by_character

_EMPTY: Final = -1
_NAMELESS: Final = "\ue000"  # private use, so that no text can match the name of an empty token by accident
_MODULE: Final = "engine.tokenizer.text_kernels"
_INDEX_TEXTS: Final = KernelSource(_MODULE, "index_texts")
_FIND_TEXT: Final = KernelSource(_MODULE, "find_text")
_DECODE_TEXTS: Final = KernelSource(_MODULE, "decode_texts")
_WRITE_TOKEN_BYTES: Final = KernelSource(_MODULE, "write_token_bytes")


@dataclass(frozen=True, eq=False)
class TokenBytes:
    """The bytes of many tokens.

    Attributes:
        data: (bytes,) uint8, of all tokens, joined.
        lengths: (tokens,) uint32, bytes of each.
    """

    data: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, pieces: Sequence[bytes]) -> TokenBytes:
        """Of Python's bytes."""
        lengths = np.fromiter(map(len, pieces), np.uint32, len(pieces))
        return cls(np.frombuffer(b"".join(pieces), np.uint8), lengths)

    def pieces(self) -> list[bytes]:
        """The bytes of each token."""
        data, ends = self.data.tobytes(), np.cumsum(self.lengths, dtype=np.int64)
        return [data[start:end] for start, end in zip((ends - self.lengths).tolist(), ends.tolist())]


@dataclass(frozen=True, eq=False)
class CodePoints:
    """The characters of many texts.

    Attributes:
        codes: (characters,) uint32, of all texts, joined.
        lengths: (texts,) int64, characters of each.
    """

    codes: npt.NDArray[np.uint32]
    lengths: npt.NDArray[np.int64]

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """(texts,) int64, where each text begins."""
        starts: npt.NDArray[np.int64] = np.cumsum(self.lengths) - self.lengths
        return starts

    @classmethod
    def of(cls, texts: Sequence[str]) -> CodePoints:
        """Of Python strings."""
        codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
        return cls(codes, np.fromiter(map(len, texts), np.int64, len(texts)))


class TokenTexts(Sequence[str]):
    """Texts by id, and ids by text; bytes that are not UTF-8 read as U+FFFD, and an empty text has a made-up name.

    Attributes:
        lengths: (texts,) int64, bytes of each.
        repeated_id: the first text that another before it equals; None where all differ.
    """

    def __init__(self, data: npt.NDArray[np.uint8], count: int) -> None:
        """``data``: for each text 8 bytes of length and the bytes; it is copied."""
        self._data = np.array(data)
        self._starts = np.empty(count, np.int64)
        self.lengths = np.empty(count, np.int64)
        self._index = np.full(1 << (2 * count).bit_length(), _EMPTY, np.int32)
        self._kernels = load_kernels([_INDEX_TEXTS, _FIND_TEXT])  # the others once they are wanted
        index = (self._index, self._index.size - 1)
        repeated = run_kernel(
            self._kernels[_INDEX_TEXTS], self._data, data.size, count, *index, self._starts, self.lengths
        )
        self.repeated_id = repeated if repeated >= 0 else None

    def __len__(self) -> int:
        return self.lengths.size

    @overload
    def __getitem__(self, token_id: int) -> str: ...
    @overload
    def __getitem__(self, token_id: slice) -> list[str]: ...
    def __getitem__(self, token_id: int | slice) -> str | list[str]:
        if isinstance(token_id, slice):
            return [self[index] for index in range(*token_id.indices(len(self)))]
        return self.raw(token_id).decode("utf-8", "replace") or f"{_NAMELESS}{token_id}"

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self.find(text) is not None

    def raw(self, token_id: int) -> bytes:
        """The bytes that the file holds."""
        start = self._starts[token_id]
        return self._data[start : start + self.lengths[token_id]].tobytes()

    def find(self, text: str) -> int | None:
        """The id of a text, or None."""
        data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        index = (self._index, self._index.size - 1)
        found = run_kernel(
            self._kernels[_FIND_TEXT], data, data.size, self._data, self._starts, self.lengths, *index
        )
        return found if found >= 0 and data.size else None

    def code_points(self) -> CodePoints:
        """The characters of all texts; none of one that is not UTF-8."""
        codes = np.empty(int(self.lengths.sum()), np.uint32)
        counts = np.empty(len(self), np.int64)
        kernel = load_kernels([_DECODE_TEXTS])[_DECODE_TEXTS]
        total = run_kernel(kernel, self._data, self._starts, self.lengths, len(self), codes, counts)
        return CodePoints(codes[:total], counts)

    def token_bytes(self, kinds: npt.NDArray[np.int32]) -> TokenBytes:
        """What the texts stand for, made without the GIL; ``kinds`` (texts,): see ``kinds_for_kernels``."""
        data = np.empty(int(self.lengths.sum()) + len(self), np.uint8)
        lengths = np.empty(len(self), np.uint32)
        operands = (self._data, self._starts, self.lengths, len(self), kinds, byte_by_character(), data, lengths)
        kernel = load_kernels([_WRITE_TOKEN_BYTES])[_WRITE_TOKEN_BYTES]
        return TokenBytes(data[: run_kernel(kernel, *operands)], lengths)
