"""The value types of GGUF metadata, and arrays that stay in the file until they are asked for.

Knows bytes and types; does not know keys, files or what a value means.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import repeat
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.gguf.string_walk import walk_strings


class ValueType(IntEnum):
    """Type of a metadata value; the number is its id in the file (gguf_type of the specification)."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12

    @property
    def num_bytes(self) -> int:
        """Bytes of one value; of a string or an array, the fewest it can have."""
        return _SMALLEST[self]

    @property
    def is_integer(self) -> bool:
        """Whether this is one of the eight integer types (bool is not)."""
        return self in INTEGER_FORMATS

    @property
    def is_float(self) -> bool:
        """Whether this is one of the two float types."""
        return self in (ValueType.FLOAT32, ValueType.FLOAT64)


INTEGER_FORMATS = {
    ValueType.UINT8: "<u1",
    ValueType.INT8: "<i1",
    ValueType.UINT16: "<u2",
    ValueType.INT16: "<i2",
    ValueType.UINT32: "<u4",
    ValueType.INT32: "<i4",
    ValueType.UINT64: "<u8",
    ValueType.INT64: "<i8",
}
ARRAY_FORMATS = {  # numpy formats; a bool is read as a byte because the file may hold any
    **INTEGER_FORMATS,
    ValueType.FLOAT32: "<f4",
    ValueType.FLOAT64: "<f8",
    ValueType.BOOL: "<u1",
}
SCALAR_READERS = {
    ValueType.UINT8: struct.Struct("<B").unpack_from,
    ValueType.INT8: struct.Struct("<b").unpack_from,
    ValueType.UINT16: struct.Struct("<H").unpack_from,
    ValueType.INT16: struct.Struct("<h").unpack_from,
    ValueType.UINT32: struct.Struct("<I").unpack_from,
    ValueType.INT32: struct.Struct("<i").unpack_from,
    ValueType.FLOAT32: struct.Struct("<f").unpack_from,
    ValueType.BOOL: struct.Struct("<B").unpack_from,
    ValueType.UINT64: struct.Struct("<Q").unpack_from,
    ValueType.INT64: struct.Struct("<q").unpack_from,
    ValueType.FLOAT64: struct.Struct("<d").unpack_from,
}
_SMALLEST = {
    **{value_type: np.dtype(text).itemsize for value_type, text in ARRAY_FORMATS.items()},
    ValueType.STRING: 8,  # its length
    ValueType.ARRAY: 12,  # its type and length
}
_MANY_STRINGS = 1 << 13  # from here on Python takes longer than a millisecond
_read_length = SCALAR_READERS[ValueType.UINT64]


def skip_strings(data: mmap, position: int, count: int) -> int:
    """Position after ``count`` strings, or the first position that lies beyond the data.

    A string is 8 bytes of length and its bytes. No offsets are kept, for the few arrays that are wanted are walked
    again.
    """
    if count >= _MANY_STRINGS and (end := walk_strings(data, position, count)) is not None:
        return end
    try:
        for _ in repeat(None, count):
            position += _read_length(data, position)[0] + 8
    except (struct.error, OverflowError, IndexError):
        position = max(position, len(data) + 1)
    return position


@dataclass(frozen=True)
class ArraySummary:
    """What ``inspect`` shows of an array: its type, its length and its first values."""

    type_name: str
    length: int
    first: tuple[Any, ...]


@dataclass(frozen=True)
class MetadataArray:
    """An array as it lies in the mapped file; nothing is read before a method is called.

    Attributes:
        type: type of its values, never ARRAY.
        length: number of values.
        data: the whole mapped file.
        offset: where the first value begins.
        num_bytes: bytes of all values; for strings, their lengths included.
    """

    type: ValueType
    length: int
    data: mmap
    offset: int
    num_bytes: int

    def numbers(self) -> npt.NDArray[Any]:
        """A copy of the values, (length,) in the type of the file; a bool is a uint8."""
        if not self.length:
            return np.empty(0, np.uint8)
        view = np.frombuffer(self.data, ARRAY_FORMATS[self.type], self.length, self.offset)
        return view.astype(view.dtype.newbyteorder("="), copy=True)

    def byte_strings(self, limit: int | None = None) -> list[bytes]:
        """The strings as bytes, at most ``limit`` of them."""
        data, position, strings = self.data, self.offset, []
        for _ in repeat(None, self.length if limit is None else min(limit, self.length)):
            start = position + 8
            position = start + _read_length(data, position)[0]
            strings.append(data[start:position])
        return strings

    def texts(self, limit: int | None = None) -> list[str]:
        """The strings as text; bytes that are not UTF-8 become U+FFFD."""
        return [item.decode("utf-8", "replace") for item in self.byte_strings(limit)]

    def summary(self, limit: int = 8) -> ArraySummary:
        """Type, length and the first ``limit`` values."""
        if self.type is ValueType.STRING:
            return ArraySummary(type_name(self), self.length, tuple(self.texts(limit)))
        first = replace(self, length=min(limit, self.length)).numbers().tolist()
        if self.type is ValueType.BOOL:
            first = [bool(item) for item in first]
        return ArraySummary(type_name(self), self.length, tuple(first))


def type_name(value: ValueType | MetadataArray) -> str:
    """The type in words: ``uint32``, ``array of string``."""
    if isinstance(value, MetadataArray):
        return f"array of {value.type.name.lower()}"
    return value.name.lower()
