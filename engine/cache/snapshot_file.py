"""A snapshot file: blocks of the KV cache with the tokens they hold, and what is attached to their prefixes.

    magic 8 | header bytes u64 | BLAKE2b-256 of the header | header | blocks, block_bytes each | attachments
    header: fixed fields, then a record a block and a record an attachment, little-endian, without gaps

A block is named by its prefix: the hash of its parent's name and its own tokens, so a name tells a whole prefix and
files of one conversation fit together whatever their order. The header's hash and the checksum of each block and
attachment find damage; whatever does not fit raises ``DamagedSnapshotError`` and is to be computed anew. The file
is read, not mapped: reading a map beyond the end of a file that someone shortened ends the process.

Every count, size, name and place in the header is checked against the others and the file; what only the model
tells, how long its states and logits are, is checked by who takes them over.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from engine.model.plan import BLOCK_SIZE

FORMAT = 1
SUFFIX = ".kv"
TEMPORARY_SUFFIX = ".tmp"
PAGE_BYTES = 4096
NAME_BYTES = 16
ROOT_NAME = bytes(NAME_BYTES)

_MAGIC = b"FIREKV%02d" % FORMAT
_PREFIX = struct.Struct("<8sQ32s")
_FIXED = struct.Struct("<32sQQQII")  # key, bytes of a block, offset of the blocks, bytes of the file, counts
_BLOCK = np.dtype(
    [
        ("name", "u1", NAME_BYTES),
        ("parent", "u1", NAME_BYTES),
        ("token_ids", "<i4", BLOCK_SIZE),
        ("num_tokens", "<u4"),
        ("checksum", "<u4"),
    ]
)
_ATTACHMENT = np.dtype(
    [
        ("name", "u1", NAME_BYTES),
        ("num_tokens", "<u8"),
        ("num_bytes", "<u8"),
        ("kind", "<u4"),
        ("checksum", "<u4"),
    ]
)
_MAX_HEADER_BYTES = 256 << 20


class DamagedSnapshotError(Exception):
    """The file is not what it should be: damaged, cut short, or another model's."""


