"""Object files in the cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.object_files import address_of, read_object, write_object


def test_old_versions_are_removed_and_young_ones_kept(tmp_path: Path) -> None:
    old, young, new = (tmp_path / f"norm-rms_norm-{version}.o" for version in ("1", "2", "3"))
    other = tmp_path / "norm-rms_norm_wide-1.o"
    for path in (old, young, other):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    write_object(new, "symbol", b"code")
    assert sorted(tmp_path.iterdir()) == sorted([young, other, new])
    assert read_object(new) == ("symbol", b"code")


def test_a_damaged_file_is_no_code(tmp_path: Path) -> None:
    path = tmp_path / "norm-1.o"
    write_object(path, "symbol", b"code")
    for content in (path.read_bytes()[:-1], path.read_bytes() + b"x", b""):
        path.write_bytes(content)
        assert read_object(path) is None
    assert read_object(tmp_path / "absent.o") is None


def test_code_kept_under_the_name_of_another_is_no_code(tmp_path: Path) -> None:
    """A kernel of any name has the same four arguments, so that nothing but its results would tell."""
    kept, other = tmp_path / "norm-rms_norm-1.o", tmp_path / "norm-layer_norm-1.o"
    write_object(kept, "symbol", b"code")
    other.write_bytes(kept.read_bytes())
    assert read_object(other) is None
    kept.rename(tmp_path / "norm-rms_norm-2.o")
    assert read_object(tmp_path / "norm-rms_norm-2.o") is None
    (tmp_path / "norm-rms_norm-2.o").rename(kept)
    assert read_object(kept) == ("symbol", b"code")


def test_a_symbol_that_is_nowhere_is_told() -> None:
    with pytest.raises(RuntimeError, match="the code of absent_symbol did not load"):
        address_of("absent_symbol")
