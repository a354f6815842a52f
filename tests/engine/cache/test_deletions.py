"""What one program deletes, the others that share the folder do not bring back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from engine.cache import deletions, snapshot_store
from engine.cache.deletions import ALL, Deletions, conversation_name
from engine.cache.folder_lock import folder_lock
from engine.cache.snapshot_file import ROOT_NAME, BlockRecord, SnapshotWriter, block_name
from engine.cache.snapshot_store import MAX_FILES, SnapshotStore

KEY, BLOCK_BYTES = bytes(32), 512
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _no_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)


def _record(number: int) -> BlockRecord:
    tokens = (number,) * 16
    return BlockRecord(block_name(ROOT_NAME, tokens), ROOT_NAME, tokens)


def _begin(store: SnapshotStore, conversation: str, number: int = 1) -> SnapshotWriter:
    writer = store.begin(KEY, conversation, BLOCK_BYTES, [_record(number)], [])
    assert writer is not None
    writer.append(np.zeros((1, BLOCK_BYTES), np.uint8))
    return writer


def _write(store: SnapshotStore, conversation: str, number: int = 1) -> None:
    heard = store.deletions.heard
    store.publish(_begin(store, conversation, number), conversation, heard)


def _left(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*/*/*") if path.is_file()]


def test_others_hear_of_a_deletion_once_and_oneself_never(tmp_path: Path) -> None:
    mine, other = Deletions(tmp_path / "deleted"), Deletions(tmp_path / "deleted")
    mine.begin(conversation_name("a"))
    mine.end(conversation_name("a"))
    assert not mine.news().has("a")
    heard = other.news()
    assert heard.has("a")
    assert not heard.has("b")
    assert not other.news().names
    mine.begin(ALL)
    assert other.since(heard.end).concerns("b")
    assert not other.news().has("b"), "its snapshot is gone, it is not"
    assert not Deletions(tmp_path / "deleted").news().names, "what was before a start is no news"


def test_what_was_begun_and_not_done_is_known_also_after_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "deleted"
    mine = Deletions(path)
    for name in "abc":
        mine.begin(conversation_name(name))
    mine.end(conversation_name("b"))
    path.write_bytes(path.read_bytes() + b"\n-0123")
    mine.end(conversation_name("c"))
    assert Deletions(path).unfinished() == [conversation_name("a")]


def test_a_file_begun_anew_counts_as_everything_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "MAX_BYTES", 100)
    mine, other = Deletions(tmp_path / "deleted"), Deletions(tmp_path / "deleted")
    for _ in range(3):
        mine.begin(ALL)
        mine.end(ALL)
    other.news()
    mine.shorten()
    assert mine.position == 0
    assert other.news().concerns("anything")
    assert not other.news().is_all


@pytest.mark.parametrize("is_all", [False, True])
def test_a_file_that_another_program_writes_while_it_is_deleted_never_gets_its_name(
    tmp_path: Path, is_all: bool
) -> None:
    mine, other = SnapshotStore(tmp_path, 1 << 30), SnapshotStore(tmp_path, 1 << 30)
    _write(other, "a")
    writer, heard = _begin(other, "a", 2), other.deletions.heard
    if is_all:
        mine.clear()
    else:
        mine.forget("a")
    other.publish(writer, "a", heard)
    assert not _left(tmp_path)
    assert mine.usage() == (0, 0)
    other.deletions.news()
    _write(other, "a")
    assert other.usage()[1] == 1, "who has heard of it may begin anew"


def test_joined_files_of_a_conversation_deleted_meanwhile_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = SnapshotStore(tmp_path, 1 << 30), SnapshotStore(tmp_path, 1 << 30)
    for number in range(MAX_FILES):
        _write(other, "a", number)
    seal = SnapshotWriter.seal

    def seal_and_forget(self: SnapshotWriter) -> None:
        seal(self)
        mine.forget("a")

    monkeypatch.setattr(SnapshotWriter, "seal", seal_and_forget)
    other.compact(KEY, "a", BLOCK_BYTES)
    assert not _left(tmp_path)


def test_two_programs_write_one_conversation_side_by_side(tmp_path: Path) -> None:
    mine, other = SnapshotStore(tmp_path, 1 << 30), SnapshotStore(tmp_path, 1 << 30)
    writers = [(store, _begin(store, "a", number)) for number, store in enumerate((mine, other))]
    for store, writer in writers:
        store.publish(writer, "a", store.deletions.heard)
    tokens = {block.token_ids[0] for file in mine.files(KEY, "a", BLOCK_BYTES) for block in file.blocks}
    assert tokens == {0, 1}


def test_deleting_beside_a_program_that_writes_without_end(tmp_path: Path) -> None:
    mine, other = SnapshotStore(tmp_path, 1 << 30), SnapshotStore(tmp_path, 1 << 30)
    is_over = threading.Event()

    def write() -> None:
        while not is_over.is_set():
            _write(other, "secret")

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for number in range(40):
            for conversation in ("secret", "b", "c"):
                _write(mine, conversation)
            if number % 2:
                mine.clear()
            else:
                for conversation in ("secret", "b", "c"):
                    mine.forget(conversation)
            assert not mine.files(KEY, "b", BLOCK_BYTES)
            assert not mine.files(KEY, "c", BLOCK_BYTES)
    finally:
        is_over.set()
        writing.join()
    assert not mine.files(KEY, "secret", BLOCK_BYTES), "the other has not heard of it, so it writes nothing more"


def test_a_deletion_that_was_cut_off_is_done_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SnapshotStore(tmp_path, 1 << 30)
    for conversation in ("a", "b"):
        _write(store, conversation)
    with monkeypatch.context() as killed:
        killed.setattr(snapshot_store, "_remove_folder", lambda folder: None)
        with pytest.raises(OSError, match="cannot be deleted"):
            store.forget("a")
    assert store.usage()[1] == 2
    SnapshotStore(tmp_path, 1 << 30).clean()
    assert store.usage()[1] == 1
    assert store.files(KEY, "b", BLOCK_BYTES)


def test_the_quota_holds_for_two_programs_together(tmp_path: Path) -> None:
    mine, other = SnapshotStore(tmp_path, 1 << 30), SnapshotStore(tmp_path, 1 << 30)
    _write(mine, "old")
    one = mine.usage()[0]
    mine.quota_bytes = other.quota_bytes = 2 * one
    writers = [(store, name, _begin(store, name)) for store, name in ((mine, "a"), (other, "b"))]
    for store, name, writer in writers:
        store.publish(writer, name, store.deletions.heard)
    assert mine.usage() == (2 * one, 2)


def test_a_lock_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    with folder_lock(tmp_path, 0.0) as is_locked:
        assert is_locked
        with folder_lock(tmp_path, 0.03) as is_locked:
            assert not is_locked
    with folder_lock(tmp_path, 0.0) as is_locked:
        assert is_locked


_HOLDS = """
import sys, time
from pathlib import Path
from engine.cache.folder_lock import folder_lock
with folder_lock(Path(sys.argv[1]), 1.0) as is_locked:
    print(is_locked, flush=True)
    time.sleep(60)
