"""Concealed content answers as the plain text would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chat.content import ContentText, conceal, is_concealed, reveal, segments_of, track
from engine.tokenizer.text import well_formed

texts = st.text(st.sampled_from("ab \n\t<>|éßÉ😀"), max_size=20)
pieces = st.text(st.sampled_from("ab \n<é"), max_size=3)


@given(text=st.text(max_size=30))
def test_what_is_concealed_comes_back(text: str) -> None:
    hidden = conceal(text)
    assert reveal(hidden) == well_formed(text)
    assert all(character >= "\U000f0000" for character in str.__str__(hidden))
    assert len(hidden) >= len(well_formed(text))


@pytest.mark.parametrize("text", ["\U00020001", "\U000f0000", "\U0010ffff", "😀", "\ud83d\ude00", "\ud800"])
def test_high_characters(text: str) -> None:
    assert reveal(conceal(text)) == well_formed(text)


@given(text=texts, piece=pieces, number=st.integers(-3, 3))
def test_questions_and_cuts(text: str, piece: str, number: int) -> None:
    hidden = conceal(text)

    def same(method: str, *args: Any) -> None:
        try:
            expected = getattr(text, method)(*args)
        except ValueError:
            with pytest.raises(ValueError, match=r"substring not found|empty separator"):
                getattr(hidden, method)(*args)
            return
        got = getattr(hidden, method)(*args)
        if isinstance(expected, str):
            assert reveal(got) == expected
            assert not got or method == "replace" or is_concealed(got)
        elif isinstance(expected, (list, tuple)):
            assert [reveal(part) for part in got] == list(expected)
        else:
            assert got == expected

    for method in ("strip", "lstrip", "rstrip", "split", "rsplit"):
        same(method)
        same(method, piece or None)
    for method in ("split", "rsplit"):
        same(method, piece or None, number)
    for method in ("find", "rfind", "index", "count", "startswith", "endswith", "removeprefix", "removesuffix"):
        same(method, piece)
    if piece:
        same("partition", piece)
        same("rpartition", piece)
    for method in (
        "upper",
        "lower",
        "title",
        "capitalize",
        "splitlines",
        "isspace",
        "isalpha",
        "isupper",
        "isdigit",
    ):
        same(method)
    same("splitlines", True)
    same("replace", piece, "xy")
    same("replace", piece, "xy", number)
    assert (piece in hidden) == (piece in text)
    assert (hidden == piece) == (text == piece)
    assert (piece == hidden) == (text == piece)
    assert (hidden != piece) == (text != piece)
    assert hash(hidden) == hash(text)
    assert reveal(hidden[number:]) == text[number:]
    assert [reveal(character) for character in hidden] == list(text)
    assert reveal(f"{hidden}!") == f"{text}!"
    assert reveal("%s!" % hidden) == f"{text}!"  # noqa: UP031


def test_joined_text_keeps_where_it_comes_from() -> None:
    line = "<|user|>" + conceal(" hi ").strip() + "<|end|>"
    assert type(line) is ContentText
    assert segments_of(line) == [("<|user|>", True), ("hi", False), ("<|end|>", True)]
    assert line.split("<|end|>")[0] == "<|user|>hi"
    assert segments_of(line.upper()) == [("<|USER|>", True), ("HI", False), ("<|END|>", True)]
    assert segments_of(line.replace("hi", "<|x|>")) == [("<|user|><|x|><|end|>", True)]


def test_plain_text_stays_plain() -> None:
    assert type(track("abc é 😀")) is str
    assert type(track(str.__str__(conceal("abc")))) is ContentText
    assert segments_of("") == []
    assert segments_of("a\ud800") == [("a\ufffd", True)]


def test_a_change_of_length_counts_as_content() -> None:
    assert segments_of(("<" + conceal("ß")).upper()) == [("<SS", False)]


def test_texts_inside_lists_are_written_as_python_writes_them() -> None:
    assert reveal(str([conceal("it's \n é")])) == str(["it's \n é"])
