"""Disks that fill up, names that no folder can have, and downloads that mend what is here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import DiskFullError, DownloadError
from engine.hub import transfer as transfer_module
from engine.hub.client import HubClient
from engine.hub.download_record import ORPHANS_KEPT_S, DownloadState, take_orphans
from engine.hub.names import RemoteFile, Version
from engine.library.files import total_size
from tests.engine.hub.loopback import Fault, LoopbackHub
from tests.engine.hub.person import Person
from tests.gguf_writer import encode_gguf, write_shards

# ---------------------------------------------------------------------------------------------- disks and names


def _fills_up(monkeypatch: pytest.MonkeyPatch, room: list[int]) -> None:
    """A file layer with a quota: writes of parts use up ``room[0]`` and then fail as a full disk does."""
    real_write = transfer_module.Transfer._write

    def write(self: transfer_module.Transfer, stream: object, piece: bytes) -> None:
        if room[0] < len(piece):
            real_write(self, stream, piece[: room[0]])  # type: ignore[arg-type]
            room[0] = 0
            raise OSError(28, "No space left on device")
        room[0] -= len(piece)
        real_write(self, stream, piece)  # type: ignore[arg-type]

    monkeypatch.setattr(transfer_module.Transfer, "_write", write)


def test_a_disk_that_fills_up_keeps_what_came(
    person: Person, model_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [1_000_000]
    _fills_up(monkeypatch, room)
    download = person.add()
    row = person.wait(DownloadState.PAUSED)
    assert row.num_received == 1_000_000
    assert re.search(r"is full: free [1-3] MB and go on", row.message)
    room[0] = 10**9
    sent = person.hub.num_sent
    person.downloads.resume(download)
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)
    assert person.hub.num_sent - sent == len(model_bytes) - 1_000_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("needs the right to mount")
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_real_disk_that_is_full(
    hub: LoopbackHub, small_disk: Path, model_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before it begins; when others fill the disk meanwhile, the row waits; Delete frees all of it."""
    hub.add("acme/m", {"m-Q4_0.gguf": model_bytes})
    person = Person(hub, small_disk / "models")
    with pytest.raises(DownloadError, match=r"3 MB do not fit: .*; free [\d.]+ [MG]B and try again"):
        person.add()
    assert total_size([small_disk]) == 0
    monkeypatch.setattr("engine.hub.downloads.check_room", lambda *_: None)
    monkeypatch.setattr("engine.hub.download_work.check_room", lambda *_: None)
    download = person.add()
    row = person.wait(DownloadState.PAUSED)
    assert "is full: free" in row.message
    assert row.num_received > 1_000_000
    person.downloads.cancel(download)
    assert total_size([small_disk]) == 0
    person.downloads.close()


