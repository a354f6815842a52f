"""Model files taken apart, bent in one of many ways, and written again.

    bent, told = bend(take_apart(path), random.Random(1))
    bent.write(other_path)

Keys absent, out of range, of another type, arrays for numbers and the reverse; tensors absent, transposed, renamed,
of another type or size, twice, overlapping, cut off, full of NaN.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import engine.model.header
from engine.gguf import open_model
from engine.gguf.values import MetadataArray, ValueType
from tests.gguf_writer import RawTensor, Value, write_gguf

Pairs = list[tuple[str | bytes, object]]
INTEGERS = (0, 1, 2, 3, 5, 7, 64, 255, 10_000, 2**16, 2**20, 2**24, 2**30, 2**31 - 1, 2**31, 2**32 - 1)
WIDE_INTEGERS = (2**33, 2**40, 2**60, 2**63 - 1, 2**63, 2**64 - 1)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e-30, 1e30, 3e38, float("inf"), float("-inf"), float("nan"), 1e-45, 0.5)
TENSOR_TYPES = (*range(42), 99, 5000)


@dataclass
class Bent:
    """A file taken apart: metadata and tensors as they are to be written, less ``cut_bytes`` at the end."""

    architecture: str
    metadata: Pairs
    tensors: list[tuple[str | bytes, RawTensor]]
    cut_bytes: int = 0

    def write(self, path: Path) -> None:
        """Write the file."""
        write_gguf(path, self.metadata, self.tensors)
        if self.cut_bytes:
            path.write_bytes(path.read_bytes()[: -self.cut_bytes])


def take_apart(path: Path) -> Bent:
    """The parts of a sound file."""
    with open_model(path) as file:
        architecture = file.architecture
        metadata: Pairs = [(key, _value(*file.metadata._entries[key])) for key in file.metadata]
        tensors: list[tuple[str | bytes, RawTensor]] = [
            (name, RawTensor(int(tensor.type), tensor.shape, file.tensor_data(name).tobytes()))
            for name, tensor in file.tensors.items()
        ]
    return Bent(architecture, metadata, tensors)


def _value(value_type: ValueType, value: Any) -> object:
    if value_type is ValueType.STRING:
        return value
    if isinstance(value, MetadataArray):
        items = value.byte_strings() if value.type is ValueType.STRING else value.numbers().tolist()
        return Value(value.type.name.lower(), items)
    return Value(value_type.name.lower(), value)


@cache
def known_keys() -> tuple[str, ...]:
    """All keys that the code which reads headers asks for, without the architecture's prefix."""
    folder = Path(engine.model.header.__file__).parent
    found = set()
    for path in folder.glob("*.py"):
        found |= set(re.findall(r'"([a-z_]+(?:\.[a-z_]+)*)"', path.read_text(encoding="utf-8")))
    return tuple(sorted(found))


# ------------------------------------------------------------------------------------------------- mutations


def bend(parts: Bent, rng: random.Random) -> tuple[Bent, str]:
    """One to three changes, and what they were."""
    bent = Bent(parts.architecture, list(parts.metadata), list(parts.tensors))
    told = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = rng.choices((_bend_key, _bend_known_key, _bend_tensor, _bend_vocabulary), (6, 4, 6, 1))[0]
        told.append(change(bent, rng))
    return bent, "; ".join(told)


def _bend_key(bent: Bent, rng: random.Random) -> str:
    prefix = bent.architecture + "."
    own = [
        index for index, (key, _) in enumerate(bent.metadata) if str(key).startswith((prefix, "general.", "xielu"))
    ]
    return _bend_at(bent, rng.choice(own), rng) if own else "nothing"


def _bend_known_key(bent: Bent, rng: random.Random) -> str:
    """A key that the file may not have."""
    name = f"{bent.architecture}.{rng.choice(known_keys())}"
    present = [index for index, (key, _) in enumerate(bent.metadata) if key == name]
    if present:
        return _bend_at(bent, present[0], rng)
    value = _odd_value(None, rng)
    bent.metadata.append((name, value))
    return f"{name} = {value!r:.80}"


