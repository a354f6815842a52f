"""Our byte-pair encoder against that of the `tokenizers` library."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from engine.tokenizer.bpe import NUM_CODE_POINTS, CharacterEncoder, CharacterIds
from engine.tokenizer.merges import Merges

LETTERS = ["a", "b", "▁", "\n", "é"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
TEXTS = st.text("ab▁\né€😀", max_size=40)


def encoders(
    pairs: list[tuple[int, int]],
    *,
    num_bytes: int = 256,
    has_unknown: bool = False,
    line_breaks_apart: bool = False,
) -> tuple[CharacterEncoder, Tokenizer]:
    """Both encoders of a vocabulary: letters, the first bytes, and tokens made of two before them.

    Each of ``pairs`` is taken modulo the number of tokens there are by then.
    """
    tokens = ["<unk>", *LETTERS, *BYTES[:num_bytes]]
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    mergeable = tokens[1 : 1 + len(LETTERS)]
    merges: list[tuple[str, str]] = []
    for first, second in pairs:
        left, right = mergeable[first % len(mergeable)], mergeable[second % len(mergeable)]
        if len(left + right) <= 12 and (left, right) not in merges:
            merges.append((left, right))
            if left + right not in ids:
                ids[left + right] = len(ids)
                mergeable.append(left + right)
    unknown = "<unk>" if has_unknown else None
    library = Tokenizer(
        models.BPE(vocab=ids, merges=merges, byte_fallback=True, fuse_unk=has_unknown, unk_token=unknown)
    )
    if line_breaks_apart:
        library.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n+"), "isolated")
    by_code_point = np.full(NUM_CODE_POINTS, -1, np.int32)
    for letter in LETTERS:
        by_code_point[ord(letter)] = ids[letter]
    by_byte = np.full(256, -1, np.int32)
    by_byte[:num_bytes] = [ids[text] for text in BYTES[:num_bytes]]
    columns = (
        np.array([(ids[left], ids[right], ids[left + right]) for left, right in merges], np.int32).reshape(-1, 3).T
    )
    characters = CharacterIds(by_code_point, by_byte, 0 if has_unknown else None)
    own = CharacterEncoder(characters, Merges(*np.ascontiguousarray(columns)), line_breaks_apart=line_breaks_apart)
    return own, library


@settings(max_examples=300, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=30),
    texts=st.lists(TEXTS, min_size=1, max_size=5),
    line_breaks_apart=st.booleans(),
)
def test_ids_are_those_of_the_library(
    pairs: list[tuple[int, int]], texts: list[str], line_breaks_apart: bool
) -> None:
    own, library = encoders(pairs, line_breaks_apart=line_breaks_apart)
    for text in texts:
        assert own.encode(text) == library.encode(text).ids, text


@settings(max_examples=200, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=30), text=TEXTS)
@pytest.mark.parametrize("has_unknown", [False, True])
def test_characters_without_tokens(pairs: list[tuple[int, int]], text: str, has_unknown: bool) -> None:
    own, library = encoders(pairs, num_bytes=0, has_unknown=has_unknown)
    assert own.encode(text) == library.encode(text).ids


def test_every_length_of_utf8() -> None:
    own, _ = encoders([])
    text = "\x00\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff"
    expected = [1 + len(LETTERS) + byte for byte in text.encode("utf-8")]
    assert own.encode(text) == expected


def test_a_text_of_one_letter_takes_no_quadratic_time() -> None:
    own, library = encoders([(0, 0), (5, 5), (6, 6)])
    text = "a" * 300_000
    assert own.encode(text) == library.encode(text).ids


def test_an_unknown_run_ends_at_a_byte_fallback() -> None:
    own, _ = encoders([], num_bytes=128, has_unknown=True)
    assert re.fullmatch("0,0,[1-9]+,0", ",".join(map(str, own.encode("€") + own.encode("€€\x01€")))) is not None
