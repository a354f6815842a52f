from __future__ import annotations

import hashlib
import os
import random
import stat
from pathlib import Path

import numpy as np
import pytest

from engine.cache import snapshot_file
from engine.cache.snapshot_file import (
    ROOT_NAME,
    Attachment,
    AttachmentKind,
    BlockRecord,
    DamagedSnapshotError,
    SnapshotFile,
    SnapshotWriter,
    block_name,
    read_snapshot,
)

KEY = bytes(range(32))
BLOCK_BYTES = 96


def records_of(*blocks: list[int]) -> list[BlockRecord]:
    """A path."""
    records, parent = [], ROOT_NAME
    for token_ids in blocks:
        records.append(BlockRecord(block_name(parent, token_ids), parent, tuple(token_ids)))
        parent = records[-1].name
    return records


RECORDS = records_of(list(range(16)), list(range(16, 32)), [7, 8, 9])
DATA = np.random.default_rng(1).integers(0, 256, (3, BLOCK_BYTES), dtype=np.uint8)
STATE = np.arange(50, dtype=np.uint8)


def write(path: Path, key: bytes = KEY) -> Path:
    attachments = [Attachment(AttachmentKind.STATE, RECORDS[1].name, 30, STATE)]
    writer = SnapshotWriter(path, key, BLOCK_BYTES, RECORDS, attachments)
    writer.append(DATA[:2])
    writer.append(DATA[2:])
    writer.finish()
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "folder" / "000001.kv")


def _contents(file: SnapshotFile) -> tuple[list[int], list[int] | None]:
    out = np.empty((len(file.blocks), BLOCK_BYTES), np.uint8)
    num_sound = file.read_blocks(0, out)
    for index in range(num_sound):
        assert (out[index] == DATA[index]).all(), "a block that is called sound is what was written"
    try:
        state = [each for record in file.attachments for each in file.read_attachment(record).tolist()]
    except DamagedSnapshotError:
        return list(range(num_sound)), None
    assert state in (STATE.tolist(), [])
    return list(range(num_sound)), state


@pytest.mark.parametrize("has_state", [False, True])
def test_blocks_of_a_model_without_keys_and_values(tmp_path: Path, has_state: bool) -> None:
    attachments = [Attachment(AttachmentKind.STATE, RECORDS[1].name, 30, STATE)] * has_state
    writer = SnapshotWriter(tmp_path / "000001.kv", KEY, 0, RECORDS, attachments)
    writer.append(np.empty((3, 0), np.uint8))
    writer.finish()
    file = read_snapshot(tmp_path / "000001.kv", KEY, 0)
    assert list(file.blocks) == RECORDS
    assert file.read_blocks(0, np.empty((3, 0), np.uint8)) == 3
    assert [file.read_attachment(record).tolist() for record in file.attachments] == [STATE.tolist()] * has_state


def test_what_was_written_is_read(path: Path) -> None:
    file = read_snapshot(path, KEY, BLOCK_BYTES)
    assert list(file.blocks) == RECORDS
    assert _contents(file) == ([0, 1, 2], STATE.tolist())
    out = np.empty((1, BLOCK_BYTES), np.uint8)
    assert file.read_blocks(2, out) == 1
    assert (out[0] == DATA[2]).all()
    (record,) = file.attachments
    assert (record.kind, record.name, record.num_tokens) == (AttachmentKind.STATE, RECORDS[1].name, 30)


@pytest.mark.parametrize(("field", "value"), [("num_bytes", 1 << 62), ("num_bytes", 1 << 40), ("kind", 9)])
def test_an_attachment_that_cannot_be_is_damage(path: Path, field: str, value: int) -> None:
    """Also where the header's own checksum is right."""
    data = bytearray(path.read_bytes())
    prefix, row = snapshot_file._PREFIX, snapshot_file._ATTACHMENT
    magic, num_bytes, _ = prefix.unpack_from(data)
    end = prefix.size + num_bytes
    rows = np.frombuffer(data, row, 1, end - row.itemsize)
    rows[field] = value
    digest = hashlib.blake2b(data[prefix.size : end], digest_size=32).digest()
    data[: prefix.size] = prefix.pack(magic, num_bytes, digest)
    path.write_bytes(data)
    with pytest.raises(DamagedSnapshotError, match="attached"):
        read_snapshot(path, KEY, BLOCK_BYTES)


def test_it_is_for_its_owner_alone(path: Path) -> None:
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_another_key_or_block_size_is_refused(path: Path) -> None:
    with pytest.raises(DamagedSnapshotError, match="another model"):
        read_snapshot(path, bytes(32), BLOCK_BYTES)
    with pytest.raises(DamagedSnapshotError, match="another model"):
        read_snapshot(path, KEY, BLOCK_BYTES + 1)


def test_no_single_changed_byte_gives_wrong_contents(path: Path) -> None:
    sound = path.read_bytes()
    refused = 0
    for place in [*range(0, 600), *range(4096, len(sound))]:
        damaged = bytearray(sound)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            file = read_snapshot(path, KEY, BLOCK_BYTES)
        except DamagedSnapshotError:
            refused += 1
            continue
        assert list(file.blocks) == RECORDS
        _contents(file)
    assert refused > 400, "the whole header is covered"


@pytest.mark.parametrize("seed", range(3))
def test_random_damage_never_gives_wrong_contents(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    sound = path.read_bytes()
    for _ in range(200):
        damaged = bytearray(sound[: rng.randrange(1, len(sound))] if rng.random() < 0.5 else sound)
        for _ in range(rng.randrange(4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.2:
            damaged += bytes(rng.randrange(100))
        path.write_bytes(damaged)
        try:
            file = read_snapshot(path, KEY, BLOCK_BYTES)
        except DamagedSnapshotError:
            continue
        _contents(file)


def test_a_file_that_shrinks_or_goes_after_its_header_was_read_is_damaged(path: Path) -> None:
    file = read_snapshot(path, KEY, BLOCK_BYTES)
    with path.open("r+b") as stream:
        stream.truncate(4096 + BLOCK_BYTES + 1)
    assert _contents(file) == ([0], None)
    path.unlink()
    assert _contents(file) == ([], None)


def test_a_file_of_fewer_blocks_than_planned_is_whole(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path / "1.kv", KEY, BLOCK_BYTES, RECORDS)
    writer.append(DATA[:1])
    writer.finish()
    file = read_snapshot(tmp_path / "1.kv", KEY, BLOCK_BYTES)
    assert list(file.blocks) == RECORDS[:1]
    assert _contents(file)[0] == [0]


def test_nothing_has_the_name_before_it_is_complete(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path / "1.kv", KEY, BLOCK_BYTES, RECORDS)
    writer.append(DATA)
    assert not list(tmp_path.glob("*.kv"))
    writer.abort()
    assert not list(tmp_path.iterdir()), "an aborted file leaves no trace"


def test_names_tell_the_whole_prefix() -> None:
    one, other = records_of([1] * 16, [2, 3]), records_of([4] * 16, [2, 3])
    assert one[1].name != other[1].name
    assert block_name(ROOT_NAME, [1, 2]) != block_name(ROOT_NAME, [1, 2, 0])
