from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.cache import snapshot_store
from engine.cache.snapshot_file import PAGE_BYTES, Attachment, AttachmentKind, BlockRecord
from engine.cache.snapshot_store import MAX_FILES, SnapshotStore
from tests.engine.cache.test_snapshot_file import records_of

KEY, OTHER_KEY = bytes(32), bytes([1] * 32)
BLOCK_BYTES = 1000


@pytest.fixture(autouse=True)
def _no_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots", 1 << 30)


def _blocks(records: list[BlockRecord]) -> np.ndarray:
    """Each block is full of its first token."""
    return np.array([[record.token_ids[0]] * BLOCK_BYTES for record in records], np.uint8)


def _write(store: SnapshotStore, conversation: str, records: list[BlockRecord], key: bytes = KEY) -> int:
    writer = store.begin(key, conversation, BLOCK_BYTES, records, [])
    if writer is None:
        return 0
    writer.append(_blocks(records[: writer.num_blocks]))
    writer.finish()
    return writer.num_blocks


def _stored(store: SnapshotStore, conversation: str, key: bytes = KEY) -> list[BlockRecord]:
    found = []
    for file in store.files(key, conversation, BLOCK_BYTES):
        out = np.empty((len(file.blocks), BLOCK_BYTES), np.uint8)
        assert file.read_blocks(0, out) == len(file.blocks)
        assert (out == _blocks(list(file.blocks))).all()
        found += file.blocks
    return found


def _age(store: SnapshotStore, conversation: str, seconds: float) -> None:
    for folder in store._conversation_folders(conversation):
        os.utime(folder, (time.time() - seconds,) * 2)


def test_files_of_a_conversation_add_up(store: SnapshotStore) -> None:
    records = records_of([1] * 16, [2] * 16, [3] * 5)
    _write(store, "a", records[:1])
    _write(store, "a", records[1:])
    assert _stored(store, "a") == records
    assert _stored(store, "b") == []
    assert _stored(store, "a", OTHER_KEY) == []
    num_bytes, num_conversations = store.usage()
    assert num_conversations == 1
    assert 3 * BLOCK_BYTES < num_bytes < 4 * BLOCK_BYTES + 2 * 4096


def test_forgetting_deletes_all_models_snapshots_of_one_conversation(store: SnapshotStore) -> None:
    for key in (KEY, OTHER_KEY):
        _write(store, "a", records_of([1] * 16), key)
    _write(store, "b", records_of([1] * 16))
    assert store.has_other(KEY, "a")
    assert not store.has_other(KEY, "b")
    store.forget("a")
    store.forget("a")
    assert not store.has_other(KEY, "a")
    assert _stored(store, "a") == []
    assert len(_stored(store, "b")) == 1
    store.clear()
    assert store.usage() == (0, 0)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a/b", "x" * 5000, "\ud800", "NUL", "Ж\0"])
