"""Ids of the real models and of the published vocabularies, against llama.cpp's."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UnsupportedModelError
from engine.gguf import open_model
from engine.tokenizer import StreamingDetokenizer, Tokenizer, load_tokenizer

# fmt: off
VECTORS = (
    "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "llama-bpe", "llama-spm", "mpt", "phi-3",
    "qwen2", "refact", "starcoder",
)
# fmt: on


def load(path: Path) -> Tokenizer:
    with open_model(path) as file:
        return load_tokenizer(file.metadata)


def cases_of(goldens: Path, name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((goldens / f"tokens_{name}.json").read_text(encoding="utf-8"))["cases"]
    return cases


@pytest.fixture(scope="module", params=["smollm2", "gemma3"])
def model(request: pytest.FixtureRequest, goldens: Path) -> tuple[Tokenizer, list[dict[str, Any]]]:
    path: Path = request.getfixturevalue(f"{request.param}_path")
    return load(path), cases_of(goldens, request.param)


def test_content(model: tuple[Tokenizer, list[dict[str, Any]]]) -> None:
    tokenizer, cases = model
    assert [tokenizer.encode(case["text"]) for case in cases] == [case["plain"] for case in cases]


def test_scaffolding(model: tuple[Tokenizer, list[dict[str, Any]]]) -> None:
    tokenizer, cases = model
    for case in cases:
        expected = case.get("parse_special", case["plain"])
        assert tokenizer.encode_with_specials(case["text"]) == expected, case["text"]


def test_prompt(model: tuple[Tokenizer, list[dict[str, Any]]]) -> None:
    tokenizer, cases = model
    for case in cases:
        expected = case.get("add_special_parse_special", case.get("parse_special", case["plain"]))
        if expected[:2] == [tokenizer.bos_id] * 2:
            expected = expected[1:]  # the text writes the beginning of text itself, and one is enough
        assert tokenizer.encode_prompt([(case["text"], True)]) == expected, case["text"]


def test_text(model: tuple[Tokenizer, list[dict[str, Any]]]) -> None:
    tokenizer, cases = model
    for case in cases:
        assert tokenizer.decode(case["plain"]) == case.get("detok_plain", case["text"])
        if "detok_parsed_specials_shown" in case:
            ids = case["parse_special"]
            assert tokenizer.decode(ids, skip_special=False) == case["detok_parsed_specials_shown"]
            assert tokenizer.decode(ids) == case["detok_parsed_specials_hidden"]


def test_the_stream_equals_the_text(model: tuple[Tokenizer, list[dict[str, Any]]]) -> None:
    tokenizer, cases = model
    for case in cases:
        stream = StreamingDetokenizer(tokenizer)
        pieces = [stream.push(token_id) for token_id in case.get("parse_special", case["plain"])]
        assert "".join(pieces) + stream.flush() == tokenizer.decode(case.get("parse_special", case["plain"]))


def test_any_cut_of_a_prompt_gives_the_same_ids(model: tuple[Tokenizer, list[dict[str, Any]]]) -> None:
    tokenizer, cases = model
    for case in cases:
        text = case["text"][:60]
        whole = tokenizer.encode_prompt([(text, False)])
        for cut in range(len(text)):
            assert tokenizer.encode_prompt([(text[:cut], False), (text[cut:], False)]) == whole


def test_facts_of_the_models(goldens: Path, smollm2_path: Path, gemma3_path: Path) -> None:
    for path, name in ((smollm2_path, "smollm2"), (gemma3_path, "gemma3")):
        facts = json.loads((goldens / f"tokens_{name}.json").read_text(encoding="utf-8"))
        tokenizer = load(path)
        assert tokenizer.vocab_size == facts["n_vocab"]
        assert (tokenizer.bos_id, tokenizer.eos_id) == (facts["bos"], facts["eos"])
        assert (tokenizer.add_bos, tokenizer.add_eos) == (bool(facts["add_bos"]), bool(facts["add_eos"]))
        assert tokenizer.end_token_ids == set(facts["eog"])
        assert tokenizer.notice is None


@pytest.fixture(scope="module")
def vectors(shared_data: Path) -> Path:
    folder = shared_data / "tokenizer_vectors"
    if not folder.is_dir():
        pytest.skip("the tokenizer vectors are not beside this checkout")
    return folder


def unpacked(vectors: Path, name: str, folder: Path) -> Path:
    path = vectors / f"ggml-vocab-{name}.gguf"
    if path.exists():
        return path
    target = folder / path.name
    target.write_bytes(gzip.decompress((vectors / f"{path.name}.gz").read_bytes()))
    return target


def pairs(vectors: Path, name: str) -> Iterator[tuple[str, list[int]]]:
    with (vectors / f"ggml-vocab-{name}.gguf.inp").open(encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")
    lines = (vectors / f"ggml-vocab-{name}.gguf.out").read_text(encoding="utf-8").split("\n")
    return ((text, [int(number) for number in line.split()]) for text, line in zip(texts, lines, strict=True))


@pytest.mark.parametrize("name", VECTORS)
def test_published_vectors(name: str, vectors: Path, tmp_path: Path) -> None:
    tokenizer = load(unpacked(vectors, name, tmp_path))
    for text, ids in pairs(vectors, name):
        assert tokenizer.encode(text) == ids, text
    assert tokenizer.notice is None


@pytest.mark.parametrize("name", ["baichuan", "gpt-neox"])
def test_vocabularies_without_vectors_decode_what_they_encode(name: str, vectors: Path, tmp_path: Path) -> None:
    tokenizer = load(unpacked(vectors, name, tmp_path))
    for text, _ in pairs(vectors, "gpt-2"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_word_piece_is_refused(vectors: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"bert-bge\.gguf: its tokenizer is WordPiece"):
        load(vectors / "ggml-vocab-bert-bge.gguf")
