"""Derived merges that are kept."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from engine.tokenizer import merge_cache
from engine.tokenizer.merge_cache import cached_merges, merges_folder
from engine.tokenizer.merges import Merges, derive_merges
from engine.tokenizer.texts import CodePoints

TEXTS = CodePoints.of(["a", "b", "ab", "abb", "ba"])
SCORES = -np.arange(5, dtype=np.float32)
ALL = np.ones(5, np.bool_)


class Deriving:
    """``derive_merges``, counting."""

    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(
        self, texts: CodePoints, scores: npt.NDArray[np.float32], mergeable: npt.NDArray[np.bool_]
    ) -> Merges:
        self.num_calls += 1
        return derive_merges(texts, scores, mergeable)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(merge_cache, "LEAST_TOKENS", 1)
    monkeypatch.setattr(merge_cache, "cache_folder", lambda: tmp_path)
    return merges_folder()


def columns(merges: Merges) -> list[list[int]]:
    return [merges.left.tolist(), merges.right.tolist(), merges.made.tolist()]


def test_merges_are_derived_once() -> None:
    derive = Deriving()
    first, second = (cached_merges(derive, TEXTS, SCORES, ALL) for _ in range(2))
    assert derive.num_calls == 1
    assert columns(first) == columns(second) == columns(derive_merges(TEXTS, SCORES, ALL))
    assert first.made.size == 3
    assert second.left.dtype == np.int32


@pytest.mark.parametrize(
    ("texts", "scores", "mergeable"),
    [
        (CodePoints.of(["a", "b", "ab", "abb", "bb"]), SCORES, ALL),
        (TEXTS, SCORES[::-1], ALL),
        (TEXTS, SCORES, np.array([1, 1, 0, 1, 1], np.bool_)),
    ],
    ids=["texts", "scores", "mergeable"],
)
def test_another_vocabulary_is_derived_anew(
    texts: CodePoints, scores: npt.NDArray[np.float32], mergeable: npt.NDArray[np.bool_]
) -> None:
    derive = Deriving()
    cached_merges(derive, TEXTS, SCORES, ALL)
    merges = cached_merges(derive, texts, scores, mergeable)
    assert derive.num_calls == 2
    assert columns(merges) == columns(derive_merges(texts, scores, mergeable))


def test_a_damaged_file_is_derived_anew(folder: Path) -> None:
    derive = Deriving()
    expected = columns(cached_merges(derive, TEXTS, SCORES, ALL))
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for count, content in enumerate((b"", whole[:-1], whole + b"x", whole[:-1] + b"\x7f", b"x" + whole[1:]), 2):
        path.write_bytes(content)
        assert columns(cached_merges(derive, TEXTS, SCORES, ALL)) == expected
        assert derive.num_calls == count
    assert path.read_bytes() == whole


def test_a_file_of_another_vocabulary_is_derived_anew(folder: Path) -> None:
    """Sound and of the same size, but under the wrong name, as after a mistake in mending the folder by hand."""
    derive = Deriving()
    other = TEXTS, SCORES[::-1].copy(), ALL
    expected = [columns(cached_merges(derive, *of)) for of in ((TEXTS, SCORES, ALL), other)]
    assert expected[0] != expected[1]
    one, two = folder.iterdir()
    contents = one.read_bytes(), two.read_bytes()
    one.write_bytes(contents[1])
    two.write_bytes(contents[0])
    found = [columns(cached_merges(derive, *of)) for of in ((TEXTS, SCORES, ALL), other)]
    assert found == expected
    assert derive.num_calls == 4


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.write_text("no folder", encoding="utf-8")
    derive = Deriving()
    for _ in range(2):
        assert cached_merges(derive, TEXTS, SCORES, ALL).made.size == 3
    assert derive.num_calls == 2


def test_small_vocabularies_are_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_cache, "LEAST_TOKENS", 6)
    cached_merges(derive_merges, TEXTS, SCORES, ALL)
    assert not folder.exists()


def test_files_used_longest_ago_go(folder: Path) -> None:
    for number in range(merge_cache.MAX_FILES + 3):
        cached_merges(derive_merges, TEXTS, SCORES - number, ALL)
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (number, number))
    assert len(list(folder.iterdir())) == merge_cache.MAX_FILES
    derive = Deriving()
    cached_merges(derive, TEXTS, SCORES - number, ALL)
    assert derive.num_calls == 0
    cached_merges(derive, TEXTS, SCORES, ALL)
    assert derive.num_calls == 1
