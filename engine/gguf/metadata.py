"""Typed access to the metadata of a GGUF file.

Knows keys and types, so that everyone who needs a value says which type and range it must have, and gets a
``MetadataError`` that names the file and the key where it has not. Does not know what any key means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from engine.errors import MetadataError
from engine.gguf.values import ArraySummary, MetadataArray, ValueType, type_name

Entry = tuple[ValueType, Any]  # type and value; of an ARRAY, a MetadataArray
Default = TypeVar("Default")


class _Required:
    """Marks a value that has no default."""


REQUIRED: Final = _Required()


class Metadata:
    """The key-value pairs of one file, in file order.

    Each getter raises ``MetadataError`` where the key is absent and no default is given, and where the value has
    another type or lies outside the stated range, whether or not there is a default. Scalars and strings were read
    when the file was opened; arrays are read anew by each call, and only while the file is open.

    Attributes:
        path: the file.
    """

    def __init__(self, path: Path, entries: Mapping[str, Entry]) -> None:
        self.path = path
        self._entries = entries

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def type_name(self, key: str) -> str:
        """The type in words, such as ``uint32`` or ``array of string``."""
        value_type, value = self._entry(key)
        return type_name(value if value_type is ValueType.ARRAY else value_type)

    def is_array(self, key: str) -> bool:
        """Whether the key is present and holds an array."""
        return key in self._entries and self._entries[key][0] is ValueType.ARRAY

    def raw(self, key: str) -> str | int | float | bool | ArraySummary:
        """The value as it is; of an array, a summary."""
        value_type, value = self._entry(key)
        if value_type is ValueType.ARRAY:
            return self._open_array(key, value).summary()
        return value  # type: ignore[no-any-return]

    def string(self, key: str, default: Default | _Required = REQUIRED) -> str | Default:
        """A string; bytes that are not UTF-8 were replaced by U+FFFD."""
        if key not in self._entries:
            return self._absent(key, default)
        value_type, value = self._entries[key]
        if value_type is not ValueType.STRING:
            self._wrong_type(key, "a string")
        return str(value)

    def integer(
        self,
        key: str,
        default: Default | _Required = REQUIRED,
        *,
        minimum: int | None = None,
        maximum: int | None = None,
    ) -> int | Default:
        """An integer of any width within ``minimum`` and ``maximum``, both included."""
        if key not in self._entries:
            return self._absent(key, default)
        value_type, value = self._entries[key]
        if not value_type.is_integer:
            self._wrong_type(key, "an integer")
        self._check_range(key, value, value, minimum, maximum)
        return int(value)

    def number(
        self,
        key: str,
        default: Default | _Required = REQUIRED,
        *,
        minimum: float | None = None,
        maximum: float | None = None,
    ) -> float | Default:
        """A finite float within ``minimum`` and ``maximum``, both included; integers count as numbers."""
        if key not in self._entries:
            return self._absent(key, default)
        value_type, value = self._entries[key]
        if not (value_type.is_float or value_type.is_integer):
            self._wrong_type(key, "a number")
        if not math.isfinite(value):
            raise MetadataError(self.path, key, f"is {value}, but must be a finite number; the file is damaged")
        self._check_range(key, value, value, minimum, maximum)
        return float(value)

    def boolean(self, key: str, default: Default | _Required = REQUIRED) -> bool | Default:
        """True or false."""
        if key not in self._entries:
            return self._absent(key, default)
        value_type, value = self._entries[key]
        if value_type is not ValueType.BOOL:
            self._wrong_type(key, "true or false")
        return bool(value)

    def strings(self, key: str, default: Default | _Required = REQUIRED) -> list[str] | Default:
        """An array of strings; bytes that are not UTF-8 become U+FFFD. 262,144 of them take about 80 ms."""
        if key not in self._entries:
            return self._absent(key, default)
        return self._strings(key).texts()

    def byte_strings(self, key: str, default: Default | _Required = REQUIRED) -> list[bytes] | Default:
        """An array of strings as the bytes of the file."""
        if key not in self._entries:
            return self._absent(key, default)
        return self._strings(key).byte_strings()

    def string_data(self, key: str) -> tuple[npt.NDArray[np.uint8], int]:
        """An array of strings as the file holds it, and how many there are; for compiled loops.

        Each is 8 bytes of length and its bytes. The view must be gone before the file is closed.
        """
        array = self._strings(key) if key in self._entries else self._absent(key, REQUIRED)
        return np.frombuffer(array.data, np.uint8, array.num_bytes, array.offset), array.length

    def integers(
        self,
        key: str,
        default: Default | _Required = REQUIRED,
        *,
        length: int | None = None,
        minimum: int | None = None,
        maximum: int | None = None,
    ) -> npt.NDArray[np.int64] | Default:
        """An array of integers, (values,) int64.

        With ``length`` the array must have that many values, and a single integer stands for as many equal ones:
        the way files state a value per layer.
        """
        if key not in self._entries:
            return self._absent(key, default)
        value_type, _ = self._entries[key]
        if length is not None and value_type.is_integer:
            single = self.integer(key, minimum=minimum, maximum=maximum)
            return np.full(length, self._int64(key, single), np.int64)
        array = self._array(key, "integers", lambda item: item.is_integer)
        self._check_length(key, array, length)
        values = array.numbers()
        if values.size:
            lowest, highest = int(values.min()), int(values.max())
            self._check_range(key, lowest, highest, minimum, maximum)
            self._int64(key, highest)
        return values.astype(np.int64)

    def numbers(
        self, key: str, default: Default | _Required = REQUIRED, *, length: int | None = None
    ) -> npt.NDArray[np.float64] | Default:
        """An array of floats or integers, (values,) float64; infinities and NaN stay as they are.

        ``length`` as in ``integers``.
        """
        if key not in self._entries:
            return self._absent(key, default)
        value_type, _ = self._entries[key]
        if length is not None and (value_type.is_float or value_type.is_integer):
            return np.full(length, self.number(key), np.float64)
        array = self._array(key, "numbers", lambda item: item.is_float or item.is_integer)
        self._check_length(key, array, length)
        return array.numbers().astype(np.float64)

    def booleans(
        self, key: str, default: Default | _Required = REQUIRED, *, length: int | None = None
    ) -> npt.NDArray[np.bool_] | Default:
        """An array of booleans, (values,) bool; ``length`` as in ``integers``."""
        if key not in self._entries:
            return self._absent(key, default)
        value_type, value = self._entries[key]
        if length is not None and value_type is ValueType.BOOL:
            return np.full(length, value, np.bool_)
        array = self._array(key, "booleans", lambda item: item is ValueType.BOOL)
        self._check_length(key, array, length)
        values = array.numbers()
        if (values > 1).any():
            raise MetadataError(self.path, key, "holds a byte that is neither true nor false; the file is damaged")
        return values.astype(np.bool_)

    def _entry(self, key: str) -> Entry:
        if key not in self._entries:
            self._absent(key, REQUIRED)
        return self._entries[key]

    def _absent(self, key: str, default: Default | _Required) -> Default:
        if isinstance(default, _Required):
            raise MetadataError(self.path, key, "is missing from the file, which cannot be used without it")
        return default

    def _wrong_type(self, key: str, wanted: str) -> NoReturn:
        raise MetadataError(self.path, key, f"must be {wanted}, but the file has {self.type_name(key)}")

    def _array(self, key: str, wanted: str, accepts: Any) -> MetadataArray:
        value_type, value = self._entries[key]
        # An empty array may have any type: converters cannot tell what it would hold.
        if value_type is not ValueType.ARRAY or (value.length and not accepts(value.type)):
            self._wrong_type(key, f"an array of {wanted}")
        return self._open_array(key, value)

    def _strings(self, key: str) -> MetadataArray:
        return self._array(key, "strings", lambda item: item is ValueType.STRING)

    def _open_array(self, key: str, array: MetadataArray) -> MetadataArray:
        if array.data.closed:
            raise MetadataError(self.path, key, "cannot be read because the file was closed; open it again")
        return array

    def _check_length(self, key: str, array: MetadataArray, length: int | None) -> None:
        if length is not None and array.length != length:
            raise MetadataError(self.path, key, f"has {array.length:,} values where {length:,} are needed")

    def _check_range(
        self, key: str, lowest: float, highest: float, minimum: float | None, maximum: float | None
    ) -> None:
        if minimum is not None and lowest < minimum:
            raise MetadataError(self.path, key, f"is {lowest:,}, but must be at least {minimum:,}")
        if maximum is not None and highest > maximum:
            raise MetadataError(self.path, key, f"is {highest:,}, but must be at most {maximum:,}")

    def _int64(self, key: str, value: int) -> int:
        if value > np.iinfo(np.int64).max:
            raise MetadataError(self.path, key, f"is {value:,}, which is larger than any count of a model")
        return value
