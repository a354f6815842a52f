"""The vocabulary of a GGUF file: token texts, types, scores, and the flags that go with them.

Owns reading and checking the ``tokenizer.ggml.*`` keys. Does not know how text is split into tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.errors import MetadataError
from engine.gguf import Metadata
from engine.tokenizer.texts import TokenTexts

PREFIX: Final = "tokenizer.ggml."
MAX_VOCAB_SIZE: Final = 4_000_000  # fifteen times the largest vocabulary in use; below 2**22, see merges

_SPECIAL_IDS: Final = ("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id", "unknown_token_id")


class TokenType(IntEnum):
    """What a token is for; the numbers of ``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of one file, consistent with each other.

    Attributes:
        path: the file, for messages.
        model: ``gpt2`` (byte-level BPE), ``llama`` (SentencePiece BPE), ``gemma4`` ...
        pre: the pre-tokenizer family that the file names, or None.
        tokens: texts by id and ids by text, each different from all others.
        types: (vocab_size,) int32, values of ``TokenType``.
        bos_id, eos_id, unknown_id: None where the file has none.
        ending_ids: tokens that the file itself declares to end a turn or a text.
        notice: what a person should know about it, or None.
    """

    path: Path
    model: str
    pre: str | None
    tokens: TokenTexts
    types: npt.NDArray[np.int32]
    bos_id: int | None
    eos_id: int | None
    unknown_id: int | None
    ending_ids: frozenset[int]
    notice: str | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def of_type(self, *types: TokenType) -> list[int]:
        """Ids of the tokens of these types, ascending."""
        found: list[int] = np.flatnonzero(np.isin(self.types, types)).tolist()
        return found

    def error(self, key: str, message: str) -> MetadataError:
        """An error about the metadata key ``tokenizer.ggml.<key>`` of this file."""
        return MetadataError(self.path, PREFIX + key, message)


def read_vocabulary(metadata: Metadata) -> Vocabulary:
    """The vocabulary of a file.

    Raises:
        MetadataError: a key is missing, arrays disagree in length, a token occurs twice, an id is out of range.
    """
    model = metadata.string(PREFIX + "model")
    data, size = metadata.string_data(PREFIX + "tokens")
    if not 0 < size <= MAX_VOCAB_SIZE:
        raise MetadataError(
            metadata.path, PREFIX + "tokens", f"has {size:,} tokens; between 1 and {MAX_VOCAB_SIZE:,} make sense"
        )
    tokens = TokenTexts(data, size)
    if tokens.repeated_id is not None:
        text = tokens[tokens.repeated_id]
        raise MetadataError(
            metadata.path,
            PREFIX + "tokens",
            f"lists {text[:40]!r} twice, as token {tokens.find(text):,} and {tokens.repeated_id:,}; "
            "the file is damaged",
        )
    types = _types(metadata, size)
    types[tokens.lengths == 0] = TokenType.UNUSED  # some converters leave holes
    sentencepiece = model == "llama"
    eos_id = _token_id(metadata, "eos_token_id", size, 2 if sentencepiece else None)
    declared = (eos_id, _token_id(metadata, "eot_token_id", size), _token_id(metadata, "eom_token_id", size))
    return Vocabulary(
        path=metadata.path,
        model=model,
        pre=metadata.string(PREFIX + "pre", None),
        tokens=tokens,
        types=types,
        bos_id=_token_id(metadata, "bos_token_id", size, 1 if sentencepiece else None),
        eos_id=eos_id,
        unknown_id=_token_id(metadata, "unknown_token_id", size, 0 if sentencepiece else None),
        ending_ids=frozenset(token_id for token_id in declared if token_id is not None),
        notice=_wrong_ids(metadata, size),
    )


def _types(metadata: Metadata, size: int) -> npt.NDArray[np.int32]:
    """(size,) int32; types outside the known ones count as normal."""
    key = PREFIX + "token_type"
    if key not in metadata:
        return np.full(size, TokenType.NORMAL, np.int32)
    types = metadata.integers(key)
    if types.size != size:
        raise MetadataError(
            metadata.path, key, f"has {types.size:,} entries for {size:,} tokens; the file is damaged"
        )
    known = (types >= TokenType.NORMAL) & (types <= TokenType.BYTE)
    return np.where(known, types, TokenType.NORMAL).astype(np.int32)


def read_scores(metadata: Metadata, size: int) -> npt.NDArray[np.float32]:
    """(size,) float32: how eagerly each token is merged; higher comes first."""
    key = PREFIX + "scores"
    scores = metadata.numbers(key)
    if scores.size != size:
        raise MetadataError(
            metadata.path, key, f"has {scores.size:,} entries for {size:,} tokens; the file is damaged"
        )
    if np.isnan(scores).any():
        raise MetadataError(metadata.path, key, "holds values that are not numbers; the file is damaged")
    return scores.astype(np.float32)


def _token_id(metadata: Metadata, name: str, size: int, default: int | None = None) -> int | None:
    """A token id named by the file, or ``default`` where it names none and the vocabulary is large enough."""
    value = metadata.integer(PREFIX + name, None)
    if value is None or not 0 <= value < size:  # converters write -1 or 2**32 - 1 where there is none
        return default if default is not None and default < size else None
    return value


def _wrong_ids(metadata: Metadata, size: int) -> str | None:
    """What to tell the person about token ids outside the vocabulary."""
    wrong = [
        name.removesuffix("_token_id")
        for name in _SPECIAL_IDS
        if not 0 <= (metadata.integer(PREFIX + name, 0) or 0) < size
        and metadata.integer(PREFIX + name, 0) not in (-1, 2**32 - 1)
    ]
    if not wrong:
        return None
    return (
        f"{metadata.path.name} names tokens that its vocabulary does not have ({', '.join(wrong)}); they are left "
        "out, and an answer may not end where it should. A newer conversion of the model helps."
    )
