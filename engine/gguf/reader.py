"""Opens model files: maps them, reads their headers, joins shards, hands out tensor data without copying.

Knows files and shards. Does not know architectures or what tensors and keys mean, but for the ``split.*`` keys and
``general.architecture``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from engine.errors import (
    CorruptFileError,
    MissingShardsError,
    ModelFileError,
    NotGGUFError,
    SplitFileError,
    UnsupportedModelError,
)
from engine.gguf.content import HEAD_BYTES, describe_non_model
from engine.gguf.header import Header, read_header
from engine.gguf.mapping import MappedFile
from engine.gguf.metadata import Metadata
from engine.gguf.shards import ShardName, raw_part_of, shard_of, shard_paths
from engine.gguf.tensor_types import TensorType
from engine.gguf.tensors import TensorInfo, shown

_PAGE_BYTES = 4096
_SAMPLED_PAGES = 1024  # in ``identity``


class GGUFFile:
    """An open model: one file, or all shards of a set. A context manager.

    The files stay mapped while this object is open. Arrays handed out by ``tensor_data`` keep their mapping alive
    beyond ``close``. Where a file is shortened or its disk goes, they are zeros from then on: ``check_unchanged``
    after the last look at them tells. An error inside ``with`` that comes of such zeros becomes one that says so.

    Attributes:
        path: the file; of a set, its first shard.
        paths: all files, in order.
        file_bytes: size of all of them.
        version: of the GGUF format.
        metadata: the key-value pairs (of the first shard).
        tensors: all tensors by name, in file order.
    """

    def __init__(self, paths: tuple[Path, ...], maps: list[MappedFile], headers: list[Header]) -> None:
        self.path = paths[0]
        self.paths = paths
        self.file_bytes = sum(len(mapped) for mapped in maps)
        self.version = headers[0].version
        self.metadata: Metadata = headers[0].metadata
        self.tensors: dict[str, TensorInfo] = {
            tensor.name: tensor for header in headers for tensor in header.tensors
        }
        self._maps = maps

    @property
    def architecture(self) -> str:
        """``general.architecture``; MetadataError where it is absent."""
        return self.metadata.string("general.architecture")

    def tensor_data(self, name: str) -> npt.NDArray[np.uint8]:
        """The bytes of a tensor, (num_bytes,) uint8, read-only and not copied.

        Raises:
            UnsupportedModelError: there is no tensor of this name.
            ModelFileError: the file was closed.
            TruncatedFileError: it became shorter since it was opened.
        """
        tensor = self._tensor(name)
        if not self._maps:
            raise ModelFileError(self.paths[tensor.shard], "the file was closed; open it again")
        self.check_readable()
        return np.frombuffer(self._maps[tensor.shard], np.uint8, tensor.num_bytes, tensor.offset)

    def _tensor(self, name: str) -> TensorInfo:
        tensor = self.tensors.get(name)
        if tensor is None:
            raise UnsupportedModelError(
                self.path, f"it has no tensor {shown(name)}, so its layout is not one known here"
            )
        return tensor

    def identity(self) -> bytes:
        """32 bytes that differ where the model does, without reading all of it.

        Made of the header, of 1,024 pages spread over the weights, of sizes and of times of change, so that a file
        that was changed in place or replaced is another one. Raises ModelFileError where the file was closed or is
        gone.
        """
        if not self._maps:
            raise ModelFileError(self.path, "the file was closed; open it again")
        digest = hashlib.blake2b(digest_size=32)
        for path, mapped in zip(self.paths, self._maps, strict=True):
            try:
                changed_ns = path.stat().st_mtime_ns
            except OSError as error:
                raise _unreadable(path, error) from None
            digest.update(f"{len(mapped)} {changed_ns} ".encode())
            own = [tensor for tensor in self.tensors.values() if self.paths[tensor.shard] == path]
            digest.update(memoryview(mapped)[: min((tensor.offset for tensor in own), default=len(mapped))])
            step = max(_PAGE_BYTES, len(mapped) // _SAMPLED_PAGES)
            for start in range(0, len(mapped), step):
                digest.update(memoryview(mapped)[start : start + _PAGE_BYTES])
        self.check_readable()
        return digest.digest()

    def check_readable(self) -> None:
        """Raises ModelFileError where a file became shorter, or a part of one could not be read so far."""
        for mapped in self._maps:
            mapped.check_readable()

    def renew_guard(self) -> None:
        """Before the arrays are read: another handler of faults may have taken the place of the guard's."""
        for mapped in self._maps[:1]:  # which serves all
            mapped.renew_guard()

    def check_unchanged(self) -> None:
        """The same, and also where a file was written to since it was opened."""
        for mapped in self._maps:
            mapped.check_unchanged()

    def close(self) -> None:
        """Lets go of the files; a second call does nothing."""
        maps, self._maps = self._maps, []
        _close(maps)

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, Exception):
                self.check_readable()
        finally:
            self.close()


