"""Reads the header of one mapped GGUF file in one pass: version, metadata, tensor infos.

The header is untrusted. Every count and length is checked against the bytes that are left before anything is
allocated or walked, and against limits that no real model comes near, so that a hostile file costs milliseconds.
Does not know shards, nor what a key means except ``general.alignment``.

Layout (GGUF specification, ggml-org/ggml docs/gguf.md; all little-endian, a string is a u64 length and its bytes):
    "GGUF"  u32 version  u64 num_tensors  u64 num_metadata
    num_metadata x (string key, u32 value type, value)      an array is a u32 type, a u64 length and its values
    num_tensors x (string name, u32 rank, rank x u64 dimension, u32 tensor type, u64 offset)
    zeros up to a multiple of general.alignment; then the tensor data, where the offsets count from
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Any

from engine.errors import (
    ByteOrderError,
    CorruptFileError,
    MetadataError,
    TruncatedFileError,
    UnsupportedModelError,
)
from engine.gguf.content import MAGIC
from engine.gguf.metadata import Entry, Metadata
from engine.gguf.tensors import TensorInfo, check_layout, make_tensor, shown
from engine.gguf.values import SCALAR_READERS, MetadataArray, ValueType, skip_strings

FIXED_BYTES = 24  # magic, version and the two counts
SUPPORTED_VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32

# Several times what the largest published models need: tens of keys, some 25,000 tensors where experts are not
# merged, and under a million strings (vocabulary and merges).
MAX_METADATA = 1 << 16
MAX_TENSORS = 1 << 17
MAX_KEY_BYTES = (1 << 16) - 1  # of the specification
MAX_NAME_BYTES = 1024
MAX_STRING_BYTES = 1 << 24
MAX_TEXT_BYTES = 1 << 26  # all keys, names and single strings together: what the header keeps in memory
MAX_ARRAY_LENGTH = 1 << 24
MAX_ARRAY_STRINGS = 1 << 22  # in all arrays together: a third of a second of walking
MAX_ARRAY_BYTES = 1 << 28
MAX_RANK = 4
_LARGEST_VERSION = 1000  # of a file that is merely newer

_AGAIN = "the file is damaged, download it again"
_read_u32 = struct.Struct("<I").unpack_from
_read_u64 = struct.Struct("<Q").unpack_from


@dataclass(frozen=True)
class Header:
    """What the header of one file says.

    Attributes:
        version: 2 or 3.
        metadata: the key-value pairs.
        tensors: in file order; offsets count from the beginning of the file.
        alignment: bytes that tensor offsets are multiples of.
        data_offset: where the tensor data begins.
    """

    version: int
    metadata: Metadata
    tensors: tuple[TensorInfo, ...]
    alignment: int
    data_offset: int


def read_header(path: Path, data: mmap, shard: int = 0, file_bytes: int | None = None) -> Header:
    """Reads the header of a mapped file that begins with the magic.

    Args:
        path: for the error messages.
        data: the whole file, or its beginning where ``file_bytes`` tells the size of the whole; TruncatedFileError
            then also means that more of it is needed.
        shard: index of this file in its set, for the tensor infos.

    Raises:
        ModelFileError: one of its kinds, see ``engine.errors``.
    """
    cursor = _Cursor(path, data)
    version = _read_version(cursor)
    num_tensors = cursor.u64("the number of tensors")
    num_metadata = cursor.u64("the number of metadata keys")
    cursor.check_count(num_tensors, MAX_TENSORS, 8 + 4 + 4 + 8, "tensors")
    cursor.check_count(num_metadata, MAX_METADATA, 8 + 4 + 1, "metadata keys")
    metadata = Metadata(path, _read_entries(cursor, num_metadata))
    alignment = _alignment(path, metadata)
    records = [_read_tensor(cursor) for _ in range(num_tensors)]
    data_offset = cursor.position + -cursor.position % alignment
    tensors = tuple(
        make_tensor(path, name, type_id, dimensions, shard, data_offset + offset)
        for name, dimensions, type_id, offset in records
    )
    check_layout(path, tensors, data_offset, alignment, cursor.size if file_bytes is None else file_bytes)
    return Header(version, metadata, tensors, alignment, data_offset)


class _Cursor:
    """A position in the mapped file that only moves forward, over bytes that exist.

    Attributes:
        path: the file.
        data: its bytes.
        size: their number.
        position: of the next byte.
    """

    def __init__(self, path: Path, data: mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.position = 0
        self._text_bytes = 0
        self._array_strings = 0

    def corrupt(self, message: str) -> CorruptFileError:
        """The error of a header that makes no sense."""
        return CorruptFileError(self.path, f"{message}; {_AGAIN}")

    def need(self, num_bytes: int, what: str) -> None:
        """Raises TruncatedFileError unless so many bytes are left."""
        if num_bytes > self.size - self.position:
            raise TruncatedFileError(
                self.path,
                f"the file ends after {self.size:,} bytes in the middle of {what}; the download is incomplete, "
                "finish it or download the file again",
            )

    def check_count(self, count: int, limit: int, least_bytes: int, what: str) -> None:
        """Refuses a count that no model has, or that the rest of the file cannot hold."""
        if count > limit:
            raise self.corrupt(f"the header claims {count:,} {what}, more than any model has")
        self.need(count * least_bytes, f"its {count:,} {what}")

    def u32(self, what: str) -> int:
        """The next unsigned 32-bit integer."""
        self.need(4, what)
        (value,) = _read_u32(self.data, self.position)
        self.position += 4
        return int(value)

    def u64(self, what: str) -> int:
        """The next unsigned 64-bit integer."""
        self.need(8, what)
        (value,) = _read_u64(self.data, self.position)
        self.position += 8
        return int(value)

    def string(self, limit: int, what: str) -> bytes:
        """The next string, of at most ``limit`` bytes."""
        length = self.u64(what)
        self._text_bytes += length
        if length > limit or self._text_bytes > MAX_TEXT_BYTES:
            raise self.corrupt(f"{what} claims to be {length:,} bytes long, more than any model has")
        self.need(length, what)
        start, self.position = self.position, self.position + length
        return self.data[start : self.position]

    def name(self, limit: int, what: str) -> str:
        """The next string, which must be UTF-8 and not empty."""
        raw = self.string(limit, what)
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.corrupt(f"{what} is not valid text ({shown(raw)})") from None
        if not name:
            raise self.corrupt(f"{what} is empty")
        return name

    def array(self, what: str) -> MetadataArray:
        """Passes over an array and says where it lies."""
        value_type = self.value_type(what)
        length = self.u64(what)
        if value_type is ValueType.ARRAY:
            raise UnsupportedModelError(self.path, f"{what} is an array of arrays, which this version cannot read")
        limit = MAX_ARRAY_STRINGS if value_type is ValueType.STRING else MAX_ARRAY_LENGTH
        if length > limit:
            raise self.corrupt(f"{what} claims {length:,} values, more than any model has")
        self.need(length * value_type.num_bytes, what)
        start = self.position
        if value_type is ValueType.STRING:
            self._walk_strings(length, what)
        else:
            self.position += length * value_type.num_bytes
        return MetadataArray(value_type, length, self.data, start, self.position - start)

    def value_type(self, what: str) -> ValueType:
        """The next value type."""
        type_id = self.u32(what)
        try:
            return ValueType(type_id)
        except ValueError:
            raise self.corrupt(f"{what} has the unknown value type {type_id:,}") from None

    def _walk_strings(self, length: int, what: str) -> None:
        self._array_strings += length
        if self._array_strings > MAX_ARRAY_STRINGS:
            raise self.corrupt(f"the header claims {self._array_strings:,} strings, more than any model has")
        end = skip_strings(self.data, self.position, length)
        if end - self.position > MAX_ARRAY_BYTES:
            raise self.corrupt(f"{what} claims to be {end - self.position:,} bytes long, more than any model has")
        self.need(end - self.position, what)
        self.position = end


def _read_version(cursor: _Cursor) -> int:
    cursor.need(FIXED_BYTES, "its first line, before any content")
    cursor.position = len(MAGIC)
    version = cursor.u32("the version")
    if version in SUPPORTED_VERSIONS:
        return version
    if version and version & 0xFFFF == 0:
        raise ByteOrderError(
            cursor.path,
            "the file is big-endian, made for another kind of processor, which is not supported; "
            "look for the ordinary little-endian version of this model",
        )
    if version == 1:
        raise UnsupportedModelError(
            cursor.path,
            "the file is GGUF version 1, of August 2023, which is not supported; look for a newer version",
        )
    if 0 < version <= _LARGEST_VERSION:
        raise UnsupportedModelError(
            cursor.path,
            f"the file is GGUF version {version}, newer than this version of Fireside can read; update it",
        )
    raise cursor.corrupt(f"the header claims GGUF version {version:,}, which does not exist")


def _read_entries(cursor: _Cursor, num_metadata: int) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for index in range(num_metadata):
        key = cursor.name(MAX_KEY_BYTES, f"metadata key {index + 1} of {num_metadata}")
        if key in entries:
            raise cursor.corrupt(f"the metadata key {shown(key)} occurs twice")
        what = f"the value of {shown(key)}"
        value_type = cursor.value_type(what)
        entries[key] = (value_type, _read_value(cursor, value_type, what))
    return entries


def _read_value(cursor: _Cursor, value_type: ValueType, what: str) -> Any:
    if value_type is ValueType.ARRAY:
        return cursor.array(what)
    if value_type is ValueType.STRING:
        return cursor.string(MAX_STRING_BYTES, what).decode("utf-8", "replace")
    cursor.need(value_type.num_bytes, what)
    (value,) = SCALAR_READERS[value_type](cursor.data, cursor.position)
    cursor.position += value_type.num_bytes
    if value_type is not ValueType.BOOL:
        return value
    if value > 1:
        raise cursor.corrupt(f"{what} is {value} where only true or false can be")
    return bool(value)


def _read_tensor(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Name, dimensions (fastest first), type id and offset from the beginning of the tensor data."""
    name = cursor.name(MAX_NAME_BYTES, "the name of a tensor")
    what = f"the description of tensor {shown(name)}"
    rank = cursor.u32(what)
    if rank > MAX_RANK:
        raise cursor.corrupt(f"the tensor {shown(name)} claims {rank:,} dimensions; there are at most {MAX_RANK}")
    cursor.need(8 * rank + 4 + 8, what)
    dimensions = struct.unpack_from(f"<{rank}Q", cursor.data, cursor.position)
    cursor.position += 8 * rank
    return name, dimensions, cursor.u32(what), cursor.u64(what)


def _alignment(path: Path, metadata: Metadata) -> int:
    key = "general.alignment"
    alignment = metadata.integer(key, DEFAULT_ALIGNMENT)
    if alignment < 1 or alignment & (alignment - 1) or alignment > 1 << 20:
        raise MetadataError(path, key, f"is {alignment:,}, but must be a power of two; {_AGAIN}")
    return alignment
