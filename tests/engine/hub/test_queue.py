"""The queue on the disk: what is damaged, unreadable, another process's or added anew harms nothing else."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import filelock
import pytest

from engine.hub.download_record import (
    CANCELLED_SUFFIX,
    ORPHANS_KEPT_S,
    DownloadRecord,
    DownloadState,
    read_records,
    take_orphans,
    write_record,
)
from engine.hub.names import RemoteFile
from tests.engine.hub.loopback import Fault
from tests.engine.hub.person import Person


def _paused(models_folder: Path, repository: str) -> Path:
    """The folder of a paused download with some bytes."""
    files = [RemoteFile("m-Q4_0.gguf", 3_000_000, "0" * 64)]
    record = DownloadRecord("http://127.0.0.1:9", repository, "main", "Q4_0", files, [], DownloadState.PAUSED)
    folder = models_folder / ".downloads" / record.id
    write_record(folder, record)
    (folder / "00000.part").write_bytes(b"GGUF" * 100)
    return folder


def _grow_old(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        os.utime(path, (time.time() - ORPHANS_KEPT_S - 60,) * 2)


# ---------------------------------------------------------------------------------------------- added anew


def test_a_cancelled_download_leaves_the_same_one_added_anew_alone(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["resolve"] = [Fault(sleep_s=1.5)]
    first = person.add()
    person.wait_for(lambda row: len(person.hub.asked("hub")) > 1)
    (item,) = person.downloads._items.values()
    old_thread = item.thread
    assert old_thread is not None
    person.downloads.cancel(first)
    person.hub.always["store"] = Fault(pause_s=30.0)
    assert person.add() == first
    person.wait_for(lambda row: row.num_received > 0)
    old_thread.join(60)
    assert not old_thread.is_alive()
    assert person.row().num_received > 0
    assert [path.name for path in (person.folder / ".downloads").iterdir()] == [first]
    person.downloads.pause(first)
    person.hub.always.clear()
    person.downloads.resume(first)
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)


def test_what_a_kill_left_of_a_cancelled_download_goes(tmp_path: Path) -> None:
    folder = _paused(tmp_path, "acme/m")
    folder.rename(folder.with_name(f"{folder.name}-1{CANCELLED_SUFFIX}"))
    assert list(read_records(tmp_path)) == []
    assert list((tmp_path / ".downloads").iterdir()) == []


# ---------------------------------------------------------------------------------------------- unreadable


@pytest.fixture
def closed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder beside the downloads that nobody may look into, whoever runs the tests."""
    closed = tmp_path / ".downloads" / "closed"
    closed.mkdir(parents=True)
    real = Path.lstat

    def lstat(self: Path) -> os.stat_result:
        if closed in self.parents:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self)

    monkeypatch.setattr(Path, "lstat", lstat)
    return closed


def test_a_folder_that_cannot_be_read_is_passed_over(tmp_path: Path, closed_folder: Path) -> None:
    folder = _paused(tmp_path, "acme/m")
    _grow_old(folder)
    _grow_old(closed_folder)
    assert [found for found, _ in read_records(tmp_path)] == [folder]
    assert take_orphans(tmp_path) == {}
    assert (folder / "00000.part").exists()
    assert closed_folder.exists()


def test_where_nothing_can_be_listed_nothing_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _paused(tmp_path, "acme/m")
    _grow_old(folder)

    def scandir(_path: object) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", scandir)
    assert list(read_records(tmp_path)) == []
    assert take_orphans(tmp_path) == {}
    assert (folder / "00000.part").exists()


# ---------------------------------------------------------------------------------------------- damaged


@pytest.mark.parametrize(
    "change",
    [
        {"label": "\ud800"}, {"endpoint": "http://\ud800"}, {"message": "\ud800"}, {"revision": "\ud800"},
        {"path": "a\ud800.gguf"}, {"sha256": "\ud800"}, {"size": float("inf")}, {"size": float("nan")},
        {"size": -5}, {"size": 10**30}, {"size": []}, {"checked": [float("inf")]}, {"files": {"a": 1}},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_record_is_passed_over_and_kept(tmp_path: Path, person: Person, change: dict[str, Any]) -> None:
    models = person.folder
    good, bad = _paused(models, "acme/good"), _paused(models, "acme/bad")
    stored = json.loads((bad / "download.json").read_text())
    ((name, value),) = change.items()
    (stored["files"][0] if name in {"path", "size", "sha256"} else stored)[name] = value
    (bad / "download.json").write_text(json.dumps(stored))
    _grow_old(bad)
    _grow_old(good)
    person.downloads.start()
    rows = {row.id: row.state for row in person.downloads.rows()}
    assert rows == {good.name: DownloadState.PAUSED, bad.name: DownloadState.LEFT}
    assert (bad / "download.json").exists()
    assert (bad / "00000.part").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_place_that_links_to_itself_does_not_stop_the_others(person: Person) -> None:
    good, bad = _paused(person.folder, "acme/good"), _paused(person.folder, "other/bad")
    (person.folder / "other").symlink_to("other")
    person.downloads.start()
    rows = {row.id: row for row in person.downloads.rows()}
    assert (rows[good.name].state, rows[bad.name].state) == (DownloadState.PAUSED, DownloadState.LEFT)
    assert "remove the link" in rows[bad.name].message


# ---------------------------------------------------------------------------------------------- another process


def test_what_another_process_downloads_is_not_changed(person: Person) -> None:
    person.hub.always["store"] = Fault(pause_s=30.0)
    download = person.add()
    person.wait_for(lambda row: row.num_received > 0)
    record = person.folder / ".downloads" / download / "download.json"
    other = Person(person.hub, person.folder)  # its locks are as good as another process's
    assert other.add() == download
    assert "Another Fireside" in other.wait(DownloadState.PAUSED).message
    assert json.loads(record.read_text())["state"] == "running"
    other.downloads.resume(download)
    other.downloads.pause(download)
    assert json.loads(record.read_text())["state"] == "running"
    other.downloads.cancel(download)
    assert other.downloads.rows() == []
    assert record.exists()
    assert person.row().state is DownloadState.RUNNING
    person.downloads.pause(download)
    assert json.loads(record.read_text())["state"] == "paused"


def test_who_only_looks_does_not_stop_a_download(person: Person) -> None:
    folder = _paused(person.folder, "acme/x")
    person.downloads.start()
    lock = filelock.FileLock(folder / "lock", thread_local=False)
    lock.acquire()
    person.downloads.resume(folder.name)
    threading.Timer(0.05, lock.release).start()
    row = person.wait_for(lambda row: row.message != "")
    assert "Waiting for the network" in row.message


def test_two_writers_of_one_record_do_not_meet(tmp_path: Path) -> None:
    folder = _paused(tmp_path, "acme/m")
    ((_, record),) = read_records(tmp_path)

    def write() -> None:
        for _ in range(50):
            write_record(folder, record)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found.id for _, found in read_records(tmp_path)] == [record.id]
    assert sorted(path.name for path in folder.iterdir()) == ["00000.part", "download.json"]