class HeaderFile(GGUFFile):
    """A model of which only the headers are here: everything but the weights' values can be asked.

    Vectors and small arrays are all ones and matrices of one repeated byte, which takes hardly any memory. A plan
    can be made of that and counted; it must not be run.
    """

    def __init__(self, paths: tuple[Path, ...], sizes: Sequence[int], headers: list[Header]) -> None:
        """``sizes`` are the bytes of the whole files. Raises what ``open_model`` raises for a set of headers."""
        super().__init__(paths, [], headers)
        for path, header in zip(paths, headers, strict=True):
            _check_split_keys(path, header.metadata, len(paths))
        _check_set(paths, headers)
        self.file_bytes = sum(sizes)
        self._ones: dict[TensorType, npt.NDArray[np.uint8]] = {}  # by type, the longest so far

    def tensor_data(self, name: str) -> npt.NDArray[np.uint8]:
        """Bytes of the tensor's size that stand for its own; UnsupportedModelError where there is none."""
        tensor = self._tensor(name)
        if tensor.type not in _ONES or tensor.num_bytes > _MAX_ONES_BYTES:
            return np.broadcast_to(np.uint8(0), (tensor.num_bytes,))
        shared = self._ones.get(tensor.type)
        if shared is None or shared.size < tensor.num_bytes:
            one = _ONES[tensor.type]
            shared = self._ones[tensor.type] = np.tile(one.view(np.uint8), tensor.num_bytes // one.nbytes)
            shared.flags.writeable = False
        return shared[: tensor.num_bytes]


_MAX_ONES_BYTES = 1 << 24  # more than any array whose values a plan is made of
_ONES: dict[TensorType, npt.NDArray[np.generic]] = {
    TensorType.F32: np.ones(1, np.float32),
    TensorType.F16: np.ones(1, np.float16),
    TensorType.BF16: np.full(1, 0x3F80, np.uint16),
}


def check_model_file(path: Path) -> None:
    """Read the header of one file by itself, whatever its name; raises ModelFileError where it is no sound one."""
    mapped = _map(path)
    try:
        _read_header(mapped)
    finally:
        _close([mapped])


def open_model(path: Path | str) -> GGUFFile:
    """Opens a GGUF file or, given any shard, the whole set.

    Reads headers only: 22 ms for a vocabulary of 262,144 tokens, whatever the size of the weights.

    Raises:
        ModelFileError: one of its kinds; the message says what the file is and what to do.
    """
    path = Path(path)
    _check_is_file(path)
    part = raw_part_of(path.name)
    if part is not None:
        of = f" of {part.count}" if part.count else ""
        raise SplitFileError(
            path,
            f"this is part {part.label}{of} of a split file and no model by itself; "
            f"join all parts, in order, into {part.whole} and open that",
        )
    paths = shard_paths(path)
    maps: list[MappedFile] = []
    try:
        headers = []
        for index, each in enumerate(paths):
            maps.append(_map(each))
            headers.append(_read_header(maps[-1], index))
            _check_split_keys(each, headers[-1].metadata, len(paths))
        _check_set(paths, headers)
        return GGUFFile(paths, maps, headers)
    except BaseException:
        _close(maps)
        raise


def _check_is_file(path: Path) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise ModelFileError(path, "there is no such file; it may have been moved, renamed or deleted") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _unreadable(path, error) from None
    if stat.S_ISDIR(mode):
        raise ModelFileError(path, "this is a folder; open the .gguf file inside it")
    if not stat.S_ISREG(mode):  # opening a pipe or a device could wait for ever
        raise ModelFileError(path, "this is not an ordinary file, so it cannot be a model")


def _read_header(mapped: MappedFile, shard: int = 0) -> Header:
    """The header of a file that may be shortened meanwhile, which then is the error."""
    try:
        return read_header(mapped.path, mapped, shard)
    finally:
        mapped.check_readable()


def _map(path: Path) -> MappedFile:
    """Maps a whole file for reading, after a look at what it is."""
    _check_is_file(path)
    try:
        with open(path, "rb") as file:
            description = describe_non_model(file.read(HEAD_BYTES))
            if description is not None:
                raise NotGGUFError(path, f"this is {description}")
            return MappedFile(path, file)
    except (OSError, ValueError) as error:  # ValueError: it was emptied after the look
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError | ValueError) -> ModelFileError:
    if isinstance(error, PermissionError):
        return ModelFileError(path, "the file cannot be read: permission is denied; check who may read it")
    if getattr(error, "errno", None) in {errno.EMFILE, errno.ENFILE}:
        return ModelFileError(path, "too many files are open to read this one; eject models or end other programs")
    reason = getattr(error, "strerror", None) or str(error)
    return ModelFileError(path, f"the file cannot be read ({reason}); check the disk and the path")


