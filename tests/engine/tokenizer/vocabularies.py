"""Small vocabularies for tests, written as files and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.gguf import open_model
from engine.tokenizer import Tokenizer, load_tokenizer
from engine.tokenizer.byte_level import alphabet
from engine.tokenizer.vocabulary import TokenType
from tests.gguf_writer import Value, write_gguf

BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
ALPHABET = [alphabet()[byte] for byte in range(256)]


def sentencepiece(
    words: Sequence[str],
    control: Sequence[str] = ("<unk>", "<s>", "</s>"),
    user_defined: Sequence[str] = (),
    scores: Sequence[float] | None = None,
    **keys: object,
) -> dict[str, object]:
    """Metadata of a SentencePiece vocabulary: control tokens, all bytes, user-defined tokens, words."""
    tokens = [*control, *BYTE_TOKENS, *user_defined, *words]
    types = [TokenType.UNKNOWN if text == "<unk>" else TokenType.CONTROL for text in control]
    types += [TokenType.BYTE] * 256 + [TokenType.USER_DEFINED] * len(user_defined) + [TokenType.NORMAL] * len(words)
    word_scores = [-float(n) for n in range(len(words))] if scores is None else list(scores)
    all_scores = [0.0] * (len(tokens) - len(words)) + word_scores
    return _metadata("llama", tokens, types, {"scores": Value("float32", all_scores)} | keys)


def byte_level(
    merges: Sequence[str] = (),
    control: Sequence[str] = ("<|endoftext|>",),
    user_defined: Sequence[str] = (),
    **keys: object,
) -> dict[str, object]:
    """Metadata of a byte-level vocabulary: control tokens, user-defined tokens, the alphabet, what merges make."""
    made = [merge.replace(" ", "") for merge in merges]
    tokens = [*control, *user_defined, *ALPHABET, *made]
    types = [TokenType.CONTROL] * len(control) + [TokenType.USER_DEFINED] * len(user_defined)
    types += [TokenType.NORMAL] * (256 + len(made))
    return _metadata("gpt2", tokens, types, {"pre": "gpt-2", "merges": list(merges) or ["a b"]} | keys)


def _metadata(
    model: str, tokens: Sequence[str], types: Sequence[int], keys: Mapping[str, object]
) -> dict[str, object]:
    metadata: dict[str, object] = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.tokens": list(tokens),
        "tokenizer.ggml.token_type": Value("int32", [int(number) for number in types]),
    }
    for key, value in keys.items():
        name = key if "." in key else f"tokenizer.ggml.{key}"
        if value is None:
            metadata.pop(name, None)
        else:
            metadata[name] = value
    return metadata


def tokenizer_of(folder: Path, metadata: Mapping[str, object]) -> Tokenizer:
    """The tokenizer of a file with this metadata."""
    with open_model(write_gguf(folder / "vocabulary.gguf", metadata)) as file:
        return load_tokenizer(file.metadata)
