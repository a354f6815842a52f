"""Files that the hub's list states no hash or no size of: never mixed of two, never fetched twice."""

from __future__ import annotations

from pathlib import Path

from engine.hub.download_record import DownloadState
from engine.hub.names import RemoteFile, Version
from tests.engine.hub.loopback import Fault, LoopbackHub
from tests.engine.hub.person import Person
from tests.gguf_writer import encode_gguf

MARK = Fault(headers={"X-Linked-ETag": '"one"'})
OTHER_MARK = Fault(headers={"X-Linked-ETag": '"two"'})


def _begin(person: Person, size: int) -> str:
    """The download of the file without its hash; ``size`` 0 is not stated either."""
    version = Version("Q4_0", "Q4_0", (RemoteFile("m-Q4_0.gguf", size),))
    return person.downloads.add(person.hub.url, "acme/m", person.hub.repositories["acme/m"]["sha"], version)


def _replace_at_hub(hub: LoopbackHub, data: bytes) -> None:
    """Other content of the same name and size at the same revision, as a mirror has it."""
    commit = hub.repositories["acme/m"]["sha"]
    hub.add("acme/m", {"m-Q4_0.gguf": data})
    hub.repositories["acme/m"]["sha"] = commit


def test_a_file_that_changes_on_the_way_is_not_mixed(person: Person, model_bytes: bytes) -> None:
    hub = person.hub
    hub.faults["store"] = [Fault(cut_after=500_000)]
    hub.faults["resolve"] = [MARK, OTHER_MARK]
    hub.always["resolve"] = OTHER_MARK
    _begin(person, len(model_bytes))
    assert person.wait(DownloadState.DONE, DownloadState.FAILED).state is DownloadState.DONE
    end = len(model_bytes) - 1
    assert [asked.range for asked in hub.asked("store")] == [
        f"bytes=0-{end}",
        f"bytes=500000-{end}",  # whose answer is of another file
        f"bytes=0-{end}",
    ]


def test_a_file_that_changes_over_a_restart_is_not_mixed(person: Person, model_bytes: bytes) -> None:
    hub, other = person.hub, model_bytes[:-4] + b"\1\2\3\4"
    hub.always |= {"resolve": MARK, "store": Fault(pause_s=0.01)}
    download = _begin(person, len(model_bytes))
    person.wait_for(lambda row: row.num_received > 100_000)
    person.downloads.pause(download)
    person.downloads.close()
    _replace_at_hub(hub, other)
    hub.always = {"resolve": OTHER_MARK}
    again = Person(hub, person.folder)
    again.downloads.start()
    again.downloads.resume(download)
    assert again.wait(DownloadState.DONE, DownloadState.FAILED).state is DownloadState.DONE
    assert again.has(other)
    again.downloads.close()


def test_shards_of_unknown_size_are_fetched_once(hub: LoopbackHub, tmp_path: Path) -> None:
    names = [f"m-Q4_0-0000{number}-of-00002.gguf" for number in (1, 2)]
    shards = {
        name: encode_gguf({"general.architecture": "llama", "split.no": n}, {}) for n, name in enumerate(names)
    }
    padded = {name: data + bytes(600_000) for name, data in shards.items()}
    hub.add("acme/m", padded)
    hub.faults["store"] = [None, Fault(pause_s=0.05)]
    person = Person(hub, tmp_path / "models")
    version = Version("Q4_0", "Q4_0", tuple(RemoteFile(name, 0) for name in names), (), 2)
    download = person.downloads.add(hub.url, "acme/m", hub.repositories["acme/m"]["sha"], version)
    person.wait_for(lambda row: row.num_received > 610_000)
    assert person.row().size == sum(map(len, padded.values()))  # which the answers told
    person.downloads.pause(download)
    person.downloads.close()
    num_asked = len(hub.asked("store"))
    again = Person(hub, person.folder)
    again.downloads.start()
    again.downloads.resume(download)
    row = again.wait(DownloadState.DONE, DownloadState.FAILED)
    assert (row.state, row.num_received) == (DownloadState.DONE, row.size)
    digests = {asked.path[1:] for asked in hub.asked("store")[num_asked:]}
    assert digests == {hub.repositories["acme/m"]["hashes"][names[1]]}
    again.downloads.close()


def test_a_size_that_is_learned_is_held_against_the_disk(person: Person) -> None:
    person.hub.always["resolve"] = Fault(headers={"X-Linked-Size": str(1 << 55)})
    person.hub.faults["store"] = [Fault(status=206, headers={"Content-Range": f"bytes 0-9/{1 << 55}"})]
    _begin(person, 0)
    row = person.wait(DownloadState.PAUSED, DownloadState.FAILED)
    assert (row.state, row.num_received) == (DownloadState.PAUSED, 0)
    assert "do not fit" in row.message