def _check_split_keys(path: Path, metadata: Metadata, num_paths: int) -> None:
    """Compares the ``split.*`` keys, which count from 0, with the name; a merged file has a count of 0."""
    count = metadata.integer("split.count", 0)
    name = shard_of(path.name) or ShardName(path.stem, 1, 1)
    number = metadata.integer("split.no", name.number - 1) + 1
    if count <= 1 and num_paths == 1:
        return
    if num_paths == 1:
        original = ShardName(path.stem, number, count).name_of(number)
        raise MissingShardsError(
            path,
            f"this is shard {number} of {count} of a model under another name; "
            f"give all shards their original names (such as {original}) and put them side by side",
        )
    if count and (count, number) != (name.count, name.number):
        raise CorruptFileError(
            path,
            f"its name says shard {name.number} of {name.count} but its content says {number} of {count}; "
            "it was renamed or belongs to another model, download the set again",
        )


def _check_set(paths: tuple[Path, ...], headers: list[Header]) -> None:
    """Checks that the shards make one model."""
    owners: dict[str, Path] = {}
    for path, header in zip(paths, headers, strict=True):
        for tensor in header.tensors:
            if tensor.name in owners:
                raise CorruptFileError(
                    path,
                    f"the tensor {shown(tensor.name)} is also in {owners[tensor.name].name}; "
                    "the shards do not belong together, download the set again",
                )
            owners[tensor.name] = path
    promised = headers[0].metadata.integer("split.tensors.count", len(owners))
    if len(paths) > 1 and promised != len(owners):
        raise CorruptFileError(
            paths[0],
            f"the shards hold {len(owners):,} of the {promised:,} tensors of the model; "
            "they do not belong together, download the set again",
        )


def _close(maps: list[MappedFile]) -> None:
    for mapped in maps:
        try:
            mapped.close()
        except BufferError:  # arrays still show it; it goes with the last of them
            continue
