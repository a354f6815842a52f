"""Typed access to metadata, and errors that name the file and the key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import MetadataError
from engine.gguf import ArraySummary, GGUFFile, Metadata, open_model
from tests.gguf_writer import Value, write_gguf

VALUES: dict[str, object] = {
    "u8": Value("uint8", 200),
    "i8": Value("int8", -100),
    "u16": Value("uint16", 60000),
    "i16": Value("int16", -30000),
    "u32": Value("uint32", 2**32 - 1),
    "i32": Value("int32", -(2**31)),
    "u64": Value("uint64", 2**64 - 1),
    "i64": Value("int64", -(2**63)),
    "f32": Value("float32", 0.5),
    "f64": Value("float64", 1e-300),
    "nan": Value("float32", float("nan")),
    "infinite": Value("float64", float("inf")),
    "yes": True,
    "no": False,
    "text": "Grüße, 世界 🙂",
    "broken text": Value("string", b"a\xffb\xe4\xb8"),
    "empty text": "",
    "texts": ["", "a", "\x00\n", "ü" * 300],
    "broken texts": Value("string", [b"\xff", b"a\xe4\xb8", b"b"]),
    "u8s": Value("uint8", [1, 255]),
    "i16s": Value("int16", [-1, 2, 3]),
    "i64s": Value("int64", [-(2**63), 2**63 - 1]),
    "u64s": Value("uint64", [1, 2**63 - 1]),
    "huge u64s": Value("uint64", [1, 2**63]),
    "f32s": [0.25, float("-inf")],
    "f64s": Value("float64", [0.1, 1e300]),
    "bools": [True, False],
    "many": list(range(100)),
    "none": Value("int32", []),
    "llama.block_count": 100_000,
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GGUFFile]:
    path = write_gguf(tmp_path_factory.mktemp("metadata") / "values.gguf", VALUES)
    with open_model(path) as opened:
        yield opened


@pytest.fixture
def metadata(file: GGUFFile) -> Metadata:
    return file.metadata


def test_is_a_mapping_of_keys_in_file_order(metadata: Metadata) -> None:
    assert list(metadata) == list(VALUES)
    assert len(metadata) == len(VALUES)
    assert "u8" in metadata
    assert "absent" not in metadata
    assert 3 not in metadata


def test_integers_of_every_width(metadata: Metadata) -> None:
    for key in ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"):
        value = VALUES[key]
        assert isinstance(value, Value)
        assert metadata.integer(key) == value.value
        assert metadata.type_name(key) == value.type


def test_numbers(metadata: Metadata) -> None:
    assert metadata.number("f32") == 0.5
    assert metadata.number("f64") == 1e-300
    number = metadata.number("u8")
    assert number == 200.0
    assert isinstance(number, float)


def test_booleans_and_strings(metadata: Metadata) -> None:
    assert metadata.boolean("yes") is True
    assert metadata.boolean("no") is False
    assert metadata.string("text") == "Grüße, 世界 🙂"
    assert metadata.string("broken text") == "a\ufffdb\ufffd"
    assert metadata.string("empty text") == ""


def test_arrays(metadata: Metadata) -> None:
    assert metadata.strings("texts") == ["", "a", "\x00\n", "ü" * 300]
    assert metadata.strings("broken texts") == ["\ufffd", "a\ufffd", "b"]
    assert metadata.byte_strings("broken texts") == [b"\xff", b"a\xe4\xb8", b"b"]
    assert metadata.integers("u8s").tolist() == [1, 255]
    assert metadata.integers("i16s").tolist() == [-1, 2, 3]
    assert metadata.integers("i64s").tolist() == [-(2**63), 2**63 - 1]
    assert metadata.integers("u64s").tolist() == [1, 2**63 - 1]
    assert metadata.integers("u8s").dtype == np.int64
    assert metadata.numbers("f32s").tolist() == [0.25, float("-inf")]
    assert metadata.numbers("f64s").tolist() == [0.1, 1e300]
    assert metadata.numbers("u8s").tolist() == [1.0, 255.0]
    assert metadata.booleans("bools").tolist() == [True, False]
    assert metadata.booleans("bools").dtype == np.bool_


def test_an_empty_array_has_any_type(metadata: Metadata) -> None:
    assert metadata.strings("none") == []
    assert metadata.integers("none").tolist() == []
    assert metadata.numbers("none").tolist() == []
    assert metadata.booleans("none").tolist() == []


def test_raw_values_and_summaries(metadata: Metadata) -> None:
    assert metadata.raw("yes") is True
    assert metadata.raw("text") == VALUES["text"]
    assert metadata.raw("many") == ArraySummary("array of uint32", 100, (0, 1, 2, 3, 4, 5, 6, 7))
    assert metadata.raw("bools") == ArraySummary("array of bool", 2, (True, False))
    assert metadata.raw("texts") == ArraySummary("array of string", 4, ("", "a", "\x00\n", "ü" * 300))
    assert metadata.raw("none") == ArraySummary("array of int32", 0, ())
    assert metadata.is_array("many")
    assert not metadata.is_array("u8")
    assert not metadata.is_array("absent")


def test_one_value_per_layer_or_one_for_all(metadata: Metadata) -> None:
    assert metadata.integers("u8", length=3).tolist() == [200, 200, 200]
    assert metadata.integers("i16s", length=3).tolist() == [-1, 2, 3]
    assert metadata.numbers("f32", length=2).tolist() == [0.5, 0.5]
    assert metadata.booleans("yes", length=2).tolist() == [True, True]
    with pytest.raises(MetadataError, match="i16s: has 3 values where 30 are needed"):
        metadata.integers("i16s", length=30)
    with pytest.raises(MetadataError, match="f64s: has 2 values where 1 are needed"):
        metadata.numbers("f64s", length=1)
    with pytest.raises(MetadataError, match="bools: has 2 values"):
        metadata.booleans("bools", length=1)


GETTERS: list[Callable[..., Any]] = [
    Metadata.string,
    Metadata.integer,
    Metadata.number,
    Metadata.boolean,
    Metadata.strings,
    Metadata.byte_strings,
    Metadata.integers,
    Metadata.numbers,
    Metadata.booleans,
]


@pytest.mark.parametrize("getter", GETTERS)
def test_an_absent_key_gives_the_default_or_an_error(metadata: Metadata, getter: Callable[..., Any]) -> None:
    default = object()
    assert getter(metadata, "absent", default) is default
    assert getter(metadata, "absent", None) is None
    with pytest.raises(MetadataError, match=r"^values\.gguf: absent: is missing from the file"):
        getter(metadata, "absent")


@pytest.mark.parametrize(
    ("getter", "key", "words"),
    [
        (Metadata.string, "u8", "must be a string, but the file has uint8"),
        (Metadata.integer, "f32", "must be an integer, but the file has float32"),
        (Metadata.integer, "yes", "must be an integer, but the file has bool"),
        (Metadata.number, "text", "must be a number, but the file has string"),
        (Metadata.number, "yes", "must be a number, but the file has bool"),
        (Metadata.boolean, "u8", "must be true or false, but the file has uint8"),
        (Metadata.strings, "text", "must be an array of strings, but the file has string"),
        (Metadata.byte_strings, "u8s", "must be an array of strings, but the file has array of uint8"),
        (Metadata.integers, "u8", "must be an array of integers, but the file has uint8"),
        (Metadata.integers, "f32s", "must be an array of integers, but the file has array of float32"),
        (Metadata.numbers, "texts", "must be an array of numbers, but the file has array of string"),
        (Metadata.booleans, "u8s", "must be an array of booleans, but the file has array of uint8"),
        (Metadata.number, "nan", "is nan, but must be a finite number"),
        (Metadata.number, "infinite", "is inf, but must be a finite number"),
        (Metadata.integers, "huge u64s", "is 9,223,372,036,854,775,808, which is larger"),
    ],
)
@pytest.mark.parametrize("default", [(), (None,)])
def test_a_wrong_type_is_an_error_despite_a_default(
    metadata: Metadata, getter: Callable[..., Any], key: str, words: str, default: tuple[object, ...]
) -> None:
    with pytest.raises(MetadataError) as caught:
        getter(metadata, key, *default)
    assert str(caught.value).startswith(f"values.gguf: {key}: ")
    assert words in str(caught.value)
    assert caught.value.key == key
    assert caught.value.path == metadata.path


def test_caps_on_hyperparameters(metadata: Metadata) -> None:
    assert metadata.integer("llama.block_count", minimum=1, maximum=100_000) == 100_000
    with pytest.raises(MetadataError, match=r"llama\.block_count: is 100,000, but must be at most 1,024"):
        metadata.integer("llama.block_count", minimum=1, maximum=1024)
    with pytest.raises(MetadataError, match="i8: is -100, but must be at least 1"):
        metadata.integer("i8", minimum=1)
    with pytest.raises(MetadataError, match=r"f32: is 0\.5, but must be at least 1"):
        metadata.number("f32", minimum=1.0)
    with pytest.raises(MetadataError, match="i16s: is -1, but must be at least 0"):
        metadata.integers("i16s", minimum=0)
    with pytest.raises(MetadataError, match="u8: is 200, but must be at most 64"):
        metadata.integers("u8", length=2, maximum=64)


@pytest.mark.parametrize("method", [Metadata.raw, Metadata.type_name])
def test_raw_and_type_name_of_an_absent_key(metadata: Metadata, method: Callable[..., Any]) -> None:
    with pytest.raises(MetadataError, match="absent: is missing"):
        method(metadata, "absent")


def test_a_bool_array_with_other_bytes_is_refused(tmp_path: Path) -> None:
    # type bool, two values, of which one is 2
    data = Value("array", b"\x07\x00\x00\x00" + b"\x02" + bytes(7) + b"\x01\x02")
    with (
        open_model(write_gguf(tmp_path / "a.gguf", {"flags": data})) as opened,
        pytest.raises(MetadataError, match="flags: holds a byte that is neither true nor false"),
    ):
        opened.metadata.booleans("flags")


def test_after_closing_scalars_stay_and_arrays_say_why_not(tmp_path: Path) -> None:
    opened = open_model(write_gguf(tmp_path / "a.gguf", {"text": "x", "texts": ["a"]}))
    opened.close()
    assert opened.metadata.string("text") == "x"
    with pytest.raises(MetadataError, match="texts: cannot be read because the file was closed"):
        opened.metadata.strings("texts")
    with pytest.raises(MetadataError, match="the file was closed"):
        opened.metadata.raw("texts")
