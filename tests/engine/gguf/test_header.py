"""Headers that lie: each is refused in one sentence, in milliseconds, without the memory that it claims."""

from __future__ import annotations

import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from engine.errors import (
    ByteOrderError,
    CorruptFileError,
    MetadataError,
    ModelFileError,
    TruncatedFileError,
    UnsupportedModelError,
)
from engine.gguf import open_model
from engine.gguf.header import (
    MAX_ARRAY_LENGTH,
    MAX_ARRAY_STRINGS,
    MAX_KEY_BYTES,
    MAX_METADATA,
    MAX_NAME_BYTES,
    MAX_STRING_BYTES,
    MAX_TENSORS,
)
from tests.gguf_writer import RawTensor, Value, encode_gguf, write_gguf

LIMIT_S = 60.0  # each takes milliseconds; a loop that believes the file would take hours
LIMIT_BYTES = 8 << 20
F32, Q4_0, Q4_K = 0, 2, 12
ONE = np.ones(32, np.float32)


def refused(path: Path, kind: type[ModelFileError], words: str) -> str:
    """Opens the file, which must fail as stated, soon and in little memory; returns the message."""
    tracemalloc.start()
    start = time.perf_counter()
    try:
        with pytest.raises(kind) as caught:
            open_model(path)
        elapsed, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert type(caught.value) is kind
    assert words in message
    assert message.startswith(f"{path.name}: ")
    assert len(message) < 400
    assert "\n" not in message
    assert elapsed < LIMIT_S
    assert peak < LIMIT_BYTES
    return message


