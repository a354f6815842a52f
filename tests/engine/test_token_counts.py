from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import token_counts
from engine.protocol import CountTokens, Event, RequestFailed, TokensCounted
from engine.token_counts import TokenCounts, pieces


class _Tokenizer:
    """A token a character; remembers what it was asked for, and may call something in between."""

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.then: Callable[[], None] = lambda: None

    def encode(self, text: str) -> list[int]:
        self.encoded.append(text)
        self.then()
        return [0] * len(text)

    encode_continuation = encode


class _Model:
    def __init__(self) -> None:
        self.tokenizer = _Tokenizer()


class _Later:
    """A thread that is asked to run."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Callable[[Future[Any]], None]]] = []

    def __call__(self, job: Callable[[], Any], then: Callable[[Future[Any]], None], /) -> None:
        self.jobs.append((job, then))

    def run_all(self) -> None:
        while self.jobs:
            job, then = self.jobs.pop(0)
            future: Future[Any] = Future()
            try:
                future.set_result(job())
            except ValueError as error:
                future.set_exception(error)
            then(future)


@pytest.fixture
def said() -> list[Event]:
    return []


@pytest.fixture
def later() -> _Later:
    return _Later()


@pytest.fixture
def counts(said: list[Event], later: _Later) -> TokenCounts:
    return TokenCounts(said.append, later)


def test_of_texts_that_wait_the_newest_alone_is_counted(
    counts: TokenCounts, said: list[Event], later: _Later
) -> None:
    model = _Model()
    for number in range(5):
        counts.count(CountTokens(f"r{number}", "word" * number), model)  # type: ignore[arg-type]
    later.run_all()
    assert model.tokenizer.encoded == ["word" * 4]
    assert said == [TokensCounted("r4", 16)]


def test_a_count_ends_when_a_newer_one_comes(
    counts: TokenCounts, said: list[Event], later: _Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_counts.pieces, "__defaults__", (100,))
    model = _Model()
    counts.count(CountTokens("old", "word " * 1000), model)  # type: ignore[arg-type]
    newer = CountTokens("new", "word")
    model.tokenizer.then = lambda: counts.count(newer, model) if len(model.tokenizer.encoded) == 3 else None  # type: ignore[arg-type]
    later.run_all()
    assert len(model.tokenizer.encoded) == 3 + 1
    assert said == [TokensCounted("new", 4)]


def test_what_is_in_work_at_the_end_is_given_up(counts: TokenCounts, said: list[Event], later: _Later) -> None:
    model = _Model()
    counts.count(CountTokens("r", "word"), model)  # type: ignore[arg-type]
    counts.stop()
    later.run_all()
    assert not model.tokenizer.encoded
    assert not said


def test_what_cannot_be_counted_is_said(counts: TokenCounts, said: list[Event], later: _Later) -> None:
    counts.count(CountTokens("r", "word"), None)
    model = _Model()

    def fail() -> None:
        raise ValueError("odd")

    model.tokenizer.then = fail
    counts.count(CountTokens("s", "word"), model)  # type: ignore[arg-type]
    later.run_all()
    assert [type(event) for event in said] == [RequestFailed, RequestFailed]


@given(st.text(alphabet="ab1 \n.é日", max_size=400), st.integers(2, 60))
def test_pieces_are_all_of_the_text(text: str, size: int) -> None:
    made = list(pieces(text, size))
    assert "".join(made) == text
    assert max(map(len, made)) <= size


def test_a_text_that_grows_keeps_its_first_pieces() -> None:
    words = random.Random(1).choices(["a line of words", "and a word\nthat ends it.", "日本語"], k=400)
    text = "\n".join(words)
    before, after = list(pieces(text, 500)), list(pieces(text + " and more of it" * 50, 500))
    assert len(before) > 10
    assert after[: len(before) - 1] == before[:-1]
    assert all(piece[0] == " " or before[number][-1] == "\n" for number, piece in enumerate(before[1:]))