"""


def test_a_lock_ends_with_its_program(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", _HOLDS, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"True"
        with folder_lock(tmp_path, 0.0) as is_locked:
            assert not is_locked
    finally:
        process.kill()
        process.communicate()
    with folder_lock(tmp_path, 5.0) as is_locked:
        assert is_locked


def test_a_program_that_hangs_with_the_lock_stops_no_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_store, "LOCK_WAIT_S", 0.02)
    store = SnapshotStore(tmp_path, 1 << 30)
    _write(store, "a")
    with folder_lock(tmp_path, 0.0):
        assert store.begin(KEY, "b", BLOCK_BYTES, [_record(1)], []) is None, "writing can wait"
        store.forget("a")
    assert store.usage() == (0, 0)


@pytest.mark.parametrize("kind", ["folder", "pipe", "rubbish", "link"])
def test_whatever_lies_in_the_place_of_the_file_is_not_waited_for_and_stops_no_deletion(
    tmp_path: Path, kind: str
) -> None:
    if kind == "pipe" and not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    store = SnapshotStore(tmp_path, 1 << 30)
    _write(store, "a")
    place = tmp_path / "deleted"
    place.unlink(missing_ok=True)
    match kind:
        case "folder":
            (place / "deeper").mkdir(parents=True)
        case "pipe":
            os.mkfifo(place)
        case "link":
            place.symlink_to(tmp_path / "nowhere")
        case _:
            place.write_bytes(bytes(range(256)) * 3)
    other = SnapshotStore(tmp_path, 1 << 30)
    other.clean()
    assert not other.deletions.news().names
    store.forget("a")
    assert store.usage() == (0, 0)
    assert other.deletions.since(0).has("a")
    assert not other.deletions.unfinished()
