"""A download that is killed at random moments: the file is right, and no byte is fetched twice beyond one block.

``python -m tests.engine.hub.test_kill 50`` kills fifty times, which takes some minutes, and prints what it cost.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from engine.hub import transfer
from tests.engine.hub.loopback import Fault, LoopbackHub, loopback_hub
from tests.gguf_writer import encode_gguf

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 300.0
PAUSE_S = 0.012  # of the hub after each piece: the whole file takes half a minute
NUM_ROWS = 40_000


def _start(hub: LoopbackHub, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engine.hub.download_process", hub.url, str(folder)], cwd=ROOT
    )


def _received(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.glob(".downloads/*/*.part"))


def kill_many(hub: LoopbackHub, folder: Path, num_kills: int, seed: int) -> dict[str, int]:
    """Kill a download so many times, then let it end; returns the costs in bytes.

    A third of the moments lie anywhere in the life of the process, before its first byte, too; the others while
    bytes come. Where the file is complete before the last kill, the rest of the kills meets a new download.
    """
    rng = np.random.default_rng(2)
    data = encode_gguf(
        {"general.architecture": "llama"}, {"token_embd.weight": rng.standard_normal((NUM_ROWS, 256), np.float32)}
    )
    assert len(data) > transfer.BLOCK_BYTES
    hub.add("acme/m", {"m.gguf": data})
    hub.always["store"] = Fault(pause_s=PAUSE_S)
    target = folder / "acme" / "m" / "m.gguf"
    chance, most_twice, num_downloads = random.Random(seed), 0, 0
    for number in range(num_kills):
        kept, sent = _received(folder), hub.num_sent
        process = _start(hub, folder)
        deadline = time.monotonic() + DEADLINE_S
        if number % 3:
            while _received(folder) <= kept and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(chance.uniform(0.0, 0.4))
        else:
            time.sleep(chance.uniform(0.0, 1.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.05)  # the hub notices, and counts no more
        if target.exists():
            assert target.read_bytes() == data
            target.unlink()
            num_downloads += 1
            continue
        assert not list(folder.rglob("*.gguf"))
        assert _received(folder) >= kept
        most_twice = max(most_twice, hub.num_sent - sent - (_received(folder) - kept))
    kept = _received(folder)
    hub.always.clear()
    num_asked = len(hub.asked("store"))
    process = _start(hub, folder)
    assert process.wait(DEADLINE_S) == 0
    assert target.read_bytes() == data
    assert not list((folder / ".downloads").iterdir())
    if 0 < kept < len(data):
        stop = min(kept + transfer.BLOCK_BYTES, len(data)) - 1
        assert hub.asked("store")[num_asked].range == f"bytes={kept}-{stop}"
    return {
        "file": len(data),
        "kept_before_the_end": kept,
        "sent_in_all": hub.num_sent,
        "complete_downloads": num_downloads + 1,
        "most_sent_twice_by_one_kill": most_twice,
    }


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_killed_download_goes_on_where_it_was(hub: LoopbackHub, tmp_path: Path) -> None:
    costs = kill_many(hub, tmp_path, 4, seed=3)
    assert costs["most_sent_twice_by_one_kill"] <= transfer.BLOCK_BYTES
    assert costs["sent_in_all"] <= costs["complete_downloads"] * costs["file"] + 4 * transfer.BLOCK_BYTES


def main(num_kills: int) -> int:
    """Kill so many times and print what it cost; returns the exit status."""
    with loopback_hub() as hub, tempfile.TemporaryDirectory() as folder:
        costs = kill_many(hub, Path(folder), num_kills, seed=int(time.time()))
    for name, value in costs.items():
        print(f"{name.replace('_', ' '):32} {value:>14,}")
    return int(costs["most_sent_twice_by_one_kill"] > transfer.BLOCK_BYTES)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
