from __future__ import annotations

import hashlib
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def forge(path: Path, change: Callable[[dict[str, int], np.ndarray, np.ndarray], None]) -> None:
    """Change a header by ``change(fixed fields, blocks, attachments)``, and make its checksum right again."""
    data = bytearray(path.read_bytes())
    prefix, fixed_fields = snapshot_file._PREFIX, snapshot_file._FIXED
    block, attachment = snapshot_file._BLOCK, snapshot_file._ATTACHMENT
    magic, num_bytes, _ = prefix.unpack_from(data)
    names = ("key", "block_bytes", "offset", "file_bytes", "num_blocks", "num_attachments")
    fixed = dict(zip(names, fixed_fields.unpack_from(data, prefix.size), strict=True))
    start = prefix.size + fixed_fields.size
    blocks = np.frombuffer(data, block, fixed["num_blocks"], start).copy()
    attachments = np.frombuffer(data, attachment, fixed["num_attachments"], start + blocks.nbytes).copy()
    change(fixed, blocks, attachments)
    header = fixed_fields.pack(*fixed.values()) + blocks.tobytes() + attachments.tobytes()
    assert len(header) == num_bytes
    digest = hashlib.blake2b(header, digest_size=32).digest()
    data[: prefix.size + num_bytes] = prefix.pack(magic, num_bytes, digest) + header
    path.write_bytes(data)


def _setting(place: int, field: str, value: object, index: int = 0) -> Callable[..., None]:
    def change(*parts: Any) -> None:
        if place == 0:
            parts[0][field] = value
        else:
            parts[place][field][index] = value

    return change


def _cyclic(_: object, blocks: np.ndarray, __: object) -> None:
    blocks["parent"][0] = blocks["name"][2]


def _twice(_: object, blocks: np.ndarray, __: object) -> None:
    blocks[1] = blocks[0]


def _after_half_a_block(_: object, blocks: np.ndarray, __: object) -> None:
    blocks["num_tokens"][1] = 7
    for index, record in enumerate(records_of(list(range(16)), list(range(16, 23)), [7, 8, 9])):
        blocks["name"][index] = np.frombuffer(record.name, np.uint8)
        blocks["parent"][index] = np.frombuffer(record.parent, np.uint8)


FORGERIES = {
    "attachment longer than a file can be": _setting(2, "num_bytes", 1 << 62),
    "attachment longer than the file": _setting(2, "num_bytes", 1 << 40),
    "attachment shorter than what is there": _setting(2, "num_bytes", 4),
    "unknown attachment": _setting(2, "kind", 9),
    "attachment to no token": _setting(2, "num_tokens", 0),
    "attachment beyond its block": _setting(2, "name", np.frombuffer(RECORDS[2].name, np.uint8)),
    "block without tokens": _setting(1, "num_tokens", 0),
    "block of too many tokens": _setting(1, "num_tokens", 17),
    "block of very many tokens": _setting(1, "num_tokens", 4_000_000_000),
    "block of fewer tokens than its name": _setting(1, "num_tokens", 5, 1),
    "block of other tokens than its name": _setting(1, "token_ids", np.arange(1, 17), 1),
    "block of another name": _setting(1, "name", 0, 1),
    "block of another parent": _setting(1, "parent", 7, 1),
    "blocks in a circle": _cyclic,
    "block that is there twice": _twice,
    "block after one that is not full": _after_half_a_block,
    "blocks inside the header": _setting(0, "offset", 0),
    "blocks at an odd place": _setting(0, "offset", 4097),
    "blocks beyond the file": _setting(0, "offset", 1 << 60),
    "another length": _setting(0, "file_bytes", 12),
    "more blocks than records": _setting(0, "num_blocks", 4),
    "more blocks than memory": _setting(0, "num_blocks", (1 << 32) - 1),
    "fewer attachments than records": _setting(0, "num_attachments", 0),
    "blocks without bytes": _setting(0, "block_bytes", 0),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_header_that_cannot_be_is_damage_though_its_checksum_is_right(path: Path, name: str) -> None:
    forge(path, lambda *_: None)
    assert list(read_snapshot(path, KEY, BLOCK_BYTES).blocks) == RECORDS
    forge(path, FORGERIES[name])
    with pytest.raises(DamagedSnapshotError):
        read_snapshot(path, KEY, BLOCK_BYTES)


@pytest.mark.parametrize(
    ("kind", "num_bytes", "fits"),
    [
        (AttachmentKind.STATE, 50, True),
        (AttachmentKind.STATE, 48, False),
        (AttachmentKind.STATE, 0, False),
        (AttachmentKind.LOGITS, 4 * 64, True),
        (AttachmentKind.LOGITS, 4 * 63, False),
        (AttachmentKind.LOGITS, 4, False),
    ],
)
def test_what_is_attached_must_be_as_long_as_the_models(
    tmp_path: Path, kind: AttachmentKind, num_bytes: int, fits: bool
) -> None:
    attachments = [Attachment(kind, RECORDS[1].name, 30, np.zeros(num_bytes, np.uint8))]
    writer = SnapshotWriter(tmp_path / "1.kv", KEY, BLOCK_BYTES, RECORDS, attachments)
    writer.append(DATA)
    writer.finish()
    file = read_snapshot(tmp_path / "1.kv", KEY, BLOCK_BYTES)
    assert file.fits(vocab_size=64, state_bytes=50) is fits
    assert not file.fits(vocab_size=31, state_bytes=50), "token 31 is in it"


def test_tokens_below_zero_are_no_models(tmp_path: Path) -> None:
    writer = SnapshotWriter(tmp_path / "1.kv", KEY, BLOCK_BYTES, records_of([3, -1]))
    writer.append(DATA[:1])
    writer.finish()
    assert not read_snapshot(tmp_path / "1.kv", KEY, BLOCK_BYTES).fits(vocab_size=64, state_bytes=50)


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
