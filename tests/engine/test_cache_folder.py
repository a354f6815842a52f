"""One folder for all that can be made again, whatever earlier versions called it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from engine.cache_folder import _take_over, cache_folder

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names differ in case there alone")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FIRESIDE_CACHE_DIR", raising=False)
    return tmp_path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_what_the_old_folder_has_is_taken_over(base: Path) -> None:
    _write(base / "fireside" / "kernels" / "a.o", "old a")
    _write(base / "fireside" / "kernels" / "b.o", "old b")
    _write(base / "fireside" / "kernel-speeds.json", "speeds")
    _write(base / "Fireside" / "kernels" / "b.o", "new b")
    _write(base / "Fireside" / "snapshots" / "s", "kept")
    folder = cache_folder()
    assert folder == base / "Fireside"
    contents = {
        path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()
    }
    assert contents == {
        "kernels/a.o": "old a",
        "kernels/b.o": "new b",
        "kernel-speeds.json": "speeds",
        "snapshots/s": "kept",
    }
    assert (base / "fireside" / "kernels" / "b.o").read_text() == "old b"  # nothing of two is thrown away


def test_an_earlier_version_beside_it_finds_the_same(base: Path) -> None:
    _write(base / "fireside" / "kernels" / "a.o", "a")
    cache_folder()
    assert os.readlink(base / "fireside") == "Fireside"
    _take_over.cache_clear()
    _write(base / "fireside" / "kernels" / "c.o", "c")
    assert (cache_folder() / "kernels" / "c.o").read_text() == "c"


def test_nothing_is_made_where_there_was_nothing(base: Path) -> None:
    assert cache_folder() == base / "Fireside"
    assert list(base.iterdir()) == []


def test_a_folder_of_ones_own_is_left_as_it_is(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(base / "fireside" / "kernels" / "a.o", "a")
    monkeypatch.setenv("FIRESIDE_CACHE_DIR", str(base / "own"))
    assert cache_folder() == base / "own"
    assert (base / "fireside" / "kernels" / "a.o").exists()