def _bend_at(bent: Bent, index: int, rng: random.Random) -> str:
    key, value = bent.metadata[index]
    if rng.random() < 0.15:
        del bent.metadata[index]
        return f"without {key!r}"
    new = _odd_value(value, rng)
    bent.metadata[index] = (key, new)
    return f"{key!s} = {new!r:.80}"


def _odd_value(old: object, rng: random.Random) -> object:
    """Another value; often near the old one, of its type or of another."""
    plain = old.value if isinstance(old, Value) else old
    choice = rng.random()
    if isinstance(plain, int) and not isinstance(plain, bool) and choice < 0.45:
        near = rng.choice((plain + 1, plain - 1, plain * 2, plain // 2, plain * 4, -plain, plain + 2, plain * 3))
        return near if -(2**31) <= near < 2**32 else Value("uint64", near % 2**64)
    if isinstance(plain, float) and choice < 0.45:
        return _clipped([plain * rng.choice((2.0, 0.5, -1.0, 1e6, 1e-6))])[0]
    if isinstance(plain, list) and choice < 0.6 and isinstance(old, Value):
        return _odd_list(plain, old, rng)
    if isinstance(plain, (int, float)) and choice < 0.6:
        length = rng.choice((0, 1, 2, 3, 4, 5, 6, 7))
        items = [plain] * length
        if items and rng.random() < 0.6:
            items[rng.randrange(length)] = rng.choice((0, 1, plain * 2, plain + 1))
        return Value("float32" if isinstance(plain, float) else "uint32", _clipped(items))
    kind = rng.choice(("integer", "wide", "number", "text", "flag", "array"))
    if kind == "integer":
        number = rng.choice(INTEGERS)
        return rng.choice((number, Value("int32", -(number % 2**31)), Value("float32", float(number))))
    if kind == "wide":
        number = rng.choice(WIDE_INTEGERS)
        return rng.choice((Value("uint64", number), Value("int64", -(number % 2**63))))
    if kind == "number":
        return Value(rng.choice(("float32", "float64")), rng.choice(NUMBERS))
    if kind == "text":
        return Value(
            "string", rng.choice((b"", b"\xff\xfe", b"linear", b"yarn", b"none", b"7", b"x" * 300, b"\x1b[2J"))
        )
    if kind == "flag":
        return rng.random() < 0.5
    return rng.choice(
        (Value("uint32", []), Value("string", ["a"]), Value("int32", [-1] * 3), Value("bool", [True] * 4))
    )


def _odd_list(plain: list[Any], old: Value, rng: random.Random) -> object:
    items = list(plain)
    change = rng.randrange(5)
    if change == 0:
        items = items[:-1]
    elif change == 1:
        items = [*items, *items[-1:]]
    elif change == 2 and items:
        items[rng.randrange(len(items))] = rng.choice((0, 1, 2))
    elif change == 3 and items:
        rng.shuffle(items)
    elif items:
        return replace(old, value=items[0])
    if old.type == "string":
        items = [item if isinstance(item, (str, bytes)) else str(item) for item in items]
    return replace(old, value=items)


def _clipped(items: list[Any]) -> list[Any]:
    """The items as the writer can write them, integers unsigned and floats of 32 bits."""
    return [item % 2**32 if isinstance(item, int) else max(-3e38, min(3e38, item)) for item in items]


def _bend_vocabulary(bent: Bent, rng: random.Random) -> str:
    own = [index for index, (key, _) in enumerate(bent.metadata) if str(key).startswith("tokenizer.ggml")]
    return _bend_at(bent, rng.choice(own), rng) if own else "nothing"


def _bend_tensor(bent: Bent, rng: random.Random) -> str:
    index = rng.randrange(len(bent.tensors))
    name = bent.tensors[index][0]
    told, change = rng.choice(list(TENSOR_CHANGES.items()))
    change(bent, index, rng)
    return f"{name!r} {told}"


def _remove(bent: Bent, index: int, rng: random.Random) -> None:
    del bent.tensors[index]


def _transpose(bent: Bent, index: int, rng: random.Random) -> None:
    name, tensor = bent.tensors[index]
    bent.tensors[index] = (name, replace(tensor, shape=tuple(reversed(tensor.shape))))


def _flatten(bent: Bent, index: int, rng: random.Random) -> None:
    name, tensor = bent.tensors[index]
    size = int(np.prod(tensor.shape))
    shape = rng.choice(
        ((size,), (1, size), (size, 1), (1, 1, size), (2, size // 2), (*tensor.shape, 1), (1, *tensor.shape))
    )
    bent.tensors[index] = (name, replace(tensor, shape=shape[-5:]))


def _resize(bent: Bent, index: int, rng: random.Random) -> None:
    """A dimension changes, the bytes with it."""
    name, tensor = bent.tensors[index]
    shape = list(tensor.shape)
    axis = rng.randrange(len(shape))
    shape[axis] = rng.choice((0, 1, shape[axis] + 1, max(0, shape[axis] - 1), shape[axis] * 2, shape[axis] // 2))
    data = bytes(tensor.data) * 2
    old, new = int(np.prod(tensor.shape)), int(np.prod(shape))
    bent.tensors[index] = (
        name,
        replace(tensor, shape=tuple(shape), data=data[: len(tensor.data) * new // max(1, old)]),
    )


def _huge(bent: Bent, index: int, rng: random.Random) -> None:
    name, tensor = bent.tensors[index]
    shape = list(tensor.shape)
    shape[rng.randrange(len(shape))] = rng.choice((2**31, 2**40, 2**62, 2**63, 2**64 - 1))
    bent.tensors[index] = (name, replace(tensor, shape=tuple(shape)))


def _retype(bent: Bent, index: int, rng: random.Random) -> None:
    name, tensor = bent.tensors[index]
    new = rng.choice(TENSOR_TYPES)
    bent.tensors[index] = (name, replace(tensor, type=new, data=bytes(tensor.data) * (2 if new == 28 else 1)))


def _rename(bent: Bent, index: int, rng: random.Random) -> None:
    name, tensor = bent.tensors[index]
    text = str(name)
    new: str | bytes = rng.choice(
        (
            text.replace(".weight", ".bias"),
            text.replace(".weight", ""),
            text.replace("blk.0.", "blk.9."),
            text.replace("blk.1.", "blk.01."),
            text + "x",
            text.upper(),
            b"\xff" + text.encode(),
            str(bent.tensors[rng.randrange(len(bent.tensors))][0]),
            "",
            "x" * 70,
        )
    )
    bent.tensors[index] = (new, tensor)


def _duplicate(bent: Bent, index: int, rng: random.Random) -> None:
    name, tensor = bent.tensors[index]
    other = rng.choice(
        (str(name), str(name).replace("weight", "bias"), str(name).replace(".weight", ".scale"), "extra.weight")
    )
    bent.tensors.append((other, tensor))


def _misplace(bent: Bent, index: int, rng: random.Random) -> None:
    name, tensor = bent.tensors[index]
    offset = rng.choice((0, 1, 31, 32, 33, 1 << 20, 1 << 40, 2**63, 2**64 - 32))
    bent.tensors[index] = (name, replace(tensor, offset=offset))


def _poison(bent: Bent, index: int, rng: random.Random) -> None:
    """Values that are no numbers, infinite, huge or zero."""
    name, tensor = bent.tensors[index]
    pattern = rng.choice(
        (
            b"\x00\x00\xc0\x7f",
            b"\x00\x00\x80\x7f",
            b"\xff\xff\x7f\x7f",
            b"\x00" * 4,
            b"\xff" * 4,
            b"\x00\x7c\x00\x7c",
        )
    )
    size = len(tensor.data)
    data = bytearray(tensor.data)
    start = rng.randrange(0, size, 4) if size else 0
    stop = min(size, start + rng.choice((4, 4, 64, size)))
    data[start:stop] = (pattern * (size // 4 + 1))[: stop - start]
    bent.tensors[index] = (name, replace(tensor, data=bytes(data)))


def _truncate(bent: Bent, index: int, rng: random.Random) -> None:
    bent.cut_bytes = rng.choice((1, 31, 33, 1000, 20_000))


TENSOR_CHANGES: dict[str, Callable[[Bent, int, random.Random], None]] = {
    "absent": _remove,
    "transposed": _transpose,
    "of another rank": _flatten,
    "of another size": _resize,
    "huge": _huge,
    "of another type": _retype,
    "renamed": _rename,
    "twice": _duplicate,
    "misplaced": _misplace,
    "poisoned": _poison,
    "cut off": _truncate,
}
