"""The tokenizer of a model: text to ids and back.

Owns the rules around the encoder: which special tokens a text may yield, the space that SentencePiece puts in
front, the beginning-of-text token, the bytes of each token. Does not know chat templates: it is handed pieces of
a prompt and told which of them are scaffolding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.gguf import Metadata
from engine.tokenizer.byte_level import text_to_bytes
from engine.tokenizer.encoded_texts import EncodedTexts
from engine.tokenizer.kinds_for_kernels import ALPHABET, AS_IT_IS, BYTE, BYTE_SHIFT, MARKED, NOTHING, SPACED
from engine.tokenizer.models import (
    SPACE,
    Encode,
    build_byte_level,
    build_gemma4,
    build_sentencepiece,
    byte_value,
    kept_bytes,
    refuse_unsupported,
)
from engine.tokenizer.pre_tokenizers import PRE_TOKENIZERS, recognise_pre_tokenizer
from engine.tokenizer.specials import SpecialSplitter, SpecialTokens, find_specials, is_marker
from engine.tokenizer.text import well_formed
from engine.tokenizer.texts import TokenBytes
from engine.tokenizer.vocabulary import PREFIX, TokenType, Vocabulary, read_vocabulary

TEMPLATE_KEY: Final = "tokenizer.chat_template"
# Phi-3 drops white space after its special tokens, except these.
_PHI3_KEEPS_SPACE_AFTER: Final = frozenset(("<unk>", "<s>", "<|endoftext|>"))


class Tokenizer:
    """Text to token ids and back, for one model.

    Attributes:
        vocab_size: number of tokens; ids are below it.
        bos_id, eos_id: None where the model has none.
        end_token_ids: every token that ends a generation.
        add_bos, add_eos: what the model was trained to see around a text.
        add_space_prefix: whether a text starts as if after a space (SentencePiece).
        notice: what a person should know about how text is split, or None.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        specials: SpecialTokens,
        encode: Encode,
        *,
        add_bos: bool,
        add_eos: bool = False,
        add_space_prefix: bool = False,
        trims_after: Iterable[str] = (),
        kept: npt.NDArray[np.bool_] | None = None,
        notice: str | None = None,
    ) -> None:
        """``encode`` takes text without special tokens; see ``load_tokenizer`` for the rest."""
        self.vocab_size = len(vocabulary)
        self.bos_id = vocabulary.bos_id
        self.eos_id = vocabulary.eos_id
        self.end_token_ids = specials.ending_ids
        self.add_bos = add_bos and vocabulary.bos_id is not None
        self.add_eos = add_eos and vocabulary.eos_id is not None
        self.add_space_prefix = add_space_prefix
        self.notice = notice
        self._vocabulary = vocabulary
        self._encode = EncodedTexts(encode)
        self._trims_after = frozenset(trims_after)
        # Each token stands for so many characters at most, and for so many bytes of a byte-level vocabulary.
        self._longest = int(vocabulary.tokens.lengths.max(initial=1))
        texts = (*specials.control, *specials.markers, *specials.plain)
        self._longest_bytes = max(self._longest, *(len(text.encode("utf-8")) for text in texts), 1)
        self._kept = None if self._trims_after else kept  # what is trimmed has no tokens
        self._control_ids = frozenset(specials.control.values())
        self._is_byte_level = vocabulary.model == "gpt2"
        self._types = vocabulary.types.tolist()  # NumPy's own numbers would be 20 times slower to compare
        self._bytes: list[bytes | None] = [None] * len(vocabulary)
        self._control = specials.control
        self._markers = dict(specials.markers)
        self._plain = dict(specials.plain)
        self._make_splitters()

    def _make_splitters(self) -> None:
        self._scaffolding_splitter = SpecialSplitter(self._control | self._markers, self._trims_after)
        self._content_splitter = SpecialSplitter(self._plain, self._trims_after)

    def protect_markers(self, template_text: str) -> None:
        """Never again make from content a user-defined token that ``template_text`` uses as a marker."""
        found = [text for text in self._plain if is_marker(text, template_text)]
        for text in found:
            self._markers[text] = self._plain.pop(text)
        if found:
            self._make_splitters()

    # ------------------------------------------------------------------------------------------ text to ids

    def encode(self, text: str) -> list[int]:
        """Ids of content: no control token, no marker, no beginning-of-text token, whatever the text says."""
        return self._join([text])

    def encode_continuation(self, text: str) -> list[int]:
        """Ids of content that continues a text: as ``encode``, without the space that would begin a text."""
        ids: list[int] = []
        self._append_text(text, ids, follows_text=True)
        return ids

    def least_num_tokens(self, texts: Iterable[str]) -> int:
        """So many tokens the texts have together at the least, without tokenizing them.

        Where a vocabulary lacks some bytes, only those that it has are counted: the others may vanish.
        """
        if self._kept is None:
            return 0
        if self._kept.all():
            return -(-sum(len(text) for text in texts) // self._longest)
        data = (np.frombuffer(text.encode("utf-8", "replace"), np.uint8) for text in texts)
        return -(-sum(int(np.count_nonzero(self._kept[each])) for each in data) // self._longest_bytes)

    def encode_with_specials(self, text: str) -> list[int]:
        """Ids of scaffolding: control tokens and markers are recognised; no beginning-of-text token is added."""
        return self._join(self._scaffolding_splitter.split(well_formed(text)))

    def encode_prompt(self, segments: Sequence[tuple[str, bool]]) -> list[int]:
        """Ids of a prompt given as pieces ``(text, is_scaffolding)``.

        Pieces are joined before they are encoded, so that a cut between two does not change the ids. Where
        ``add_bos``, the prompt starts with exactly one beginning-of-text token, whether or not a piece writes it.
        """
        pieces: list[int | str] = []
        for text, is_scaffolding in segments:
            text = well_formed(text)
            pieces.extend(self._scaffolding_splitter.split(text) if is_scaffolding else [text])
        ids = self._join(pieces)
        if self.add_bos and self.bos_id is not None:
            written = 0
            while written < len(ids) and ids[written] == self.bos_id:
                written += 1
            ids[:written] = [self.bos_id]
        return ids

    def _join(self, pieces: Iterable[int | str]) -> list[int]:
        """Ids of special tokens and the text between them; neighbouring texts are encoded as one."""
        ids: list[int] = []
        texts: list[str] = []
        for piece in pieces:
            if isinstance(piece, str):
                texts.append(piece)
            else:
                self._append_text("".join(texts), ids)
                texts.clear()
                ids.append(piece)
        self._append_text("".join(texts), ids)
        return ids

    def _append_text(self, text: str, ids: list[int], follows_text: bool = False) -> None:
        """Encode text without control tokens and append its ids."""
        for piece in self._content_splitter.split(well_formed(text)):
            if isinstance(piece, int):
                ids.append(piece)
            else:
                prefix = " " if self.add_space_prefix and not follows_text else ""
                ids.extend(self._encode(prefix + piece))
            follows_text = isinstance(piece, str)

    # ------------------------------------------------------------------------------------------ ids to text

    def is_control(self, token_id: int) -> bool:
        """Whether the token is never shown: control tokens and those that end a generation."""
        return token_id in self._control_ids

    def token_text(self, token_id: int) -> str:
        """The token as the file writes it: for people who inspect, not for output."""
        return self._vocabulary.tokens[token_id] if 0 <= token_id < self.vocab_size else ""

    def token_id(self, text: str) -> int | None:
        """The id of the token that the file writes as ``text``, or None."""
        return self._vocabulary.tokens.find(text)

    def special_ids(self) -> frozenset[int]:
        """Control tokens and the chat template's own markers: what no content yields."""
        return self._control_ids | frozenset(self._markers.values())

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token stands for, control tokens included; none for ids outside the vocabulary."""
        if not 0 <= token_id < self.vocab_size:
            return b""
        cached = self._bytes[token_id]
        if cached is None:
            cached = self._bytes[token_id] = self._make_bytes(token_id)
        return cached

    def all_token_bytes(self) -> TokenBytes:
        """``token_bytes`` of every token without the GIL, those of ``special_ids`` with 0xFF before them."""
        types = self._vocabulary.types
        kinds = np.full(types.size, ALPHABET if self._is_byte_level else SPACED, np.int32)
        if not self._is_byte_level:
            for token_id in np.flatnonzero(types == TokenType.BYTE).tolist():
                value = byte_value(self._vocabulary.tokens[token_id])
                if value is not None:
                    kinds[token_id] = BYTE | value << BYTE_SHIFT
        kinds[(types == TokenType.USER_DEFINED) | (types == TokenType.UNKNOWN)] = AS_IT_IS
        kinds[list(self._control_ids)] = AS_IT_IS
        kinds[list(self.special_ids())] |= MARKED
        kinds[types == TokenType.UNUSED] = NOTHING
        return self._vocabulary.tokens.token_bytes(kinds)

    def _make_bytes(self, token_id: int) -> bytes:
        text = self._vocabulary.tokens[token_id]
        token_type = self._types[token_id]
        if token_type == TokenType.UNUSED:
            return b""
        if token_id in self._control_ids or token_type in (TokenType.USER_DEFINED, TokenType.UNKNOWN):
            return text.encode("utf-8", "replace")
        if self._is_byte_level:
            return text_to_bytes(text)
        value = byte_value(text) if token_type == TokenType.BYTE else None
        if value is not None:
            return bytes((value,))
        return text.replace(SPACE, " ").encode("utf-8", "replace")

    def decode(self, token_ids: Iterable[int], skip_special: bool = True) -> str:
        """The text of ``token_ids``, as ``StreamingDetokenizer`` streams it; what is no UTF-8 becomes U+FFFD."""
        data = b"".join(
            self.token_bytes(token_id)
            for token_id in token_ids
            if not (skip_special and token_id in self._control_ids)
        )
        if self.add_space_prefix and data.startswith(b" "):
            data = data[1:]
        return data.decode("utf-8", "replace")


def load_tokenizer(metadata: Metadata) -> Tokenizer:
    """The tokenizer of a file.

    Raises:
        MetadataError: the vocabulary is incomplete or contradicts itself.
        UnsupportedModelError: a kind of vocabulary that this version cannot run.
    """
    vocabulary = read_vocabulary(metadata)
    specials = find_specials(vocabulary, _template_text(metadata))
    notice = vocabulary.notice
    add_bos, add_space_prefix = True, False
    if vocabulary.model == "gpt2" and vocabulary.pre != "gemma4":
        family, doubt = choose_pre_tokenizer(vocabulary)
        notice = " ".join(filter(None, (notice, doubt))) or None
        add_bos = PRE_TOKENIZERS[family].adds_bos
        encode = build_byte_level(metadata, vocabulary, specials, PRE_TOKENIZERS[family])
    elif vocabulary.model in ("gpt2", "gemma4"):
        encode = build_gemma4(metadata, vocabulary, specials)
    elif vocabulary.model == "llama":
        encode = build_sentencepiece(metadata, vocabulary, specials)
        add_space_prefix = metadata.boolean(PREFIX + "add_space_prefix", True)
    else:
        refuse_unsupported(vocabulary)
    return Tokenizer(
        vocabulary,
        specials,
        encode,
        add_bos=metadata.boolean(PREFIX + "add_bos_token", add_bos),
        add_eos=metadata.boolean(PREFIX + "add_eos_token", False),
        add_space_prefix=add_space_prefix,
        trims_after=_trimming_tokens(metadata, specials),
        kept=kept_bytes(vocabulary),
        notice=notice,
    )


def choose_pre_tokenizer(vocabulary: Vocabulary) -> tuple[str, str | None]:
    """The family of a byte-level vocabulary, and what to tell the person where it is a guess."""
    if vocabulary.pre in PRE_TOKENIZERS and vocabulary.pre != "default":
        return vocabulary.pre, None
    recognised = recognise_pre_tokenizer(vocabulary.tokens)
    if recognised is not None:
        return recognised, None
    if vocabulary.pre == "default":
        return "default", None
    said = f"names the unknown way {vocabulary.pre[:40]!r}" if vocabulary.pre else "does not say how"
    return "default", (
        f"{vocabulary.path.name} {said} to split text into tokens, so a common way is used; answers may be worse "
        "than the model can give. A newer conversion of the model helps."
    )


def _trimming_tokens(metadata: Metadata, specials: SpecialTokens) -> list[str]:
    """Special tokens after which white space is dropped; the file says so only by the model's name."""
    name = metadata.string("general.name", "").lower()
    if "phi-3" not in name and "phi3" not in name:
        return []
    every = [*specials.control, *specials.markers, *specials.plain]
    return [text for text in every if text not in _PHI3_KEEPS_SPACE_AFTER]


def _template_text(metadata: Metadata) -> str:
    """All chat templates of the file, joined."""
    keys = [key for key in metadata if key.startswith(TEMPLATE_KEY) and metadata.type_name(key) == "string"]
    return "\n".join(metadata.string(key) for key in keys)
