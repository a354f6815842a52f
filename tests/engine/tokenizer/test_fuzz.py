"""Vocabularies of any kind load, or are refused with one error; what loads encodes and decodes."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.gguf import open_model
from engine.tokenizer import StreamingDetokenizer, load_tokenizer
from engine.tokenizer.vocabulary import TokenType
from tests.gguf_writer import Value, write_gguf

texts = st.text(st.sampled_from("ab<>|0xF▁ \n\x00éĠ😀\ue000[]"), max_size=5) | st.sampled_from(
    ["<unk>", "<s>", "</s>", "<|im_end|>", "<0x41>", "<0x-1>", "<0xZZ>", "a" * 300, "<|end|>", "  ", "\n\n"]
)
numbers = st.integers(-2, 12)
keys = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["gpt2", "llama", "gemma4", "bert", ""]),
        "tokens": st.lists(texts, max_size=12, unique=True),
    },
    optional={
        "pre": st.sampled_from(["gpt-2", "llama-bpe", "gemma4", "zorg", "default"]),
        "token_type": st.lists(st.integers(-1, 8), max_size=12),
        "scores": st.lists(st.floats(width=32), max_size=12),
        "merges": st.lists(st.tuples(texts, texts).map(" ".join) | texts, max_size=8),
        "bos_token_id": numbers,
        "eos_token_id": numbers,
        "unknown_token_id": numbers,
        "add_bos_token": st.booleans(),
        "add_space_prefix": st.booleans(),
    },
)


def made_sound(values: dict[str, Any]) -> dict[str, Any]:
    """``values``, bent so that the file should load, with odd texts and types all the same."""
    tokens = values["tokens"] or ["a"]
    size = len(tokens)
    pairs = [merge for merge in values.get("merges", ()) if " " in merge[1:-1]]
    scores = [0.0 if isnan(score) else score for score in values.get("scores", ())]
    sound = values | {
        "model": values["model"] if values["model"] in ("gpt2", "llama", "gemma4") else "llama",
        "tokens": tokens,
        "token_type": (values.get("token_type", []) + [int(TokenType.NORMAL)] * size)[:size],
        "scores": (scores + [float(-number) for number in range(size)])[:size],
        "merges": pairs or ["a b"],
    }
    return sound | {key: abs(sound[key]) % size for key in sound if key.endswith("_id")}


def as_metadata(values: dict[str, Any]) -> dict[str, object]:
    metadata: dict[str, object] = {"general.architecture": "llama"}
    for key, value in values.items():
        if key in ("token_type", "scores"):
            value = Value("int32" if key == "token_type" else "float32", value)
        elif key in ("tokens", "merges"):
            value = Value("string", value)
        elif key.endswith("_id"):
            value = Value("int32", value)
        metadata[f"tokenizer.ggml.{key}"] = value
    return metadata


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "vocabulary.gguf"


@settings(max_examples=300, deadline=None)
@given(values=keys, is_sound=st.booleans(), text=st.lists(texts, max_size=4).map("".join))
def test_any_vocabulary(values: dict[str, Any], is_sound: bool, text: str, path: Path) -> None:
    values = made_sound(values) if is_sound else values
    with open_model(write_gguf(path, as_metadata(values))) as file:
        try:
            tokenizer = load_tokenizer(file.metadata)
        except EngineError:
            event("refused")
            return
    event("loaded")
    ids = tokenizer.encode(text)
    assert all(0 <= token_id < tokenizer.vocab_size for token_id in ids)
    unknown = values.get("unknown_token_id", 0)
    assert not any(tokenizer.is_control(token_id) and token_id != unknown for token_id in ids)
    specials = tokenizer.encode_with_specials(text)
    stream = StreamingDetokenizer(tokenizer)
    assert "".join(map(stream.push, specials)) + stream.flush() == tokenizer.decode(specials)
    prompt = tokenizer.encode_prompt([(text, True), (text, False)])
    if tokenizer.add_bos:
        assert prompt[0] == tokenizer.bos_id