def test_a_disk_without_room_for_the_record_pauses(
    person: Person, model_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All bytes came, and then the disk has none for what is known of them."""

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("engine.hub.download_work.write_record", no_room)
        download = person.add()
        row = person.wait(DownloadState.PAUSED, DownloadState.FAILED)
    assert (row.state, row.num_received) == (DownloadState.PAUSED, len(model_bytes))
    assert row.message == f"The disk of {person.folder} is full: free some space and go on."
    sent = person.hub.num_sent
    person.downloads.resume(download)
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)
    assert person.hub.num_sent == sent


def test_a_real_disk_that_is_freed_lets_it_go_on(
    hub: LoopbackHub, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = encode_gguf({"general.architecture": "llama"}, {"t": np.zeros((250, 1000), np.float32)})
    hub.add("acme/m", {"m-Q4_0.gguf": content})
    filler = small_disk / "someone's"
    filler.write_bytes(bytes(1_500_000))
    monkeypatch.setattr("engine.hub.downloads.check_room", lambda *_: None)
    monkeypatch.setattr("engine.hub.download_work.check_room", lambda *_: None)
    person = Person(hub, small_disk / "models")
    download = person.add()
    row = person.wait(DownloadState.PAUSED)
    assert 0 < row.num_received < len(content)
    filler.unlink()
    sent = hub.num_sent
    person.downloads.resume(download)
    person.wait(DownloadState.DONE)
    assert person.has(content)
    assert hub.num_sent - sent == len(content) - row.num_received
    person.downloads.close()


def test_room_is_promised_only_once(person: Person, model_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two downloads fit, each alone, and one of them while the other comes does not."""
    person.hub.add("acme/other", {"o-Q4_0.gguf": model_bytes})
    usage = shutil.disk_usage(person.folder.parent)._replace(total=100_000_000, free=5_000_000 + 4_500_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    person.hub.always["store"] = Fault(pause_s=30.0)
    download = person.add()
    with pytest.raises(DiskFullError, match=r"of which other downloads need [23](\.\d)? MB; free"):
        person.add("acme/other")
    person.downloads.pause(download)
    person.add("acme/other")
    assert len(person.downloads.rows()) == 2


@pytest.mark.parametrize("obstacle", ["acme", "acme/m", "acme/m/m-Q4_0.gguf"])
def test_what_is_in_the_way_is_named_before_the_download(person: Person, model_bytes: bytes, obstacle: str) -> None:
    path = person.folder / obstacle
    if path.suffix == ".gguf":
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    with pytest.raises(DownloadError, match=rf"^{re.escape(str(path))} is (a|no) folder.*move or rename"):
        person.add()
    assert person.hub.asked("store") == []
    path.rename(person.folder / "away")
    person.add()
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)


@pytest.mark.parametrize("names", [("m-Q4_0", "M-q4_0"), ("\u00e9-Q4_0", "e\u0301-Q4_0")])
def test_names_that_are_one_to_many_disks(
    hub: LoopbackHub, tmp_path: Path, model_bytes: bytes, names: tuple[str, str]
) -> None:
    first, second = names
    other = model_bytes[:-4] + b"abcd"
    hub.add("acme/m", {f"{first}.gguf": model_bytes, f"{second}.gguf": other})
    person = Person(hub, tmp_path / "models")
    person.add(label=first)
    person.wait(DownloadState.DONE)
    with pytest.raises(DownloadError, match=f"{second}.gguf cannot be stored beside {first}.gguf.*case alone, or"):
        person.add(label=second)
    assert person.has(model_bytes, f"{first}.gguf")
    person.downloads.close()


def test_two_such_names_at_once(hub: LoopbackHub, tmp_path: Path, model_bytes: bytes) -> None:
    other = model_bytes[:-4] + b"abcd"
    hub.add("acme/m", {"m-Q4_0.gguf": model_bytes, "M-q4_0.gguf": other})
    hub.always["store"] = Fault(pause_s=0.001)
    person = Person(hub, tmp_path / "models")
    person.add(label="m-Q4_0")
    person.add(label="M-q4_0")
    person.wait_for(lambda row: person.downloads.is_idle())
    row = person.row()
    assert row.state is DownloadState.FAILED
    assert "case alone" in row.message
    assert len(list(person.folder.rglob("*.gguf"))) == 1
    person.downloads.close()


@pytest.mark.parametrize("repository", ["con/m", "acme/nul", "acme./m", "acme/aux.x"])
def test_a_repository_with_a_name_that_folders_cannot_have(person: Person, repository: str) -> None:
    version = Version("x", None, (RemoteFile("m-Q4_0.gguf", 5),))
    with pytest.raises(DownloadError, match=r"cannot have a folder of its name: the name"):
        person.downloads.add(person.hub.url, repository, "0" * 40, version)


def test_the_longest_name_arrives(hub: LoopbackHub, tmp_path: Path, model_bytes: bytes) -> None:
    name = "ü" * 96 + "xxx.gguf"  # 199 bytes
    hub.add("acme/m", {name: model_bytes, "ü" * 97 + "yyy.gguf": model_bytes})
    with HubClient(hub.url) as client:
        groups = client.repository("acme/m").groups
    assert [path for path, _ in groups.refused] == ["ü" * 97 + "yyy.gguf"]
    person = Person(hub, tmp_path / "models")
    person.add()
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes, name)
    person.downloads.close()


# ---------------------------------------------------------------------------------------------- repairs


def _set_of_three(hub: LoopbackHub, tmp_path: Path) -> list[Path]:
    parts = [{f"blk.{n}.weight": np.full((64, 64), n, np.float32)} for n in range(3)]
    paths = write_shards(tmp_path, "m-Q4_0", {"general.architecture": "llama"}, parts)
    hub.add("acme/m", {path.name: path.read_bytes() for path in paths})
    return paths


def test_a_missing_shard_alone_is_fetched(hub: LoopbackHub, tmp_path: Path) -> None:
    paths = _set_of_three(hub, tmp_path)
    person = Person(hub, tmp_path / "models")
    person.path().parent.mkdir(parents=True)
    for path in (paths[0], paths[2]):
        (person.path(path.name)).write_bytes(path.read_bytes())
    person.add()
    person.wait(DownloadState.DONE)
    assert hub.num_sent == paths[1].stat().st_size
    assert all(person.has(path.read_bytes(), path.name) for path in paths)
    person.downloads.close()


@pytest.mark.parametrize("is_short", [False, True])
def test_a_damaged_file_is_fetched_again_and_a_short_one_completed(
    person: Person, model_bytes: bytes, is_short: bool
) -> None:
    person.path().parent.mkdir(parents=True)
    person.path().write_bytes(model_bytes[:1_000_000] if is_short else b"x" + model_bytes[1:])
    with HubClient(person.hub.url) as client:
        repository = client.repository("acme/m")
    add = person.downloads.add
    arguments = (person.hub.url, "acme/m", repository.revision, repository.groups.versions[0])
    if not is_short:
        with pytest.raises(DownloadError, match=r"already"):
            add(*arguments)
    add(*arguments, is_repair=True)
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)
    assert person.hub.num_sent == len(model_bytes) - (1_000_000 if is_short else 0)