def block_name(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """Name of the block that holds ``token_ids`` after the block ``parent``; ``ROOT_NAME`` is the empty prefix."""
    return _name(parent, np.asarray(token_ids, dtype="<i4").tobytes())


def _name(parent: bytes, tokens: bytes) -> bytes:
    return hashlib.blake2b(parent + tokens, digest_size=NAME_BYTES).digest()


def blocks_offset(num_blocks: int, num_attachments: int) -> int:
    """Bytes before the first block of a file with so many records."""
    header_bytes = _FIXED.size + num_blocks * _BLOCK.itemsize + num_attachments * _ATTACHMENT.itemsize
    return -(-(_PREFIX.size + header_bytes) // PAGE_BYTES) * PAGE_BYTES


@dataclass(frozen=True)
class BlockRecord:
    """A block: 1 to 16 tokens after those of its parent."""

    name: bytes
    parent: bytes
    token_ids: tuple[int, ...]


class AttachmentKind(IntEnum):
    """What the bytes of an attachment are."""

    STATE = 0  # of recurrent layers
    LOGITS = 1  # float32, of the next token


@dataclass(frozen=True)
class Attachment:
    """Bytes that belong to a prefix of ``num_tokens`` tokens, which ends in the block ``name``."""

    kind: AttachmentKind
    name: bytes
    num_tokens: int
    data: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class AttachmentRecord:
    """Where an attachment lies; ``read_attachment`` gets it."""

    kind: AttachmentKind
    name: bytes
    num_tokens: int
    offset: int
    num_bytes: int
    checksum: int


@dataclass(frozen=True, eq=False)
class SnapshotFile:
    """A file whose header is right.

    Attributes:
        path: of the file.
        block_bytes: of each block.
        blocks: in the order in which they lie in the file, parents first.
        attachments: those of its prefixes, or of prefixes in other files.
    """

    path: Path
    block_bytes: int
    blocks: tuple[BlockRecord, ...]
    attachments: tuple[AttachmentRecord, ...]
    _offset: int
    _checksums: npt.NDArray[np.uint32]
    _token_range: tuple[int, int]

    def fits(self, vocab_size: int, state_bytes: int) -> bool:
        """Whether its tokens are a model's, and its logits and states as long as that model's."""
        lengths = {AttachmentKind.LOGITS: 4 * vocab_size, AttachmentKind.STATE: state_bytes}
        has_lengths = all(0 < each.num_bytes == lengths[each.kind] for each in self.attachments)
        return has_lengths and self._token_range[0] >= 0 and self._token_range[1] < vocab_size

    def read_blocks(self, first: int, out: npt.NDArray[np.uint8]) -> int:
        """Read blocks from index ``first`` into ``out``, (blocks, block_bytes) uint8, contiguous.

        Returns how many of them, from the first on, are sound; fewer than asked for where the file is damaged.
        """
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(self._offset + first * self.block_bytes)
                num_read = _read_into(file, out) // self.block_bytes if self.block_bytes else len(out)
        except OSError:
            return 0
        for index in range(num_read):
            if zlib.crc32(out[index].data) != int(self._checksums[first + index]):
                return index
        return num_read

    def read_attachment(self, record: AttachmentRecord) -> npt.NDArray[np.uint8]:
        """The bytes of one of ``attachments``. Raises DamagedSnapshotError."""
        data = np.empty(record.num_bytes, np.uint8)
        try:
            with open(self.path, "rb", buffering=0) as file:
                file.seek(record.offset)
                num_read = _read_into(file, data)
        except OSError as error:
            raise DamagedSnapshotError(str(error)) from error
        if num_read != data.size or zlib.crc32(data.data) != record.checksum:
            raise DamagedSnapshotError("an attachment is damaged")
        return data


def read_snapshot(path: Path, key: bytes, block_bytes: int) -> SnapshotFile:
    """Read the header of a file. Raises OSError, and DamagedSnapshotError unless it is a sound one for ``key``."""
    with open(path, "rb") as file:
        file_bytes = os.fstat(file.fileno()).st_size
        header = _read_header(file, file_bytes)
    if len(header) < _FIXED.size:
        raise DamagedSnapshotError("the header is too short")
    own_key, own_block_bytes, offset, own_file_bytes, num_blocks, num_attachments = _FIXED.unpack_from(header)
    if own_key != key or own_block_bytes != block_bytes:
        raise DamagedSnapshotError("it is another model's")
    sizes = num_blocks * _BLOCK.itemsize, num_attachments * _ATTACHMENT.itemsize
    if len(header) != _FIXED.size + sum(sizes) or own_file_bytes != file_bytes:
        raise DamagedSnapshotError("its length is not what the header says")
    if offset % PAGE_BYTES or offset < blocks_offset(num_blocks, num_attachments):
        raise DamagedSnapshotError("its blocks do not begin behind the header")
    rows = np.frombuffer(header, _BLOCK, num_blocks, _FIXED.size)
    blocks = tuple(_block_records(rows))
    attached = np.frombuffer(header, _ATTACHMENT, num_attachments, _FIXED.size + sizes[0])
    attachments = tuple(_attachment_records(attached, offset + num_blocks * block_bytes, file_bytes))
    _check_places(blocks, attachments)
    tokens = rows["token_ids"]  # with zeros behind those of a block that is not full
    token_range = (int(tokens.min()), int(tokens.max())) if num_blocks else (0, 0)
    return SnapshotFile(path, block_bytes, blocks, attachments, offset, rows["checksum"].copy(), token_range)


def _read_header(file: BinaryIO, file_bytes: int) -> bytes:
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        raise DamagedSnapshotError("the file is too short")
    magic, num_bytes, digest = _PREFIX.unpack(prefix)
    if magic != _MAGIC or num_bytes > min(file_bytes, _MAX_HEADER_BYTES):
        raise DamagedSnapshotError("it does not begin like a snapshot of this version")
    header = file.read(num_bytes)
    if hashlib.blake2b(header, digest_size=32).digest() != digest:
        raise DamagedSnapshotError("the header is damaged")
    return header


def _block_records(rows: npt.NDArray[np.void]) -> Iterator[BlockRecord]:
    """The records, each with the name that its tokens after its parent's have."""
    names, parents = rows["name"].tobytes(), rows["parent"].tobytes()
    tokens, row_bytes = rows["token_ids"].tobytes(), BLOCK_SIZE * 4
    for index, (token_ids, num_tokens) in enumerate(zip(rows["token_ids"].tolist(), rows["num_tokens"].tolist())):
        place = slice(index * NAME_BYTES, (index + 1) * NAME_BYTES)
        parent, name = parents[place], names[place]
        if not 0 < num_tokens <= BLOCK_SIZE:
            raise DamagedSnapshotError(f"a block holds 1 to {BLOCK_SIZE} tokens, not {num_tokens}")
        if name != _name(parent, tokens[index * row_bytes : index * row_bytes + 4 * num_tokens]):
            raise DamagedSnapshotError("a block does not hold the tokens of its name")
        yield BlockRecord(name, parent, tuple(token_ids[:num_tokens]))


def _attachment_records(rows: npt.NDArray[np.void], offset: int, file_bytes: int) -> list[AttachmentRecord]:
    """The records, one behind the other from ``offset`` to the end of the file."""
    records: list[AttachmentRecord] = []
    for row in rows:
        num_tokens, num_bytes, checksum = int(row["num_tokens"]), int(row["num_bytes"]), int(row["checksum"])
        kind = int(row["kind"])
        if kind not in list(AttachmentKind) or num_bytes > file_bytes - offset:
            raise DamagedSnapshotError("what is attached is of no known kind, or longer than the file")
        if kind == AttachmentKind.LOGITS and num_bytes % 4:
            raise DamagedSnapshotError("the logits are no float32")
        records.append(
            AttachmentRecord(AttachmentKind(kind), row["name"].tobytes(), num_tokens, offset, num_bytes, checksum)
        )
        offset += num_bytes
    if offset != file_bytes:
        raise DamagedSnapshotError("its length is not that of what it holds")
    return records


def _check_places(blocks: Sequence[BlockRecord], attachments: Sequence[AttachmentRecord]) -> None:
    """Raise DamagedSnapshotError where a block follows half a one, or something is attached beyond its block."""
    lengths = {block.name: len(block.token_ids) for block in blocks}
    if len(lengths) < len(blocks):
        raise DamagedSnapshotError("a block is there twice")
    if any(lengths.get(block.parent, BLOCK_SIZE) < BLOCK_SIZE for block in blocks):
        raise DamagedSnapshotError("a block follows one that is not full")
    for each in attachments:
        if each.num_tokens == 0 or (each.num_tokens - 1) % BLOCK_SIZE >= lengths.get(each.name, BLOCK_SIZE):
            raise DamagedSnapshotError("something is attached beyond the tokens of its block")


def _read_into(file: BinaryIO, out: npt.NDArray[np.uint8]) -> int:
    """Fill ``out`` as far as the file goes; returns the bytes read."""
    view, num_read = out.reshape(-1).data, 0
    while num_read < len(view):
        count = file.readinto(view[num_read:])  # type: ignore[attr-defined]
        if not count:
            break
        num_read += count
    return num_read


class SnapshotWriter:
    """Writes one file: first under a temporary name, then, complete and on the disk, under its own.

    Blocks come in the order of ``records``; fewer may come. ``append`` and ``finish`` raise OSError when the disk
    is full or gone; ``abort`` never raises.

    Attributes:
        num_blocks: that it has room for.
    """

    def __init__(
        self,
        path: Path,
        key: bytes,
        block_bytes: int,
        records: Sequence[BlockRecord],
        attachments: Sequence[Attachment] = (),
    ) -> None:
        self._path = path
        unique = secrets.token_hex(4)  # another program may write to the same name
        self._temporary = path.with_name(f".{path.name}.{unique}.{os.getpid()}{TEMPORARY_SUFFIX}")
        self._key = key
        self._block_bytes = block_bytes
        self._records = records
        self.num_blocks = len(records)
        self._attachments = attachments
        self._checksums: list[int] = []
        self._offset = blocks_offset(len(records), len(attachments))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = open(self._temporary, "wb", opener=_open_private)  # noqa: SIM115
        self._file.seek(self._offset)

    def append(self, data: npt.NDArray[np.uint8]) -> None:
        """Write the next blocks, (blocks, block_bytes) uint8, contiguous."""
        self._file.write(data.reshape(-1).data)
        self._checksums += [zlib.crc32(block.data) for block in data]

    @property
    def folder(self) -> Path:
        return self._path.parent

    def finish(self, path: Path | None = None) -> None:
        """Give the file its name, or that of ``path`` in the same folder, once it is sealed."""
        if not self._file.closed:
            self.seal()
        os.replace(self._temporary, path or self._path)
        sync_folder(self.folder)

    def seal(self) -> None:
        """Write attachments and header and bring all to the disk, under the temporary name still."""
        rows = np.zeros(len(self._attachments), _ATTACHMENT)
        for row, each in zip(rows, self._attachments, strict=True):
            self._file.write(each.data.reshape(-1).data)
            row["name"] = np.frombuffer(each.name, np.uint8)
            row["num_tokens"], row["num_bytes"], row["kind"] = each.num_tokens, each.data.nbytes, each.kind
            row["checksum"] = zlib.crc32(each.data.reshape(-1).data)
        file_bytes = self._file.tell()
        blocks = self._block_rows()
        counts = len(blocks), len(rows)
        fixed = _FIXED.pack(self._key, self._block_bytes, self._offset, file_bytes, *counts)
        header = fixed + blocks.tobytes() + rows.tobytes()
        self._file.seek(0)
        self._file.write(_PREFIX.pack(_MAGIC, len(header), hashlib.blake2b(header, digest_size=32).digest()))
        self._file.write(header)
        self._file.truncate(file_bytes)  # where blocks have no bytes, nothing lies behind the header's padding
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abort(self) -> None:
        """Leave no trace."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink(missing_ok=True)

    def _block_rows(self) -> npt.NDArray[np.void]:
        rows = np.zeros(len(self._checksums), _BLOCK)
        for row, record, checksum in zip(rows, self._records, self._checksums, strict=False):
            row["name"], row["parent"] = (np.frombuffer(name, np.uint8) for name in (record.name, record.parent))
            row["token_ids"][: len(record.token_ids)] = record.token_ids
            row["num_tokens"], row["checksum"] = len(record.token_ids), checksum
        return rows


def _open_private(path: str, flags: int) -> int:
    """What was said in a chat is for its owner alone."""
    return os.open(path, flags, 0o600)


def sync_folder(folder: Path) -> None:
    """Bring new names in a folder to the disk, and that others are gone, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
