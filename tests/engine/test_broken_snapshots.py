"""Snapshots that are swapped, cut, another model's, half written or gone: read again, never a wrong answer."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine import EngineConfig, conversations
from engine.cache import snapshot_file, snapshot_store
from engine.protocol import (
    AskSnapshotStorage,
    GenerateRequest,
    LoadModel,
    ModelLoaded,
    RequestFinished,
    RequestStats,
    SnapshotStorage,
)
from engine.sampling.params import SamplingParams
from tests.engine.fake_model import END, FakeLoads, answer
from tests.integration.engine_events import EventLog, engine_thread

KEY = bytes(32)
TALES = {
    "castle": "There was a castle by the sea and nobody had ever seen its owner. " * 2,
    "forest": "There was a forest so old that its trees remembered the first rain. " * 2,
}
NUM_TOKENS = 20


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "REST_S", 0.01)
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)


@contextmanager
def _started(folder: Path, key: bytes = KEY) -> Iterator[EventLog]:
    with engine_thread(EngineConfig(snapshot_folder=folder), load=FakeLoads(snapshot_key=key)) as log:
        log.submit(LoadModel(Path("model.gguf")))
        log.wait(ModelLoaded)
        yield log


def _ask(log: EventLog, chat: str, more: str = "") -> RequestStats:
    prompt = TALES[chat] + more
    name = f"request {len(log.of(RequestFinished))}"
    sampling = SamplingParams(temperature=0)
    request = GenerateRequest(name, prompt=prompt, sampling=sampling, max_tokens=NUM_TOKENS, conversation_id=chat)
    log.submit(request)
    end = log.wait_end(name)
    assert isinstance(end, RequestFinished), end
    assert log.text(name) == answer(prompt, NUM_TOKENS), "the answer is that of a cold run"
    return end.stats


def _write(folder: Path, key: bytes = KEY) -> dict[str, Path]:
    """Snapshots of both chats; returns their files."""
    files: dict[str, Path] = {}
    for chat in TALES:
        with _started(folder, key) as log:
            _ask(log, chat)
        (files[chat],) = {*folder.glob(f"*-{key.hex()[:32]}/*/*.kv")} - {*files.values()}
    return files


def _num_on_disk(log: EventLog) -> int:
    log.submit(AskSnapshotStorage())
    return log.wait(SnapshotStorage).num_conversations


def test_files_swapped_between_chats(tmp_path: Path) -> None:
    castle, forest = _write(tmp_path).values()
    content = castle.read_bytes()
    castle.write_bytes(forest.read_bytes())
    forest.write_bytes(content)
    with _started(tmp_path) as log:
        assert _ask(log, "castle").num_snapshot_tokens == 12, "what both begin with"
        assert _ask(log, "forest").num_snapshot_tokens <= 12


def test_files_of_another_model(tmp_path: Path) -> None:
    other = bytes([9] * 32)
    ours, theirs = _write(tmp_path), _write(tmp_path, other)
    for chat, path in ours.items():
        path.write_bytes(theirs[chat].read_bytes())
    with _started(tmp_path) as log:
        for chat in TALES:
            assert _ask(log, chat).num_snapshot_tokens == 0
    assert all(path.exists() for path in theirs.values())


def test_files_cut_at_any_length(tmp_path: Path) -> None:
    files = _write(tmp_path)
    whole = files["castle"].read_bytes()
    rng = random.Random(3)
    for length in (0, 1, 47, 48, 4095, 4096, 4097, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(4))):
        files["castle"].write_bytes(whole[:length])
        with _started(tmp_path) as log:
            _ask(log, "castle")
            _ask(log, "castle", "And then?")


@pytest.mark.parametrize("vocab_size", [1, END - 1, END + 1, 200, 0])
def test_logits_of_another_length_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocab_size: int
) -> None:
    """Also where all checksums are right; 0 stands for logits of the right length of which one is no number."""
    rows: list[int] = []

    def change(self: snapshot_file.SnapshotWriter) -> None:
        row = np.full(vocab_size or END, 9.0 if vocab_size else np.nan, np.float32)
        rows.append(row.size)
        attachments = [replace(each, data=row.view(np.uint8)) for each in self._attachments]
        assert attachments, "a prompt's logits are kept"
        self._attachments = attachments
        seal(self)

    with monkeypatch.context() as forged:
        seal = snapshot_file.SnapshotWriter.seal
        forged.setattr(snapshot_file.SnapshotWriter, "seal", change)
        with _started(tmp_path) as log:
            _ask(log, "castle")
    assert rows
    with _started(tmp_path) as log:
        stats = _ask(log, "castle")
        assert stats.num_snapshot_tokens <= len(TALES["castle"]) - 1
        _ask(log, "castle", "And then?")
        assert log.thread._worker._engine is not None
        log.thread._worker._engine.kv_cache.check_integrity()


@pytest.mark.parametrize("method", ["append", "finish", "__init__"])
def test_a_disk_that_is_full_or_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(snapshot_file.SnapshotWriter, method, refuse)
        with _started(tmp_path) as log:
            _ask(log, "castle")
            time.sleep(0.1)
            _ask(log, "castle", "And then?")
            assert _num_on_disk(log) == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "nothing half written is left"
    with _started(tmp_path) as log:
        _ask(log, "castle")


def test_a_folder_that_vanishes_while_it_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    _write(folder)
    with _started(folder) as log:
        _ask(log, "castle")
        while folder.exists():  # a snapshot may be written into it meanwhile
            shutil.rmtree(folder, ignore_errors=True)
        _ask(log, "forest")
        _ask(log, "castle", "And then?")
        deadline = time.monotonic() + 60
        while _num_on_disk(log) < 2:
            assert time.monotonic() < deadline, "it is made anew and written to"
            time.sleep(0.02)
    with _started(folder) as log:
        assert _ask(log, "castle", "And then?").num_snapshot_tokens > 100


_ENGINE = """
import sys, time
from pathlib import Path
from engine import EngineConfig, EngineThread, conversations
from engine.cache import snapshots
from engine.protocol import GenerateRequest, LoadModel
from engine.sampling.params import SamplingParams
from tests.engine.fake_model import FakeLoads
from tests.engine.test_broken_snapshots import KEY, TALES

conversations.REST_S = 0.0
snapshots.CHUNK_BYTES = 1
config = EngineConfig(snapshot_folder=Path(sys.argv[1]))
engine = EngineThread(lambda event: None, config, load=FakeLoads(snapshot_key=KEY))
engine.start()
engine.submit(LoadModel(Path("model.gguf")))
print("started", flush=True)
for number in range(10_000):
    for chat, tale in TALES.items():
        name, sampling = f"{chat} {number}", SamplingParams(temperature=0)
        prompt = tale + "x" * (number % 200)
        engine.submit(GenerateRequest(name, prompt=prompt, sampling=sampling, max_tokens=3, conversation_id=chat))
    time.sleep(0.01)
"""


def test_killed_again_and_again_while_it_writes(tmp_path: Path) -> None:
    for delay_s in (0.05, 0.12, 0.25):
        process = subprocess.Popen([sys.executable, "-c", _ENGINE, str(tmp_path)], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"started\n"
            time.sleep(delay_s)
        finally:
            process.kill()
            process.communicate()
        with _started(tmp_path) as log:
            for chat in TALES:
                _ask(log, chat)
                _ask(log, chat, "x" * 7)
        assert not list(tmp_path.rglob("*.tmp")), "what was half written is gone"
    assert list(tmp_path.rglob("*.kv"))