def test_a_sound_file_costs_no_second_download(person: Person, model_bytes: bytes) -> None:
    person.add()
    person.wait(DownloadState.DONE)
    sent = person.hub.num_sent
    with HubClient(person.hub.url) as client:
        repository = client.repository("acme/m")
    person.done.clear()
    person.downloads.add(
        person.hub.url, "acme/m", repository.revision, repository.groups.versions[0], is_repair=True
    )
    person.wait(DownloadState.DONE)
    assert person.hub.num_sent == sent
    assert person.has(model_bytes)


def test_parts_without_a_record_are_taken_up_or_deleted_in_time(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(pause_s=0.01)]
    download = person.add()
    person.wait_for(lambda row: row.num_received > 100_000)
    person.downloads.close()
    folder = person.folder / ".downloads" / download
    kept = (folder / "00000.part").stat().st_size
    (folder / "download.json").write_text("{")
    stray = folder.with_name("stray")
    stray.mkdir()
    for path in (stray / "00000.part", stray):
        path.touch()
        os.utime(path, (time.time() - ORPHANS_KEPT_S - 60,) * 2)
    next_run = Person(person.hub, person.folder)
    next_run.downloads.start()
    left = next_run.row()
    assert (left.id, left.state, left.num_received) == (download, DownloadState.LEFT, kept)
    assert "Download the same version again" in left.message
    assert (folder.exists(), stray.exists()) == (True, False)
    next_run.downloads.resume(download)
    assert next_run.row() == left  # nothing tells where to go on
    next_run.add()
    next_run.wait(DownloadState.DONE)
    assert next_run.has(model_bytes)
    assert person.hub.asked("store")[-1].range == f"bytes={kept}-{len(model_bytes) - 1}"
    next_run.downloads.close()


def test_parts_without_a_record_can_be_deleted(person: Person) -> None:
    folder = person.folder / ".downloads" / "0123456789abcdef0123"
    folder.mkdir(parents=True)
    (folder / "00000.part").write_bytes(b"x" * 5000)
    (folder.with_name("empty")).mkdir()  # nothing to speak of
    person.downloads.start()
    left = person.row()
    assert left.num_received == 5000
    person.downloads.cancel(left.id)
    assert person.downloads.rows() == []
    assert not folder.exists()


def test_parts_that_were_looked_at_grow_old_all_the_same(tmp_path: Path) -> None:
    part = tmp_path / ".downloads" / "x" / "00000.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(10))
    assert take_orphans(tmp_path) == {part.parent: 10}
    os.utime(part, (time.time() - ORPHANS_KEPT_S - 60,) * 2)
    assert take_orphans(tmp_path) == {}
    assert not part.parent.exists()


def test_a_download_whose_folder_has_another_name_goes_on(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(pause_s=0.01)]
    download = person.add()
    person.wait_for(lambda row: row.num_received > 100_000)
    person.downloads.close()
    folder = person.folder / ".downloads" / download
    folder.rename(folder.with_name("a copy"))
    sent = person.hub.num_sent
    next_run = Person(person.hub, person.folder)
    next_run.downloads.start()
    assert next_run.row().id == download
    next_run.wait(DownloadState.DONE)
    assert next_run.has(model_bytes)
    assert person.hub.num_sent - sent < len(model_bytes)
    next_run.downloads.close()


def test_a_download_whose_place_leads_outside_does_not_stop_the_others(
    person: Person, model_bytes: bytes, tmp_path: Path
) -> None:
    person.hub.faults["store"] = [Fault(pause_s=0.01)]
    download = person.add()
    person.downloads.pause(download)
    person.downloads.close()
    (person.folder / "acme").symlink_to(tmp_path)
    next_run = Person(person.hub, person.folder)
    next_run.downloads.start()
    left = next_run.row()
    assert (left.state, left.repository, left.label) == (DownloadState.LEFT, "acme/m", "Q4_0")
    assert "leads out of the models folder" in left.message
    next_run.downloads.cancel(download)
    assert next_run.downloads.rows() == []
    assert not (person.folder / ".downloads" / download).exists()
    next_run.downloads.close()


def test_a_hub_that_names_no_sizes(person: Person) -> None:
    data = encode_gguf({"general.architecture": "llama"}, {"token_embd.weight": np.zeros((300, 256), np.float32)})
    person.hub.add("acme/m", {"m-Q4_0.gguf": data})
    version = Version("Q4_0", "Q4_0", (RemoteFile("m-Q4_0.gguf", 0),))
    person.downloads.add(person.hub.url, "acme/m", person.hub.repositories["acme/m"]["sha"], version)
    person.wait(DownloadState.DONE)
    assert person.has(data)