def test_any_conversation_id_stays_inside_the_folder(store: SnapshotStore, tmp_path: Path, name: str) -> None:
    _write(store, name, records_of([1] * 16))
    assert len(_stored(store, name)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["snapshots"]
    store.forget(name)
    assert store.usage() == (0, 0)


def test_the_quota_drops_the_conversations_used_longest_ago(store: SnapshotStore) -> None:
    for number in range(4):
        _write(store, f"c{number}", records_of([number + 1] * 16))
        _age(store, f"c{number}", 1000 - number)
    _stored(store, "c0")  # used just now
    one = store.usage()[0] // 4
    store.quota_bytes = 4 * one
    _write(store, "new", records_of([9] * 16))
    assert [len(_stored(store, f"c{number}")) for number in range(4)] == [1, 0, 1, 1]
    store.quota_bytes = 2 * one
    store.trim()
    assert store.usage()[1] == 2
    assert store.usage()[0] <= store.quota_bytes


def test_a_conversation_larger_than_the_quota_keeps_its_beginning(store: SnapshotStore) -> None:
    store.quota_bytes = PAGE_BYTES + 3 * BLOCK_BYTES
    records = records_of(*[[n + 1] * 16 for n in range(6)])
    assert _write(store, "a", records) == 3
    assert _stored(store, "a") == records[:3]
    assert store.usage()[0] == store.quota_bytes, "the file's header counts, too"
    store.quota_bytes = 0
    assert store.begin(KEY, "b", BLOCK_BYTES, records, []) is None


def test_logits_leave_room_for_blocks(store: SnapshotStore) -> None:
    store.quota_bytes = PAGE_BYTES + 4 * BLOCK_BYTES
    records = records_of(*[[n + 1] * 16 for n in range(6)])
    logits = [
        Attachment(AttachmentKind.LOGITS, records[0].name, n + 1, np.full(BLOCK_BYTES // 2, n, np.uint8))
        for n in range(5)
    ]
    writer = store.begin(KEY, "a", BLOCK_BYTES, records, logits)
    assert writer is not None
    assert writer.num_blocks == 3
    writer.append(_blocks(records[:3]))
    writer.finish()
    (file,) = store.files(KEY, "a", BLOCK_BYTES)
    assert [record.num_tokens for record in file.attachments] == [1, 2]


def test_what_others_need_of_the_disk_is_left_free(store: SnapshotStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 10**9)
    free = SimpleNamespace(free=10**9 + PAGE_BYTES + 2 * BLOCK_BYTES)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    assert _write(store, "a", records_of(*[[n + 1] * 16 for n in range(6)])) == 2
    free.free = 10**9 - 1
    assert store.begin(KEY, "b", BLOCK_BYTES, records_of([1]), []) is None


def test_a_full_disk_leaves_what_was_there(store: SnapshotStore, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no device that is always full")
    records = records_of([1] * 16, [2] * 16)
    _write(store, "a", records[:1])
    opened = os.open
    monkeypatch.setattr(
        "engine.cache.snapshot_file._open_private", lambda path, flags: opened("/dev/full", os.O_WRONLY)
    )
    writer = store.begin(KEY, "a", BLOCK_BYTES, records[1:], [])
    assert writer is not None
    writer.append(_blocks(records[1:]))
    with pytest.raises(OSError, match="No space left"):
        writer.finish()
    writer.abort()
    assert _stored(store, "a") == records[:1]


def test_a_damaged_file_is_removed_and_the_others_stay(store: SnapshotStore) -> None:
    records = records_of([1] * 16, [2] * 16)
    _write(store, "a", records[:1])
    _write(store, "a", records[1:])
    path = store.files(KEY, "a", BLOCK_BYTES)[1].path
    path.write_bytes(b"nonsense")
    assert _stored(store, "a") == records[:1]
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_snapshot(store: SnapshotStore) -> None:
    """Nobody writes to it, and who reads it waits for ever."""
    records = records_of([1] * 16, [2] * 16)
    _write(store, "a", records)
    (folder,) = store._conversation_folders("a")
    os.mkfifo(folder / "000000.kv")
    assert _stored(store, "a") == records
    store.forget("a")
    assert store.usage() == (0, 0)


def test_many_files_are_joined_without_what_is_superseded(store: SnapshotStore) -> None:
    first = records_of([1] * 16)[0]
    full = records_of([1] * 16, list(range(2, 18)))
    kept = []
    _write(store, "a", [first])
    for length in range(1, MAX_FILES):
        _write(store, "a", records_of([1] * 16, list(range(2, 2 + length)))[1:])
    branch = records_of([1] * 16, [2, 99, 99])[1]
    kept = [first, full[1], branch]
    state = Attachment(AttachmentKind.STATE, records_of([1] * 16, [2, 3])[1].name, 18, np.ones(8, np.uint8))
    writer = store.begin(KEY, "a", BLOCK_BYTES, [full[1], branch], [state])
    assert writer is not None
    writer.append(_blocks([full[1], branch]))
    writer.finish()
    store.compact(KEY, "a", BLOCK_BYTES)
    assert _stored(store, "a") == kept
    (file,) = store.files(KEY, "a", BLOCK_BYTES)
    (attachment,) = file.attachments
    assert (attachment.name, attachment.num_tokens) == (full[1].name, 18), "the state moved to the longer block"
    store.compact(KEY, "a", BLOCK_BYTES)
    assert store.files(KEY, "a", BLOCK_BYTES)[0].path == file.path, "one file is left alone"


KILLED = """
import sys, numpy as np
from pathlib import Path
from engine.cache import snapshot_store
from tests.engine.cache.test_snapshot_file import records_of
snapshot_store.MIN_FREE_BYTES = 0
store = snapshot_store.SnapshotStore(Path(sys.argv[1]), 1 << 30)
for number in range(1000):
    records = records_of([number % 200 + 1] * 16)
    writer = store.begin(bytes(32), f"c{number}", 1000, records, [])
    writer.append(np.full((1, 1000), number % 200 + 1, np.uint8))
    print(number, flush=True)
    writer.finish()
"""


@pytest.mark.skipif(os.name != "posix", reason="kills without warning")
def test_killed_while_writing_leaves_whole_files_only(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    for delay in (0, 3, 20):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "s")], stdout=subprocess.PIPE, cwd=root
        )
        assert process.stdout is not None
        last = 0
        for _ in range(delay + 1):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        store = SnapshotStore(tmp_path / "s", 1 << 30)
        assert all(len(_stored(store, f"c{number}")) == 1 for number in range(last))
        assert len(_stored(store, f"c{last}")) <= 1
        store.clean()
        assert not list((tmp_path / "s").glob("*/*/.*")), "what was half written is cleared away"
        store.clear()


def test_cleaning_removes_other_versions_and_leaves_running_writers_alone(store: SnapshotStore) -> None:
    _write(store, "a", records_of([1] * 16))
    old = store._folder / "0-abc" / "d"
    old.mkdir(parents=True)
    (old / "1.kv").write_bytes(b"x")
    writer = store.begin(KEY, "a", BLOCK_BYTES, records_of([1] * 16, [2] * 16)[1:], [])
    assert writer is not None
    store.clean()
    assert not old.exists()
    writer.append(_blocks(records_of([2] * 16)))
    writer.finish()
    assert len(_stored(store, "a")) == 2


def test_cleaning_removes_what_a_killed_writer_left_also_where_its_number_lives_on(store: SnapshotStore) -> None:
    """In a container every start has the same process id."""
    writer = store.begin(KEY, "a", BLOCK_BYTES, records_of([1] * 16), [])
    assert writer is not None
    left = writer._temporary
    (left.with_name(".x.kv.1.tmp")).mkdir()  # cannot be unlinked, and stops nothing
    store.clean()
    assert left.exists()
    _age_file(left, 2 * snapshot_store.MAX_WRITING_S)
    store.clean()
    assert not left.exists()
    writer.abort()


def _age_file(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


@pytest.mark.parametrize("name", ["000001.kv", "000007.kv"])
def test_a_folder_that_is_called_like_a_snapshot_stops_none(store: SnapshotStore, name: str) -> None:
    records = records_of([1] * 16)
    _write(store, "a", records)
    (folder,) = store._conversation_folders("a")
    for path in folder.iterdir():
        path.unlink()
    (folder / name).mkdir()
    _write(store, "a", records)
    assert _stored(store, "a") == records
