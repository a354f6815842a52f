"""A download that is killed again and again: the file is right, and nothing on the disk is asked for again.

``FIRESIDE_KILLS=50`` kills fifty times, which takes some minutes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from engine.hub import transfer
from tests.engine.hub.loopback import Fault, LoopbackHub
from tests.gguf_writer import encode_gguf

ROOT = Path(__file__).resolve().parents[3]
NUM_KILLS = int(os.environ.get("FIRESIDE_KILLS", "3"))
DEADLINE_S = 60.0


def _start(hub: LoopbackHub, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engine.hub.download_process", hub.url, str(folder)], cwd=ROOT
    )


def _received(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.glob(".downloads/*/*.part"))


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_killed_download_goes_on_where_it_was(hub: LoopbackHub, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    tensors = {"token_embd.weight": rng.standard_normal((40_000, 256), np.float32)}
    data = encode_gguf({"general.architecture": "llama"}, tensors)  # 41 MB: more than one block
    assert len(data) > transfer.BLOCK_BYTES
    hub.add("acme/m", {"m.gguf": data})
    hub.always["store"] = Fault(pause_s=0.01 if NUM_KILLS <= 3 else 0.04)
    chance = random.Random(3)
    kept = 0
    for _ in range(NUM_KILLS):
        process = _start(hub, tmp_path)
        deadline = time.monotonic() + DEADLINE_S
        while _received(tmp_path) <= kept and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        num_before = len(hub.asked("store"))
        assert _received(tmp_path) > kept
        kept = _received(tmp_path)
        assert not list(tmp_path.rglob("*.gguf"))
    hub.always.clear()
    process = _start(hub, tmp_path)
    assert process.wait(DEADLINE_S) == 0
    assert (tmp_path / "acme" / "m" / "m.gguf").read_bytes() == data
    assert hub.asked("store")[num_before].range == f"bytes={kept}-{min(kept + transfer.BLOCK_BYTES, len(data)) - 1}"
    assert hub.num_sent <= len(data) + NUM_KILLS * transfer.BLOCK_BYTES
    assert not list((tmp_path / ".downloads").iterdir())
