"""``python -m tests.engine.hub.random_trouble SECONDS``: downloads through whatever a hub can do wrong, at random.

Each ends complete and right, or with a sentence; then the trouble ends, and the same download arrives. Prints what
the ends were; a traceback, a file that is wrong or a download that never ends is a fault of ours.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from engine.hub import transfer
from engine.hub.download_item import DownloadRow
from engine.hub.download_record import DownloadState
from tests.engine.hub.loopback import Fault, loopback_hub
from tests.engine.hub.person import Person
from tests.gguf_writer import encode_gguf

BLOCK_BYTES = 400_000  # small, so that a download has several
NOT_HEARD_OF = "The download failed; the log says more"  # what an exception that nobody expected becomes
STATUSES = (204, 206, 300, 304, 400, 401, 403, 404, 408, 410, 416, 425, 429, 451, 500, 502, 503, 504, 511)
PLACES = (
    "/",
    "http://127.0.0.1:1/x",
    "file:///etc/passwd",
    "//127.0.0.1:1",
    "",
    "http://[",
    "http://a b/",
    "data:,x",
)
RANGES = ("bytes 0-1/2", "bytes */*", "bytes 0-", "nonsense", "bytes 0-399999/999")
BODIES = (b"<html>" * 9, b"", b"GGUF", b"GGUF" * 1000, b"{}", bytes(range(256)) * 20)
CODES = ("GatedRepo", "RepoNotFound", "EntryNotFound", "zzz")


def random_fault(chance: random.Random, role: str, num_bytes: int) -> Fault | None:
    """Something that goes wrong, or nothing."""
    cut = chance.choice([None, chance.randrange(num_bytes)])
    names: dict[str, tuple[str, ...]] = {
        "Content-Encoding": ("gzip", "br", "identity"),
        "Content-Range": RANGES,
        "Content-Length": ("-5", "x", "9" * 30),
    }
    if role == "resolve":
        names |= {"X-Linked-ETag": ('"abc"', f'"{"0" * 64}"', 'W/"x"'), "X-Linked-Size": ("0", "-1", "x", "99")}
    name = chance.choice(list(names))
    faults = [
        None,
        Fault(cut_after=chance.randrange(num_bytes)),
        Fault(corrupt=True),
        Fault(ignores_range=True, cut_after=cut),
        Fault(is_chunked=True, cut_after=cut),
        Fault(length=chance.choice([0, 1, 1000, 10**9, num_bytes - 1, num_bytes + 1]), cut_after=cut),
        Fault(pause_s=0.02, piece=3000, cut_after=60_000),
        Fault(status=chance.choice(STATUSES), headers={"X-Error-Code": chance.choice(CODES)}),
        Fault(status=429, headers={"Retry-After": chance.choice(["0", "-1", "x", ""])}),
        Fault(status=200, body=chance.choice(BODIES)),
        Fault(status=302, headers={"Location": chance.choice(PLACES)}),
        Fault(headers={name: chance.choice(names[name])}),
    ]
    return chance.choice(faults)


def one_download(seed: int, folder: Path) -> str:
    """One download through trouble, then without; returns how the first part ended."""
    chance = random.Random(seed)
    values = np.random.default_rng(seed).standard_normal((1200, 256), np.float32)
    data = encode_gguf({"general.architecture": "llama"}, {"token_embd.weight": values})
    with loopback_hub() as hub:
        hub.add("acme/m", {"m-Q4_0.gguf": data})
        person = Person(hub, folder)
        download = person.add()
        for role, faults in hub.faults.items():
            faults += [random_fault(chance, role, len(data)) for _ in range(chance.randrange(5))]
        for _ in range(chance.randrange(4)):
            time.sleep(chance.random() * 0.05)
            chance.choice([person.downloads.pause, person.downloads.resume])(download)
        row = _until_it_ends(person, download)
        if row.state is DownloadState.DONE:
            end = "arrives"
        else:
            assert row.message
            assert NOT_HEARD_OF not in row.message, row
            assert not list(folder.rglob("*.gguf")), row
            end = f"{row.state.value}: {row.message}"
            for faults in hub.faults.values():
                faults.clear()
            person.downloads.resume(download)
            person.wait(DownloadState.DONE)
        assert person.has(data)
        person.downloads.close()
    return end


def _until_it_ends(person: Person, download: str) -> DownloadRow:
    """Until it is complete, or stopped by itself; what the person paused goes on."""

    def has_ended(row: DownloadRow) -> bool:
        if row.state is DownloadState.PAUSED and not row.message:
            person.downloads.resume(download)
        is_stopped = row.state is DownloadState.PAUSED and bool(row.message)
        return is_stopped or row.state in {DownloadState.DONE, DownloadState.FAILED}

    return person.wait_for(has_ended)


def main(seconds: float) -> int:
    """Download for so long; returns the exit status."""
    transfer.BLOCK_BYTES = BLOCK_BYTES
    ends: Counter[str] = Counter()
    seed, stop = int(time.time()), time.monotonic() + seconds
    while time.monotonic() < stop:
        with tempfile.TemporaryDirectory() as folder:
            try:
                end = one_download(seed, Path(folder))
            except AssertionError as error:
                print(f"seed {seed}: {error}")
                return 1
        ends[end.replace("127.0.0.1", "hub")[:110]] += 1
        seed += 1
    for end, count in ends.most_common():
        print(f"{count:5} {end}")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
