from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sampling.stop import StopStrings


def _stream(stop: list[str], pieces: list[str]) -> tuple[str, bool]:
    matcher = StopStrings(stop)
    shown = ""
    for piece in pieces:
        text, is_stopped = matcher.push(piece)
        shown += text
        if is_stopped:
            return shown, True
    return shown + matcher.flush(), False


@pytest.mark.parametrize(
    ("stop", "pieces", "expected"),
    [
        (["beta gamma"], ["alpha", " beta", " gamma", " delta"], ("alpha ", True)),
        (["abcd"], ["ab", "cx"], ("abcx", False)),
        (["abcd"], ["ab", "ab", "cd"], ("ab", True)),
        (["aab"], ["a", "a", "a", "b"], ("a", True)),
        (["\n\n"], ["one\n", "\ntwo"], ("one", True)),
        (["b", "abc"], ["abc"], ("a", True)),
        (["end", "the end"], ["this is the end."], ("this is ", True)),
        ([], ["anything"], ("anything", False)),
        ([""], ["anything"], ("anything", False)),
        (["stop"], ["st"], ("st", False)),
    ],
)
def test_known_cases(stop: list[str], pieces: list[str], expected: tuple[str, bool]) -> None:
    assert _stream(stop, pieces) == expected


def test_nothing_of_a_stop_string_is_shown_before_it_is_complete() -> None:
    matcher = StopStrings(["beta gamma"])
    assert matcher.push("alpha beta") == ("alpha ", False)
    assert matcher.push(" gam") == ("", False)
    assert matcher.push("ma") == ("", True)
    assert matcher.push("more") == ("", True)
    assert matcher.flush() == ""


_letters = st.text(alphabet="ab", max_size=30)


@given(
    text=_letters, cuts=st.lists(st.integers(0, 30)), stop=st.lists(st.text(alphabet="ab", max_size=4), max_size=3)
)
def test_the_result_does_not_depend_on_the_pieces(text: str, cuts: list[int], stop: list[str]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    shown, is_stopped = _stream(stop, pieces)
    assert (shown, is_stopped) == _stream(stop, list(text))
    assert is_stopped == any(word in text for word in stop if word)
    assert not any(word in shown for word in stop if word)
    assert text.startswith(shown)
    assert is_stopped or shown == text