def file_of(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    return path


def sparse(path: Path, num_bytes: int) -> Path:
    """Grows the file to any size without using the disk."""
    with open(path, "r+b") as file:
        file.truncate(num_bytes)
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_big_endian(tmp_path: Path, version: int) -> None:
    data = b"GGUF" + struct.pack(">IQQ", version, 291, 24) + bytes(1000)
    message = refused(file_of(tmp_path, data), ByteOrderError, "big-endian")
    assert "not supported" in message


@pytest.mark.parametrize(
    ("version", "kind", "words"),
    [
        (0, CorruptFileError, "version 0, which does not exist"),
        (1, UnsupportedModelError, "version 1"),
        (4, UnsupportedModelError, "newer than this version of Fireside"),
        (0x12345678, CorruptFileError, "which does not exist"),
    ],
)
def test_versions(tmp_path: Path, version: int, kind: type[ModelFileError], words: str) -> None:
    message = refused(write_gguf(tmp_path / "x.gguf", version=version), kind, words)
    assert ("download it again" in message) == (kind is CorruptFileError)


def test_every_truncation_is_called_one(tmp_path: Path) -> None:
    data = encode_gguf(
        {"general.architecture": "llama", "tokens": ["aa", "b"], "scores": [0.5, 1.5], "on": True}, {"t": ONE}
    )
    path = tmp_path / "x.gguf"
    for length in range(4, len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(TruncatedFileError, match="download is incomplete"):
            open_model(path)
    path.write_bytes(data)
    open_model(path).close()


def test_an_array_of_2_to_the_63_values(tmp_path: Path) -> None:
    """The file of 49 bytes that keeps the gguf package's reader busy for ever."""
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a" + struct.pack("<IIQ", 9, 0, 2**63)
    assert len(data) == 49
    refused(file_of(tmp_path, data), CorruptFileError, "the value of 'a' claims 9,223,372,036,854,775,808 values")


@pytest.mark.parametrize("element", [0, 1, 3, 6, 7, 8, 10, 12])
@pytest.mark.parametrize("length", [MAX_ARRAY_LENGTH + 1, 2**32, 2**61, 2**63 - 1, 2**64 - 1])
def test_impossible_array_lengths(tmp_path: Path, element: int, length: int) -> None:
    value = Value("array", struct.pack("<IQ", element, length) + bytes(64))
    refused(write_gguf(tmp_path / "x.gguf", {"a": value}), CorruptFileError, f"claims {length:,} values")


@pytest.mark.parametrize("element", [0, 6, 8, 12])
def test_an_array_longer_than_the_file(tmp_path: Path, element: int) -> None:
    value = Value("array", struct.pack("<IQ", element, 1000) + bytes(64))
    refused(write_gguf(tmp_path / "x.gguf", {"a": value}), TruncatedFileError, "in the middle of the value of 'a'")


@pytest.mark.parametrize(
    ("length", "kind", "words"),
    [
        (2**64 - 1, CorruptFileError, "bytes long"),
        (2**63, CorruptFileError, "bytes long"),
        (2**40, CorruptFileError, "bytes long"),
        (1000, TruncatedFileError, "in the middle of the value of 'a'"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 5])
def test_an_impossible_string_in_an_array(
    tmp_path: Path, length: int, kind: type[ModelFileError], words: str, before: int
) -> None:
    strings = b"".join(struct.pack("<Q", 2) + b"ab" for _ in range(before)) + struct.pack("<Q", length) + b"abc"
    value = Value("array", struct.pack("<IQ", 8, before + 1) + strings)
    refused(write_gguf(tmp_path / "x.gguf", {"a": value}), kind, words)


@pytest.mark.parametrize("where", ["key", "value", "name"])
@pytest.mark.parametrize("length", [2**24 + 1, 2**63, 2**64 - 1])
def test_impossible_string_lengths(tmp_path: Path, where: str, length: int) -> None:
    text = struct.pack("<Q", length) + b"abc" + bytes(40)
    data = {
        "key": encode_gguf(num_metadata=1) + text,
        "value": encode_gguf({"a": Value("array", b"")})[:-4] + struct.pack("<I", 8) + text,
        "name": encode_gguf(num_tensors=1) + text,
    }[where]
    refused(file_of(tmp_path, data), CorruptFileError, f"claims to be {length:,} bytes long")


@pytest.mark.parametrize("count", [MAX_METADATA + 1, 2**32, 2**63, 2**64 - 1])
def test_impossible_counts(tmp_path: Path, count: int) -> None:
    refused(
        write_gguf(tmp_path / "x.gguf", num_metadata=count), CorruptFileError, f"claims {count:,} metadata keys"
    )
    count = max(count, MAX_TENSORS + 1)
    refused(write_gguf(tmp_path / "x.gguf", num_tensors=count), CorruptFileError, f"claims {count:,} tensors")


def test_counts_that_the_file_cannot_hold(tmp_path: Path) -> None:
    refused(write_gguf(tmp_path / "x.gguf", num_metadata=1000), TruncatedFileError, "1,000 metadata keys")
    refused(write_gguf(tmp_path / "x.gguf", num_tensors=1000), TruncatedFileError, "1,000 tensors")


def test_a_huge_sparse_file_costs_no_time(tmp_path: Path) -> None:
    """A terabyte of zeros holds any count of empty strings; the limits end the walk."""
    head = Value("array", struct.pack("<IQ", 8, MAX_ARRAY_STRINGS + 1))
    path = sparse(write_gguf(tmp_path / "x.gguf", {"a": head}), 1 << 40)
    refused(path, CorruptFileError, "more than any model has")
    half = Value("array", struct.pack("<IQ", 8, 100) + bytes(800))
    path = write_gguf(tmp_path / "x.gguf", {"a": half, "b": head})
    refused(sparse(path, 1 << 40), CorruptFileError, "more than any model has")
    refused(sparse(write_gguf(tmp_path / "x.gguf", num_metadata=50_000), 1 << 40), CorruptFileError, "key 1 of")


def test_the_strings_of_all_arrays_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.gguf.header.MAX_ARRAY_STRINGS", 5)
    path = write_gguf(tmp_path / "x.gguf", {"a": ["x"] * 3, "b": ["y"] * 2})
    open_model(path).close()
    path = write_gguf(tmp_path / "x.gguf", {"a": ["x"] * 3, "b": ["y"] * 3})
    refused(path, CorruptFileError, "claims 6 strings")


def test_the_text_of_the_header_is_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.gguf.header.MAX_TEXT_BYTES", 100)
    path = write_gguf(tmp_path / "x.gguf", {"a": "x" * 49, "b": "y" * 49})
    open_model(path).close()
    path = write_gguf(tmp_path / "x.gguf", {"a": "x" * 49, "b": "y" * 50})
    refused(path, CorruptFileError, "the value of 'b' claims to be 50 bytes long")


def test_the_bytes_of_an_array_of_strings_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.gguf.header.MAX_ARRAY_BYTES", 100)
    refused(write_gguf(tmp_path / "x.gguf", {"a": ["x" * 93]}), CorruptFileError, "claims to be 101 bytes long")


def test_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    refused(write_gguf(path, [("a", 1), ("b", 2), ("a", 1)]), CorruptFileError, "the metadata key 'a' occurs twice")
    refused(write_gguf(path, [(b"a\xff", 1)]), CorruptFileError, "not valid text (b'a\\xff')")
    refused(write_gguf(path, [("", 1)]), CorruptFileError, "metadata key 1 of 1 is empty")
    refused(write_gguf(path, [("k" * (MAX_KEY_BYTES + 1), 1)]), CorruptFileError, "65,536 bytes long")
    with open_model(write_gguf(path, [("k" * MAX_KEY_BYTES, 1), ("ключ", 2)])) as file:
        assert file.metadata.integer("ключ") == 2


def test_a_key_cannot_forge_a_message(tmp_path: Path) -> None:
    key = "a\n\x1b[2J\u202e" + "x" * 5000
    message = refused(
        write_gguf(tmp_path / "x.gguf", {key: Value(77, b"")}), CorruptFileError, "unknown value type 77"
    )
    assert message.isprintable()


def test_values(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    refused(
        write_gguf(path, {"a": Value("bool", b"\x02")}), CorruptFileError, "the value of 'a' is 2 where only true"
    )
    refused(write_gguf(path, {"a": Value(13, bytes(8))}), CorruptFileError, "'a' has the unknown value type 13")
    unknown = Value("array", struct.pack("<IQ", 13, 1) + bytes(8))
    refused(write_gguf(path, {"a": unknown}), CorruptFileError, "'a' has the unknown value type 13")
    nested = Value("array", struct.pack("<IQIQ", 9, 1, 0, 1) + bytes(8))
    message = refused(write_gguf(path, {"a": nested}), UnsupportedModelError, "'a' is an array of arrays")
    assert "download" not in message
    deep = Value("array", struct.pack("<IQ", 9, 1) * 100_000)
    refused(write_gguf(path, {"a": deep}), UnsupportedModelError, "array of arrays")
    long = Value("string", "x" * MAX_STRING_BYTES)
    with open_model(write_gguf(path, {"a": long})) as file:
        assert len(file.metadata.string("a")) == MAX_STRING_BYTES


@pytest.mark.parametrize("alignment", [0, 3, 48, 2**31])
def test_alignments_that_are_none(tmp_path: Path, alignment: int) -> None:
    path = write_gguf(tmp_path / "x.gguf", {"general.alignment": alignment}, {"t": ONE})
    message = refused(path, MetadataError, f"general.alignment: is {alignment:,}, but must be a power of two")
    assert "damaged" in message


def test_an_alignment_of_another_type(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf", {"general.alignment": "32"}, {"t": ONE})
    refused(path, MetadataError, "general.alignment: must be an integer")


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((1, 1, 1, 1, 1), "claims 5 dimensions"),
        ((0,), "impossible shape 0"),
        ((4, 0), "impossible shape 0 x 4"),
        ((2**63,), "impossible shape"),
        ((2**64 - 1,), "impossible shape"),
        ((2**32, 2**32), "impossible shape"),
        ((2**62,), "impossible shape"),  # its bytes do not fit in 63 bits
    ],
)
def test_impossible_shapes(tmp_path: Path, shape: tuple[int, ...], words: str) -> None:
    refused(write_gguf(tmp_path / "x.gguf", {}, {"t": RawTensor(F32, shape, bytes(64))}), CorruptFileError, words)


def test_an_impossible_rank(tmp_path: Path) -> None:
    data = encode_gguf(num_tensors=1) + struct.pack("<Q", 1) + b"t" + struct.pack("<I", 2**32 - 1) + bytes(200)
    refused(file_of(tmp_path, data), CorruptFileError, "the tensor 't' claims 4,294,967,295 dimensions")


def test_rows_that_do_not_divide_into_blocks(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf", {}, {"t": RawTensor(Q4_K, (256, 128), bytes(32768))})
    refused(path, CorruptFileError, "the rows of tensor 't' have 128 values")


@pytest.mark.parametrize(
    ("type_id", "kind", "words"),
    [
        (4, UnsupportedModelError, "type Q4_2, which the format has dropped"),
        (31, UnsupportedModelError, "type Q4_0_4_4, which the format has dropped"),
        (99, UnsupportedModelError, "the tensor 't' has the type 99, which this version does not know"),
        (0xDEADBEEF, CorruptFileError, "the tensor 't' has the impossible type 3,735,928,559"),
    ],
)
def test_unknown_tensor_types(tmp_path: Path, type_id: int, kind: type[ModelFileError], words: str) -> None:
    message = refused(write_gguf(tmp_path / "x.gguf", {}, {"t": RawTensor(type_id, (32,), bytes(64))}), kind, words)
    assert ("damaged" in message) == (kind is CorruptFileError)


def test_tensor_names(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    refused(write_gguf(path, {}, [("t", ONE), ("t", ONE)]), CorruptFileError, "the tensor 't' occurs twice")
    refused(write_gguf(path, {}, [(b"\xc3", ONE)]), CorruptFileError, "the name of a tensor is not valid text")
    refused(write_gguf(path, {}, [("", ONE)]), CorruptFileError, "the name of a tensor is empty")
    refused(write_gguf(path, {}, [("t" * (MAX_NAME_BYTES + 1), ONE)]), CorruptFileError, "1,025 bytes long")


@pytest.mark.parametrize(
    ("offset", "kind", "words"),
    [
        (16, CorruptFileError, "'b' does not begin at a multiple of 32"),
        (0, CorruptFileError, "the tensors 'a' and 'b' overlaps"),
        (96, CorruptFileError, "the tensors 'a' and 'b' overlaps"),
        (1 << 40, CorruptFileError, "'b' lies outside the file"),
        (2**64 - 32, CorruptFileError, "'b' lies outside the file"),
        (160, TruncatedFileError, "bytes that its header promises"),
    ],
)
def test_tensor_offsets(tmp_path: Path, offset: int, kind: type[ModelFileError], words: str) -> None:
    tensors = {"a": ONE, "b": RawTensor(F32, (32,), bytes(128), offset)}
    refused(write_gguf(tmp_path / "x.gguf", {}, tensors), kind, words)


def test_tensors_may_lie_in_any_order_and_end_without_padding(tmp_path: Path) -> None:
    tensors = {"b": RawTensor(F32, (5,), bytes(range(20)), 32), "a": RawTensor(F32, (5,), bytes(20), 0)}
    data = encode_gguf({}, tensors)
    path = file_of(tmp_path, data[:-12])
    with open_model(path) as file:
        assert list(file.tensors) == ["b", "a"]
        assert file.tensors["b"].offset - file.tensors["a"].offset == 32


def test_the_largest_known_layouts_fit_the_limits(tmp_path: Path) -> None:
    """As many tensors as unmerged experts make, each read in microseconds."""
    tensors = {f"blk.{index}.ffn_gate.weight": RawTensor(Q4_0, (32,), bytes(18)) for index in range(25_000)}
    path = write_gguf(tmp_path / "x.gguf", {}, tensors)
    start = time.perf_counter()
    with open_model(path) as file:
        assert len(file.tensors) == 25_000
    assert time.perf_counter() - start < LIMIT_S
