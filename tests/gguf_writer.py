"""Writes small GGUF files for tests, sound ones and every kind of broken one.

    write_gguf(path, {"general.architecture": "llama", "llama.block_count": 2}, {"token_embd.weight": array})

Metadata values are plain Python values (``True`` bool, ``3`` uint32, ``-3`` int32, ``0.5`` float32, ``"text"``,
lists of one of these) or a ``Value`` with the type spelled out. Tensors are float32 or float16 arrays, shape rows
first, or a ``RawTensor`` with bytes of any tensor type. A list of pairs in place of a dict allows duplicates.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

VALUE_TYPES = {
    "uint8": (0, "B"),
    "int8": (1, "b"),
    "uint16": (2, "H"),
    "int16": (3, "h"),
    "uint32": (4, "I"),
    "int32": (5, "i"),
    "float32": (6, "f"),
    "bool": (7, "?"),
    "string": (8, ""),
    "array": (9, ""),
    "uint64": (10, "Q"),
    "int64": (11, "q"),
    "float64": (12, "d"),
}


@dataclass(frozen=True)
class Value:
    """A metadata value of a stated type: ``Value("uint64", 7)``, ``Value("int32", [1, 2])`` for an array.

    ``type`` may be a number, for types that do not exist; ``value`` may be bytes, which are written as they are.
    ``length`` overrides the count that an array claims.
    """

    type: str | int
    value: object
    length: int | None = None


@dataclass(frozen=True)
class RawTensor:
    """A tensor of any type: ``shape`` is rows first, ``data`` its bytes; ``offset`` overrides its place."""

    type: int
    shape: tuple[int, ...]
    data: bytes | npt.NDArray[np.uint8]
    offset: int | None = None


Items = Mapping[str, object] | Iterable[tuple[str | bytes, object]]


def write_gguf(path: Path, metadata: Items = (), tensors: Items = (), **overrides: object) -> Path:
    """Writes ``encode_gguf(...)`` to ``path`` and returns it."""
    path.write_bytes(encode_gguf(metadata, tensors, **overrides))  # type: ignore[arg-type]
    return path


def encode_gguf(
    metadata: Items = (),
    tensors: Items = (),
    *,
    version: int = 3,
    alignment: int = 32,
    magic: bytes = b"GGUF",
    num_tensors: int | None = None,
    num_metadata: int | None = None,
) -> bytes:
    """The bytes of a GGUF file; the keyword arguments lie about what they name.

    ``alignment`` is how the data is laid out; put ``general.alignment`` into the metadata when it is not 32.
    """
    pairs = _pairs(metadata)
    named = [(name, _raw(tensor)) for name, tensor in _pairs(tensors)]
    header = bytearray(magic)
    header += struct.pack(
        "<IQQ",
        version,
        len(named) if num_tensors is None else num_tensors,
        len(pairs) if num_metadata is None else num_metadata,
    )
    for key, value in pairs:
        header += _string(key) + _value(value)
    data = bytearray()
    for name, tensor in named:
        offset = len(data) if tensor.offset is None else tensor.offset
        header += _string(name) + struct.pack("<I", len(tensor.shape))
        header += b"".join(struct.pack("<Q", dimension) for dimension in reversed(tensor.shape))
        header += struct.pack("<IQ", tensor.type, offset)
        data += bytes(tensor.data)
        data += bytes(-len(data) % alignment)
    if named:
        header += bytes(-len(header) % alignment)
    return bytes(header + data)


def write_shards(
    folder: Path, prefix: str, metadata: Mapping[str, object], parts: Sequence[Mapping[str, object]]
) -> list[Path]:
    """Writes a shard set as llama.cpp's splitter does: all metadata in the first, ``split.*`` in each."""
    paths = []
    total = sum(len(part) for part in parts)
    for number, part in enumerate(parts, start=1):
        split = {
            "split.no": Value("uint16", number - 1),
            "split.count": Value("uint16", len(parts)),
            "split.tensors.count": Value("int32", total),
        }
        values = {**(metadata if number == 1 else {}), **split}
        paths.append(write_gguf(folder / f"{prefix}-{number:05d}-of-{len(parts):05d}.gguf", values, part))
    return paths


def _pairs(items: Items) -> list[tuple[str | bytes, object]]:
    return list(items.items()) if isinstance(items, Mapping) else list(items)


def _raw(tensor: object) -> RawTensor:
    if isinstance(tensor, RawTensor):
        return tensor
    array = np.asarray(tensor)
    types = {np.dtype(np.float32): 0, np.dtype(np.float16): 1}
    return RawTensor(types[array.dtype], array.shape, np.ascontiguousarray(array).tobytes())


def _string(text: str | bytes) -> bytes:
    data = text.encode("utf-8") if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def _value(value: object) -> bytes:
    """Type id and bytes of a metadata value."""
    stated = value if isinstance(value, Value) else Value(_guess_type(value), value)
    type_id = stated.type if isinstance(stated.type, int) else VALUE_TYPES[stated.type][0]
    if isinstance(stated.value, bytes) and stated.type != "string":
        return struct.pack("<I", type_id) + stated.value
    if isinstance(stated.value, (list, tuple, np.ndarray)):
        length = len(stated.value) if stated.length is None else stated.length
        head = struct.pack("<IIQ", VALUE_TYPES["array"][0], type_id, length)
        return head + b"".join(_scalar(stated.type, item) for item in stated.value)
    return struct.pack("<I", type_id) + _scalar(stated.type, stated.value)


def _scalar(type_name: str | int, value: object) -> bytes:
    if type_name == "string":
        assert isinstance(value, (str, bytes))
        return _string(value)
    return struct.pack("<" + VALUE_TYPES[str(type_name)][1], value)


def _guess_type(value: object) -> str:
    """The type converters give such a value; of a list, that of its widest item."""
    if isinstance(value, np.ndarray):
        return str(value.dtype)
    if isinstance(value, (list, tuple)):
        names = {_guess_type(item) for item in value}
        widest_first = ("string", "float32", "bool", "uint64", "int64", "int32")
        return next((name for name in widest_first if name in names), "uint32")
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        if value < 0:
            return "int32" if value >= -(2**31) else "int64"
        return "uint32" if value < 2**32 else "uint64"
    return "float32" if isinstance(value, float) else "string"
