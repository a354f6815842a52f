"""Builds the encoder of a vocabulary: text without special tokens to ids.

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
from engine.tokenizer.bpe import NUM_CODE_POINTS, ByteEncoder, CharacterEncoder, CharacterIds, Cut
from engine.tokenizer.byte_level import alphabet
from engine.tokenizer.merge_cache import cached_merges
from engine.tokenizer.merges import Merges, derive_merges
from engine.tokenizer.pre_tokenizers import PreTokenizer
from engine.tokenizer.specials import SpecialTokens
from engine.tokenizer.texts import CodePoints
from engine.tokenizer.token_table import TokenTable
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


def _plain_tokens(vocabulary: Vocabulary, specials: SpecialTokens) -> npt.NDArray[np.bool_]:
    """(vocab_size,) bool, the tokens that plain text may become."""
    plain = ~np.isin(vocabulary.types, (TokenType.UNUSED, TokenType.BYTE))
    for group in (specials.control, specials.markers, specials.plain):
        plain[list(group.values())] = False
    return plain


def _byte_tokens(vocabulary: Vocabulary) -> dict[int, int]:
    """Id by byte of the byte tokens; ill-formed ones are never produced."""
    values = ((byte_value(vocabulary.tokens[i]), i) for i in vocabulary.of_type(TokenType.BYTE))
    return {value: token_id for value, token_id in values if value is not None}


def kept_bytes(vocabulary: Vocabulary) -> npt.NDArray[np.bool_]:
    """(256,) bool: the bytes of a text that have a token in any case, so that they cannot be lost."""
    if vocabulary.model == "gpt2" and vocabulary.pre != "gemma4":
        characters = alphabet()
        return np.array([characters[byte] in vocabulary.tokens for byte in range(256)])
    return np.full(256, len(_byte_tokens(vocabulary)) == 256)


def _read_merges(metadata: Metadata, vocabulary: Vocabulary, tokens: TokenTable) -> Merges:
    """The merges that the file lists. Raises MetadataError where one is no pair of tokens."""
    merges = tokens.read_merges(metadata)
    if isinstance(merges, int):
        text = metadata.strings(PREFIX + "merges")[merges]
        raise vocabulary.error("merges", f"{text[:40]!r} is not a pair of tokens; the file is damaged")
    return merges


def build_byte_level(
    metadata: Metadata, vocabulary: Vocabulary, specials: SpecialTokens, family: PreTokenizer
) -> Encode:
    """Byte-level BPE: cut by ``family``, bytes as characters, merges as the file lists them."""
    tokens = TokenTable(metadata, _plain_tokens(vocabulary, specials), has_alphabet=True)
    merges = _read_merges(metadata, vocabulary, tokens)
    return ByteEncoder(tokens, merges, cut_by(family), whole_words=family.whole_words).encode


def cut_by(family: PreTokenizer) -> Cut:
    """Finds where the pieces of a text begin."""
    library = LibraryTokenizer(models.WordLevel({"": 0}, unk_token=""))  # each piece is one unknown word
    steps = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in family.splits]
    library.pre_tokenizer = pre_tokenizers.Sequence(steps)

    def cut(text: str) -> npt.NDArray[np.int64]:
        # The batch call lets other threads run meanwhile, a single one does not.
        pieces = library.encode_batch([text], add_special_tokens=False)[0].offsets
        return np.fromiter((start for start, _ in pieces), np.int64, len(pieces))

    return cut


def build_sentencepiece(metadata: Metadata, vocabulary: Vocabulary, specials: SpecialTokens) -> Encode:
    """SentencePiece-style BPE: spaces as "▁", merges from scores, bytes for what has no token."""
    scores = read_scores(metadata, len(vocabulary))
    plain, texts = _plain_tokens(vocabulary, specials), vocabulary.tokens.code_points()
    characters = _character_ids(vocabulary, texts, plain, vocabulary.unknown_id)
    return _escape_spaces(CharacterEncoder(characters, cached_merges(derive_merges, texts, scores, plain)).encode)


def build_gemma4(metadata: Metadata, vocabulary: Vocabulary, specials: SpecialTokens) -> Encode:
    """Gemma 4: BPE over characters with spaces as "▁", runs of line breaks apart, merges listed, byte fallback."""
    plain = _plain_tokens(vocabulary, specials)
    usable = plain.copy()
    usable[list(_byte_tokens(vocabulary).values())] = True
    merges = _read_merges(metadata, vocabulary, TokenTable(metadata, usable, has_alphabet=False))
    characters = _character_ids(vocabulary, vocabulary.tokens.code_points(), plain, None)
    return _escape_spaces(CharacterEncoder(characters, merges, line_breaks_apart=True).encode)


def _character_ids(
    vocabulary: Vocabulary, texts: CodePoints, plain: npt.NDArray[np.bool_], unknown_id: int | None
) -> CharacterIds:
    """Ids of the single characters among the plain tokens, and of bytes."""
    by_code_point = np.full(NUM_CODE_POINTS, -1, np.int32)
    single = np.flatnonzero(plain & (texts.lengths == 1))
    by_code_point[texts.codes[texts.starts[single]]] = single
    by_byte = np.full(256, -1, np.int32)
    for value, token_id in _byte_tokens(vocabulary).items():
        by_byte[value] = token_id
    return CharacterIds(by_code_point, by_byte, unknown_id)


def _escape_spaces(encode: Encode) -> Encode:
    return lambda text: encode(text.replace(" ", SPACE))
