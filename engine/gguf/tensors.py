"""Where the tensors of a file lie, and the checks that they lie inside it.

Knows shapes, types and offsets; does not know what a tensor is for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import CorruptFileError, TruncatedFileError, UnsupportedModelError
from engine.gguf.tensor_types import TensorType, removed_type_name

MAX_BYTES = (1 << 63) - 1
_LARGEST_TYPE_ID = 1000  # of a type that is merely newer than this version


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a file.

    Attributes:
        name: as in the file.
        type: storage type of its values.
        shape: rows first (the order of NumPy); the last is the length of a row, a multiple of the type's block.
        num_bytes: size of its data.
        shard: index of the file of the set that holds it.
        offset: where its data begins in that file.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    num_bytes: int
    shard: int
    offset: int


def make_tensor(
    path: Path, name: str, type_id: int, dimensions: Sequence[int], shard: int, offset: int
) -> TensorInfo:
    """A tensor of the header, checked by itself.

    Args:
        path: the file, for the errors.
        dimensions: as in the file, fastest first.
        offset: from the beginning of the file.

    Raises:
        CorruptFileError: impossible dimensions, or rows that do not divide into blocks.
        UnsupportedModelError: a tensor type that this version does not know.
    """
    tensor_type = _tensor_type(path, name, type_id)
    num_values = math.prod(dimensions)
    num_bytes = num_values // tensor_type.block_size * tensor_type.block_bytes
    if num_values == 0 or max(num_values, num_bytes) > MAX_BYTES:
        raise _corrupt(
            path, f"the tensor {shown(name)} has the impossible shape {' x '.join(map(str, dimensions))}"
        )
    row = dimensions[0] if dimensions else 1
    if row % tensor_type.block_size:
        raise _corrupt(
            path,
            f"the rows of tensor {shown(name)} have {row:,} values, which do not divide into the "
            f"{tensor_type.block_size}-value blocks of {tensor_type.name}",
        )
    return TensorInfo(name, tensor_type, tuple(reversed(dimensions)), num_bytes, shard, offset)


def check_layout(
    path: Path, tensors: Sequence[TensorInfo], data_offset: int, alignment: int, file_bytes: int
) -> None:
    """Checks the tensors of one file against each other and against the file.

    Raises:
        CorruptFileError: two tensors of one name, misaligned or overlapping data, data beyond all reason.
        TruncatedFileError: data that a complete file would have.
    """
    names = set()
    for tensor in tensors:
        if tensor.name in names:
            raise _corrupt(path, f"the tensor {shown(tensor.name)} occurs twice")
        names.add(tensor.name)
        if (tensor.offset - data_offset) % alignment:
            raise _corrupt(
                path, f"the data of tensor {shown(tensor.name)} does not begin at a multiple of {alignment}"
            )
    end = data_offset
    previous = ""
    for tensor in sorted(tensors, key=lambda item: item.offset):
        if tensor.offset < end:
            raise _corrupt(path, f"the data of the tensors {shown(previous)} and {shown(tensor.name)} overlaps")
        # Files are written without gaps: data that starts far behind the rest was never there, not cut off.
        if tensor.offset > max(end + alignment, file_bytes):
            raise _corrupt(path, f"the data of tensor {shown(tensor.name)} lies outside the file")
        end = tensor.offset + tensor.num_bytes
        previous = tensor.name
    if tensors and end > file_bytes:  # a header alone need not be padded
        raise TruncatedFileError(
            path,
            f"the file has {file_bytes:,} of the {end:,} bytes that its header promises; the download is "
            "incomplete, finish it or download the file again",
        )


def _tensor_type(path: Path, name: str, type_id: int) -> TensorType:
    try:
        return TensorType(type_id)
    except ValueError:
        pass
    removed = removed_type_name(type_id)
    if removed is not None:
        raise UnsupportedModelError(
            path,
            f"the tensor {shown(name)} has the type {removed}, which the format has dropped; "
            "look for a file of the same model in another quantization, such as Q4_0 or Q4_K_M",
        )
    if type_id > _LARGEST_TYPE_ID:
        raise _corrupt(path, f"the tensor {shown(name)} has the impossible type {type_id:,}")
    raise UnsupportedModelError(
        path,
        f"the tensor {shown(name)} has the type {type_id}, which this version does not know; "
        "update Fireside, or look for a file of the same model in another quantization, such as Q4_K_M",
    )


def _corrupt(path: Path, message: str) -> CorruptFileError:
    return CorruptFileError(path, f"{message}; the file is damaged, download it again")


def shown(name: str | bytes) -> str:
    """A name of the file as messages quote it: short, and without characters that could forge a message."""
    text = repr(name if len(name) <= 64 else name[:64])
    return text if len(name) <= 64 else text + "..."
