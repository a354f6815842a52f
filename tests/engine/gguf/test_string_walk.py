"""Arrays of strings walked in machine code and in Python."""

from __future__ import annotations

import mmap
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.gguf import string_walk, values
from engine.gguf.string_walk import walk_strings
from engine.gguf.values import skip_strings


def mapped(content: bytes) -> mmap.mmap:
    memory = mmap.mmap(-1, len(content))
    memory[:] = content
    return memory


def packed(*texts: bytes) -> bytes:
    return b"".join(struct.pack("<Q", len(text)) + text for text in texts)


def test_strings_are_passed_over() -> None:
    content = b"head" + packed(b"one", b"", b"three") + b"tail"
    with mapped(content) as data:
        for count, end in enumerate((4, 15, 23, 36)):
            assert walk_strings(data, 4, count) == end


@pytest.mark.parametrize("length", [4, 1 << 31, 1 << 62, 1 << 63, (1 << 64) - 9, (1 << 64) - 1])
def test_a_string_that_leaves_the_data_ends_the_walk(length: int) -> None:
    with mapped(packed(b"one") + struct.pack("<Q", length) + b"two") as data:
        assert walk_strings(data, 0, 1) == 11
        assert walk_strings(data, 0, 2) is None
        assert walk_strings(data, 0, 1 << 40) is None


@given(st.lists(st.integers(0, 40), max_size=40), st.integers(0, 60), st.integers(0, 60))
def test_it_says_what_python_says(lengths: list[int], cut: int, count: int) -> None:
    content = packed(*(bytes(length) for length in lengths)) + b"\0"
    with mapped(content[: max(1, len(content) - cut)]) as data:
        end = skip_strings(data, 0, count)
        assert walk_strings(data, 0, count) == (end if end <= len(data) else None)


def test_many_strings_are_walked_in_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_MANY_STRINGS", 2)
    monkeypatch.setattr(values, "_read_length", None)
    with mapped(packed(b"one", b"two")) as data:
        assert skip_strings(data, 0, 2) == 22


def test_without_machine_code_python_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_MANY_STRINGS", 1)
    monkeypatch.setattr(string_walk, "_load", lambda: None)
    with mapped(packed(b"one", b"two")) as data:
        assert skip_strings(data, 0, 2) == 22
