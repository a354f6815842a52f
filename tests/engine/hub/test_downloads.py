"""Downloads against a hub that does everything wrong that hubs and networks do."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from engine.errors import DiskFullError, DownloadError
from engine.hub import transfer as transfer_module
from engine.hub.download_record import DownloadState
from engine.hub.names import RemoteFile, Version
from engine.hub.transfer import RetryPolicy
from tests.engine.hub.loopback import TOKEN, Fault, LoopbackHub
from tests.engine.hub.person import DEADLINE_S, IMPATIENT, Person
from tests.gguf_writer import write_shards


def test_a_download_arrives(person: Person, model_bytes: bytes) -> None:
    person.add()
    row = person.wait(DownloadState.DONE)
    assert person.has(model_bytes)
    assert row.paths == (person.path(),)
    assert person.downloads.rows() == []
    assert not list((person.folder / ".downloads").iterdir())
    assert person.hub.num_sent == len(model_bytes)
    with pytest.raises(DownloadError, match="already"):
        person.add()


@pytest.mark.parametrize(
    "faults",
    [
        [Fault(cut_after=100_000)] * 3,
        [Fault(cut_after=0), Fault(cut_after=1_000_000), Fault(cut_after=5)],
        [Fault(status=503), Fault(status=500), Fault(status=429, headers={"Retry-After": "0"})],
        [Fault(cut_after=200_000), Fault(ignores_range=True)],
        [Fault(ignores_range=True, cut_after=900_000), Fault(ignores_range=True, cut_after=1_500_000)],
        [Fault(length=10_000_000, cut_after=300_000)],
        [Fault(length=1000)],
        [Fault(cut_after=200_000), Fault(status=403), None],
        [Fault(status=200, body=b"<html>Sign in</html>", headers={"Content-Type": "text/html"})],
        [Fault(headers={"Content-Encoding": "gzip"})],
        [Fault(cut_after=200_000), Fault(headers={"Content-Range": "bytes 0-9/10"})],
        [Fault(pause_s=0.5, piece=10), Fault(sleep_s=0.1)],
    ],
    ids=lambda faults: "-".join(str(fault) for fault in faults)[:60],
)
def test_it_gets_over_passing_trouble(person: Person, model_bytes: bytes, faults: list[Fault | None]) -> None:
    person.hub.faults["store"] = list(faults)
    if any(fault is not None and fault.pause_s for fault in faults):
        person.downloads._policy = IMPATIENT
    person.add()
    row = person.wait(DownloadState.DONE, DownloadState.FAILED)
    assert row.state is DownloadState.DONE, row.message
    assert person.has(model_bytes)
    assert row.message == ""


def test_nothing_that_arrived_is_asked_for_again(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(cut_after=count) for count in (700_000, 1, 900_000, 300_000)]
    person.add()
    person.wait(DownloadState.DONE)
    assert person.hub.num_sent == len(model_bytes)


def test_damaged_bytes_are_fetched_once_more(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(corrupt=True)]
    person.add()
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)
    assert person.hub.num_sent == 2 * len(model_bytes)


def test_twice_damaged_is_no_model(person: Person) -> None:
    person.hub.always["store"] = Fault(corrupt=True)
    person.add()
    row = person.wait(DownloadState.FAILED)
    assert "checksum" in row.message
    assert not person.path().exists()
    assert row.num_received == 0


def test_a_file_that_is_damaged_at_the_hub_is_no_model(person: Person, model_bytes: bytes) -> None:
    person.hub.add("acme/m", {"m-Q4_0.gguf": b"GGUF" + bytes(100_000)})
    person.add()
    row = person.wait(DownloadState.FAILED)
    assert "damaged at the hub itself" in row.message
    assert not person.path().exists()


@pytest.mark.parametrize(
    ("role", "fault", "words"),
    [
        ("store", Fault(status=503), "in trouble"),
        ("store", Fault(cut_after=0), "cut|ended"),
        ("store", Fault(pause_s=0.5, piece=1), "stalled"),
        ("resolve", Fault(status=404), "renamed or removed"),
        ("resolve", Fault(status=429, headers={"Retry-After": "99999"}), "too many requests"),
        ("resolve", Fault(status=401, headers={"X-Error-Code": "GatedRepo"}), "accept its terms|open only"),
        ("resolve", Fault(status=403), "open only to those who accept"),
        ("resolve", Fault(status=200, body=b"<html></html>"), "web page"),
    ],
)
def test_trouble_that_stays_is_named_and_can_be_tried_again(
    person: Person, model_bytes: bytes, role: str, fault: Fault, words: str
) -> None:
    person.hub.always[role] = fault
    if fault.pause_s:
        person.downloads._policy = IMPATIENT
    person.add()
    row = person.wait(DownloadState.FAILED)
    assert re.search(words, row.message), row.message
    person.hub.always.clear()
    person.downloads.resume(row.id)
    assert person.wait(DownloadState.DONE).message == "", "the old trouble is over"
    assert person.has(model_bytes)


def test_a_gated_model_arrives_with_the_token_which_the_store_never_sees(
    hub: LoopbackHub, tmp_path: Path, model_bytes: bytes
) -> None:
    hub.add("acme/m", {"m-Q4_0.gguf": model_bytes}, gated="auto")
    person = Person(hub, tmp_path, TOKEN)
    person.add()
    person.wait(DownloadState.DONE)
    assert all(request.authorization is None for request in hub.asked("store"))


def test_it_waits_for_the_network_and_says_so(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(cut_after=500_000), Fault(cut_after=0)]
    slow = RetryPolicy(first_s=0.3, max_failures=4)
    waiting = Person(person.hub, person.folder, policy=slow)
    waiting.add()
    row = waiting.wait_for(lambda row: "Waiting for the network" in row.message)
    assert row.state is DownloadState.RUNNING
    assert row.num_received == 500_000
    assert re.match(r"Waiting for the network: try \d of 4 in 1 s\. ", row.message), "how often it tries is seen"
    assert waiting.wait(DownloadState.DONE).message == ""


def test_pause_keeps_and_resume_goes_on(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(pause_s=0.01)]
    download = person.add()
    person.wait_for(lambda row: row.num_received > 100_000)
    thread = person.thread()
    person.downloads.pause(download)
    assert person.row().state is DownloadState.PAUSED
    thread.join(60)
    assert not thread.is_alive()
    kept = person.row().num_received
    sent = person.hub.num_sent
    person.downloads.resume(download)
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)
    assert person.hub.asked("store")[-1].range == f"bytes={kept}-{len(model_bytes) - 1}"
    assert person.hub.num_sent - sent <= len(model_bytes) - kept + (1 << 22)


@pytest.mark.parametrize("fault", [Fault(pause_s=300.0), Fault(sleep_s=300.0), Fault(pause_s=0.01)])
def test_cancel_waits_for_no_hub(person: Person, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.hub.downloads.STOPPING_WAIT_S", 15.0)  # less than anybody waits for a hub
    person.hub.faults["store"] = [fault]
    download = person.add()
    person.wait_for(lambda row: row.state is DownloadState.RUNNING and len(person.hub.asked("store")) > 0)
    thread = person.thread()
    person.downloads.cancel(download)
    assert not thread.is_alive()
    assert person.downloads.rows() == []
    assert not (person.folder / ".downloads" / download).exists()
    assert not person.path().exists()


def test_the_queue_survives_its_program(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(pause_s=0.01)]
    person.add()
    person.wait_for(lambda row: row.num_received > 100_000)
    person.downloads.close()
    next_run = Person(person.hub, person.folder)
    next_run.downloads.start()
    next_run.wait(DownloadState.DONE)
    assert next_run.has(model_bytes)


def test_a_paused_download_stays_paused_after_a_restart(person: Person) -> None:
    person.hub.faults["store"] = [Fault(pause_s=0.01)]
    download = person.add()
    person.downloads.pause(download)
    next_run = Person(person.hub, person.folder)
    next_run.downloads.start()
    assert next_run.row().state is DownloadState.PAUSED


def test_more_than_two_wait_their_turn(hub: LoopbackHub, tmp_path: Path, model_bytes: bytes) -> None:
    files = {f"m-{name}.gguf": model_bytes for name in ("Q4_0", "Q5_0", "Q6_K", "Q8_0")}
    hub.add("acme/m", files)
    hub.always["store"] = Fault(pause_s=0.005)
    person = Person(hub, tmp_path)
    for label in ("Q4_0", "Q5_0", "Q6_K", "Q8_0"):
        person.add(label=label)
    states = [row.state.value for row in person.downloads.rows()]
    assert states == ["running", "running", "queued", "queued"]
    hub.always.clear()
    deadline = time.monotonic() + DEADLINE_S
    while len(person.done) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(row.label for row in person.done) == ["Q4_0", "Q5_0", "Q6_K", "Q8_0"]


def test_shards_appear_together(hub: LoopbackHub, tmp_path: Path) -> None:
    parts = [{f"blk.{n}.weight": np.full((64, 64), n, np.float32)} for n in range(3)]
    paths = write_shards(tmp_path, "m-Q4_0", {"general.architecture": "llama"}, parts)
    hub.add("acme/m", {path.name: path.read_bytes() for path in paths})
    hub.faults["store"] = [None, None, Fault(status=404), Fault(status=404), Fault(status=404)]
    person = Person(hub, tmp_path / "models")
    download = person.add()
    row = person.wait(DownloadState.FAILED)
    assert row.num_received > 0
    assert not list(person.folder.rglob("*.gguf"))
    person.downloads.resume(download)
    person.wait(DownloadState.DONE)
    assert len(list(person.folder.rglob("*.gguf"))) == 3
    assert sum(request.method == "GET" for request in hub.asked("store")) <= 6


def test_a_set_with_holes_is_refused_before_anything(person: Person) -> None:
    version = Version("Q4_0", "Q4_0", (RemoteFile("a-00001-of-00002.gguf", 5),), (2,), 2)
    with pytest.raises(DownloadError, match="lacks shard 2 of 2 of this version: choose another one"):
        person.downloads.add(person.hub.url, "acme/m", "0" * 40, version)


@pytest.mark.parametrize("path", ["../../x.gguf", "/x.gguf", "a\\x.gguf", "CON.gguf", "x.gguf."])
def test_a_name_that_leaves_the_folder_is_refused(person: Person, path: str) -> None:
    version = Version("x", None, (RemoteFile(path, 5),))
    with pytest.raises(DownloadError, match="cannot be stored"):
        person.downloads.add(person.hub.url, "acme/m", "0" * 40, version)


def test_a_link_out_of_the_folder_is_refused(person: Person, tmp_path: Path) -> None:
    person.folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (person.folder / "acme").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DownloadError, match="through a link"):
        person.add()


def test_a_disk_with_too_little_room_is_refused_first(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DiskFullError, match=r"free .* GB and try again"):
        person.add()
    assert person.downloads.rows() == []
    assert person.hub.num_sent == 0


def test_a_disk_that_fills_up_pauses_the_row(
    person: Person, model_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that is full for good: the system itself refuses the write."""
    is_full = True
    real_open = open

    def opening(path: object, mode: str = "r", **options: object) -> object:
        if is_full and str(path).endswith(".part") and "a" in mode:
            return real_open("/dev/full", "wb", **options)  # type: ignore[call-overload]
        return real_open(path, mode, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(transfer_module, "open", opening, raising=False)
    download = person.add()
    row = person.wait(DownloadState.PAUSED, DownloadState.FAILED)
    assert row.state is DownloadState.PAUSED
    assert "is full: free" in row.message
    is_full = False
    person.downloads.resume(download)
    person.wait(DownloadState.DONE)
    assert person.has(model_bytes)


def test_a_file_that_changes_at_the_hub_is_begun_anew(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(pause_s=0.01)]
    download = person.add()
    person.wait_for(lambda row: row.num_received > 100_000)
    person.downloads.pause(download)
    time.sleep(0.1)
    changed = model_bytes[:-10] + bytes(10)
    revision = person.hub.repositories["acme/m"]["sha"]
    person.hub.add("acme/m", {"m-Q4_0.gguf": changed})
    person.hub.repositories["acme/m"]["sha"] = revision  # the worst kind: the same commit
    person.downloads.resume(download)
    person.wait(DownloadState.DONE)
    assert person.path().read_bytes() == changed


def test_a_part_that_was_tampered_with_is_fetched_again(person: Person, model_bytes: bytes) -> None:
    person.hub.faults["store"] = [Fault(pause_s=0.01)]
    download = person.add()
    person.wait_for(lambda row: row.num_received > 100_000)
    person.downloads.close()
    part = person.folder / ".downloads" / download / "00000.part"
    part.write_bytes(b"x" + part.read_bytes()[1:])
    next_run = Person(person.hub, person.folder)
    next_run.downloads.start()
    next_run.wait(DownloadState.DONE)
    assert next_run.has(model_bytes)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 3}', '{"files": [{"path": "../x"}]}', "[" * 9999])
