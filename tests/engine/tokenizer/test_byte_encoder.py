"""Our byte-level encoder against that of the `tokenizers` library."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from engine.errors import MetadataError
from engine.tokenizer.pre_tokenizers import PRE_TOKENIZERS
from tests.engine.tokenizer.vocabularies import ALPHABET, byte_level, tokenizer_of

LETTERS = ["a", "b", "Ġ", "Ã", "©", "Ċ", "1"]  # of bytes: a space, the two of "é", a line break
TEXTS = st.text("ab é\n1😀'", max_size=60)


def _merges(pairs: list[tuple[int, int]]) -> list[str]:
    """Merges of tokens there are by then, each of ``pairs`` taken modulo their number; every token is made once."""
    tokens, merges = list(LETTERS), []
    for first, second in pairs:
        left, right = tokens[first % len(tokens)], tokens[second % len(tokens)]
        if len(left + right) <= 9 and left + right not in tokens:
            tokens.append(left + right)
            merges.append(f"{left} {right}")
    return merges


def _library(merges: list[str], family: str) -> Tokenizer:
    tokens = ["<|endoftext|>", *ALPHABET, *(merge.replace(" ", "") for merge in merges)]
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    row = PRE_TOKENIZERS[family]
    vocab = {token: token_id for token_id, token in enumerate(tokens)}
    library = Tokenizer(models.BPE(vocab=vocab, merges=pairs, ignore_merges=row.whole_words))
    steps = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in row.splits]
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return library


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vocabularies")


@settings(max_examples=120, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=25),
    texts=st.lists(TEXTS, min_size=1, max_size=6),
    family=st.sampled_from(["gpt-2", "llama-bpe", "qwen2", "smollm", "deepseek-v3", "tekken"]),
)
def test_any_merges_and_any_text(folder: Path, pairs: list[tuple[int, int]], texts: list[str], family: str) -> None:
    merges = _merges(pairs)
    own = tokenizer_of(folder, byte_level(merges, pre=family))
    library = _library(merges or ["a b"], family)
    for text in texts:
        assert own.encode(text) == library.encode(text, add_special_tokens=False).ids, text


@pytest.mark.parametrize("text", ["a" * 100_000, "ab" * 50_000, "é" * 30_000, " " * 100_000])
def test_a_piece_without_end_is_merged_in_good_time(folder: Path, text: str) -> None:
    merges = ["a b", "a a", "aa aa", "Ã ©", "Ġ Ġ", "ĠĠ ĠĠ"]
    own = tokenizer_of(folder, byte_level(merges, pre="gpt-2"))
    assert own.decode(own.encode(text)) == text


def test_merges_without_effect_are_passed_over(folder: Path) -> None:
    own = tokenizer_of(
        folder, byte_level(["a b"], **{"tokenizer.ggml.merges": ["a b", "x nothing", "ab q", "é é"]})
    )
    assert own.decode(own.encode("abq xnothing éé")) == "abq xnothing éé"


@pytest.mark.parametrize("merge", ["ab", "", " ", "a ", " a", "ab "])
def test_a_merge_that_is_no_pair_is_named(folder: Path, merge: str) -> None:
    with pytest.raises(MetadataError, match="is not a pair of tokens"):
        tokenizer_of(folder, byte_level(["a b"], **{"tokenizer.ggml.merges": ["a b", merge]}))
