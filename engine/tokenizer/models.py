"""Builds the encoder of a vocabulary: text without special tokens to ids, by the `tokenizers` library.

Special tokens are no part of these encoders: they are left out of their vocabularies, so that no merge and no
whole-word match can produce one from plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from engine.errors import UnsupportedModelError
from engine.gguf import Metadata
from engine.tokenizer.bpe import NUM_CODE_POINTS, CharacterEncoder, CharacterIds
from engine.tokenizer.merges import Merges, derive_merges
from engine.tokenizer.pre_tokenizers import PreTokenizer
from engine.tokenizer.specials import SpecialTokens
from engine.tokenizer.vocabulary import PREFIX, TokenType, Vocabulary, read_scores

Encode = Callable[[str], list[int]]

_BYTE_TOKEN: Final = re.compile(r"<0x[0-9A-Fa-f]{2}>")
SPACE: Final = "▁"  # how SentencePiece vocabularies write a space
_UNSUPPORTED: Final = {
    "bert": "WordPiece, which belongs to embedding models",
    "t5": "Unigram, which belongs to translation models",
    "rwkv": "RWKV's own",
    "plamo2": "PLaMo's own",
    "none": "absent",
    "no_vocab": "absent",
}


def byte_value(token: str) -> int | None:
    """The byte that a byte token such as ``<0x0A>`` stands for, or None where the text is no such token."""
    return int(token[3:5], 16) if _BYTE_TOKEN.fullmatch(token) else None


def refuse_unsupported(vocabulary: Vocabulary) -> None:
    """Raise ``UnsupportedModelError`` for a kind of vocabulary that this version cannot run."""
    kind = _UNSUPPORTED.get(vocabulary.model, f"of the unknown kind {vocabulary.model[:40]!r}")
    raise UnsupportedModelError(
        vocabulary.path, f"its tokenizer is {kind}; this version cannot run it, so choose another model"
    )


def _plain_vocabulary(vocabulary: Vocabulary, specials: SpecialTokens) -> dict[str, int]:
    """Id by text, of all tokens that plain text may become."""
    ids = dict(vocabulary.ids)
    for group in (specials.control, specials.markers, specials.plain):
        for text in group:
            del ids[text]
    for token_id in vocabulary.of_type(TokenType.UNUSED, TokenType.BYTE):
        ids.pop(vocabulary.tokens[token_id], None)
    return ids


def _byte_vocabulary(vocabulary: Vocabulary) -> dict[str, int]:
    """The byte tokens, with texts as the library looks for them; ill-formed ones are never produced."""
    values = ((byte_value(vocabulary.tokens[i]), i) for i in vocabulary.of_type(TokenType.BYTE))
    return {f"<0x{value:02X}>": token_id for value, token_id in values if value is not None}


def _read_merges(metadata: Metadata, vocabulary: Vocabulary, ids: dict[str, int]) -> list[tuple[str, str]]:
    """The merges that the file lists, each a pair separated by the first space after its first character.

    Those that name or make no token of ``ids`` are left out: they have no effect, and make the library panic.
    """
    merges = []
    for merge in metadata.strings(PREFIX + "merges"):
        cut = merge.find(" ", 1)
        if cut < 0 or cut == len(merge) - 1:
            raise vocabulary.error("merges", f"{merge[:40]!r} is not a pair of tokens; the file is damaged")
        left, right = merge[:cut], merge[cut + 1 :]
        if left in ids and right in ids and left + right in ids:
            merges.append((left, right))
    return merges


def build_byte_level(
    metadata: Metadata, vocabulary: Vocabulary, specials: SpecialTokens, family: PreTokenizer
) -> Encode:
    """Byte-level BPE: cut by ``family``, bytes as characters, merges as the file lists them."""
    ids = _plain_vocabulary(vocabulary, specials)
    merges = _read_merges(metadata, vocabulary, ids)
    library = LibraryTokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=family.whole_words))
    steps = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in family.splits]
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return _encode_with(library)


def build_sentencepiece(metadata: Metadata, vocabulary: Vocabulary, specials: SpecialTokens) -> Encode:
    """SentencePiece-style BPE: spaces as "▁", merges from scores, bytes for what has no token."""
    scores = read_scores(metadata, len(vocabulary))
    ids = _plain_vocabulary(vocabulary, specials)
    mergeable: npt.NDArray[np.bool_] = np.zeros(len(vocabulary), np.bool_)
    mergeable[np.fromiter(ids.values(), np.int64, len(ids))] = True
    merges = derive_merges(vocabulary.tokens, scores, mergeable)
    characters = _character_ids(vocabulary, ids, vocabulary.unknown_id)
    return _escape_spaces(CharacterEncoder(characters, merges).encode)


def build_gemma4(metadata: Metadata, vocabulary: Vocabulary, specials: SpecialTokens) -> Encode:
    """Gemma 4: BPE over characters with spaces as "▁", runs of line breaks apart, merges listed, byte fallback."""
    plain = _plain_vocabulary(vocabulary, specials)
    ids = plain | _byte_vocabulary(vocabulary)
    pairs = _read_merges(metadata, vocabulary, ids)
    merges = Merges(
        left=np.fromiter((ids[left] for left, _ in pairs), np.int32, len(pairs)),
        right=np.fromiter((ids[right] for _, right in pairs), np.int32, len(pairs)),
        made=np.fromiter((ids[left + right] for left, right in pairs), np.int32, len(pairs)),
    )
    characters = _character_ids(vocabulary, plain, None)
    return _escape_spaces(CharacterEncoder(characters, merges, line_breaks_apart=True).encode)


def _character_ids(vocabulary: Vocabulary, ids: dict[str, int], unknown_id: int | None) -> CharacterIds:
    """Ids of the single characters in ``ids``, and of bytes."""
    by_code_point = np.full(NUM_CODE_POINTS, -1, np.int32)
    for text, token_id in ids.items():
        if len(text) == 1:
            by_code_point[ord(text)] = token_id
    by_byte = np.full(256, -1, np.int32)
    for text, token_id in _byte_vocabulary(vocabulary).items():
        by_byte[int(text[3:5], 16)] = token_id
    return CharacterIds(by_code_point, by_byte, unknown_id)


def _escape_spaces(encode: Encode) -> Encode:
    return lambda text: encode(text.replace(" ", SPACE))


def _encode_with(library: LibraryTokenizer) -> Encode:
    def encode(text: str) -> list[int]:
        # The batch call lets other threads run meanwhile, a single one does not: 1.6 s for a text of 1 MB.
        ids: list[int] = library.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return ids

    return encode