def test_a_damaged_record_harms_nothing(person: Person, text: str) -> None:
    folder = person.folder / ".downloads" / "x"
    folder.mkdir(parents=True)
    (folder / "download.json").write_text(text)
    person.downloads.start()
    assert person.downloads.rows() == []


def test_a_record_cannot_name_a_file_outside(person: Person) -> None:
    download = person.add()
    person.downloads.pause(download)
    record = person.folder / ".downloads" / download / "download.json"
    stored = json.loads(record.read_text())
    stored["files"][0]["path"] = "../../../evil.gguf"
    record.write_text(json.dumps(stored))
    next_run = Person(person.hub, person.folder)
    next_run.downloads.start()
    assert next_run.downloads.rows() == []


def test_rate_and_time_left(person: Person) -> None:
    person.hub.faults["store"] = [Fault(pause_s=0.01)]
    person.add()
    row = person.wait_for(lambda row: row.bytes_per_second > 0)
    assert row.seconds_left is not None
    assert row.seconds_left > 0


def test_many_steps_at_once_end_well(hub: LoopbackHub, tmp_path: Path, model_bytes: bytes) -> None:
    hub.add("acme/m", {"m-Q4_0.gguf": model_bytes})
    hub.always["store"] = Fault(pause_s=0.001)
    person = Person(hub, tmp_path)
    download = person.add()
    steps = [person.downloads.pause, person.downloads.resume] * 30
    threads = [threading.Thread(target=step, args=(download,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    person.downloads.resume(download)
    person.wait(DownloadState.DONE)
    digest = hashlib.sha256(person.path().read_bytes()).hexdigest()
    assert digest == hashlib.sha256(model_bytes).hexdigest()
