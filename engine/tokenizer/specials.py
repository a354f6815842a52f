"""Special tokens: which there are, where they stand in a text, and which of them end a generation.

Content (what people type, files, tool results) must never yield a control token, nor a marker that the model's
chat template uses, whatever type the file gives it. Scaffolding (what the template itself writes) may yield all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tokenizers import AddedToken, models
from tokenizers import Tokenizer as LibraryTokenizer

from engine.tokenizer.vocabulary import TokenType, Vocabulary

# Shapes that only markers have; ``<b>`` or a run of spaces, which files also call user-defined, are none.
_MARKER_SHAPE: Final = re.compile(r"<[|｜].*[|｜]?>|<.*[|｜]>|<(start|end)_of_\w+>|\[/?[A-Z_]{3,}\]", re.DOTALL)

# Texts that end a turn or a text, in the vocabularies in use.
# fmt: off
_ENDING_TEXTS: Final = frozenset((
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>",
    "<|flush|>", "<|endoftext|>", "<|end_of_text|>", "<|end_of_turn|>", "<|END_OF_TURN_TOKEN|>", "<|eom|>",
    "<|eot|>", "<|message_sep|>", "<end_of_turn>", "<end_of_utterance>", "<turn|>", "<|tool_response>",
    "<eos>", "</s>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<｜end▁of▁sentence｜>", "<|end▁of▁sentence|>",
    "<seed:eos>", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "<|fim_repo|>", "<|repo_name|>",
    "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
))
# fmt: on
# Where all the first are present the last only separates channels (the "harmony" format and its kin).
_SEPARATOR_RULES: Final = (
    (("<|return|>", "<|call|>"), "<|end|>"),
    (("<|flush|>", "<|calls|>"), "<|end|>"),
)


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens of one vocabulary, id by text.

    Attributes:
        control: never from content; hidden when decoding.
        markers: typed user-defined, but the chat template's own: never from content; shown when decoding.
        plain: user-defined tokens that content may hold (tags, runs of spaces).
        ending_ids: every token that ends a generation.
    """

    control: dict[str, int]
    markers: dict[str, int]
    plain: dict[str, int]
    ending_ids: frozenset[int]


def find_specials(vocabulary: Vocabulary, template_text: str) -> SpecialTokens:
    """Sort the special tokens of ``vocabulary``; ``template_text`` is all its chat templates, joined."""
    control = set(vocabulary.of_type(TokenType.CONTROL, TokenType.UNKNOWN))
    ending = set(vocabulary.ending_ids)
    for text in _ENDING_TEXTS:
        token_id = vocabulary.tokens.find(text)
        # A tag such as ``</s>`` may be a word of a vocabulary without types; a marker's shape is never one.
        if token_id is not None and (
            vocabulary.types[token_id] != TokenType.NORMAL or _MARKER_SHAPE.fullmatch(text)
        ):
            ending.add(token_id)
    for present, separator in _SEPARATOR_RULES:
        separator_id = vocabulary.tokens.find(separator)
        if separator_id is not None and all(text in vocabulary.tokens for text in present):
            ending.discard(separator_id)
            control.add(separator_id)
    declared = ending if vocabulary.bos_id is None else ending | {vocabulary.bos_id}
    # A byte or a single character may end a text too ("\n" in tiny models), but must stay writable.
    control |= {i for i in declared if vocabulary.types[i] != TokenType.BYTE and len(vocabulary.tokens[i]) > 1}
    markers: dict[str, int] = {}
    plain: dict[str, int] = {}
    for token_id in vocabulary.of_type(TokenType.USER_DEFINED):
        if token_id not in control:
            text = vocabulary.tokens[token_id]
            (markers if is_marker(text, template_text) else plain)[text] = token_id
    return SpecialTokens(
        control={vocabulary.tokens[token_id]: token_id for token_id in sorted(control)},
        markers=markers,
        plain=plain,
        ending_ids=frozenset(ending),
    )


def is_marker(text: str, template_text: str) -> bool:
    """Whether a user-defined token is a marker: by its shape, or because a template writes it.

    Words and white space that a template happens to contain are no markers.
    """
    if _MARKER_SHAPE.fullmatch(text):
        return True
    return len(text) > 2 and not text.isspace() and not text.isalnum() and text in template_text


class SpecialSplitter:
    """Finds special tokens in a text: the leftmost first, of those the longest.

    Searching is left to the added-vocabulary automaton of ``tokenizers``, around a model that knows no words.
    """

    def __init__(self, tokens: dict[str, int], trims_after: Iterable[str] = ()) -> None:
        """``tokens`` is id by text; white space after those in ``trims_after`` is dropped."""
        trims = frozenset(trims_after)
        self._library = LibraryTokenizer(models.WordLevel({"": 0}, unk_token=""))
        texts = list(filter(None, tokens))
        if trims:
            self._library.add_tokens([AddedToken(text, normalized=False, rstrip=text in trims) for text in texts])
        else:  # the same, for there is no normalizer, in a tenth of the time
            self._library.add_tokens(texts)
        self._ids = {self._library.token_to_id(text): token_id for text, token_id in tokens.items()}

    def split(self, text: str) -> list[int | str]:
        """Pieces in order: ids of special tokens, and the text between them (never empty)."""
        if not text or not self._ids:
            return [text] if text else []
        encoding = self._library.encode(text, add_special_tokens=False)
        pieces: list[int | str] = []
        for library_id, (start, end) in zip(encoding.ids, encoding.offsets):
            pieces.append(self._ids[library_id] if library_id else text[start:end])
        return pieces
