"""Conversations that go to the disk and come back, over a backend whose blocks hold the tokens themselves."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.cache import restoration, snapshot_store, snapshots
from engine.cache.history import History
from engine.cache.kv_cache import KVCache
from engine.cache.prompt_logits import PromptLogits
from engine.cache.restoration import Restoration
from engine.cache.snapshot_store import SnapshotStore
from engine.cache.snapshots import Snapshots
from engine.model.plan import BLOCK_SIZE
from tests.engine.fake_backend import FakeBackend

KEY = bytes(32)
CHAT = [n % 60 for n in range(100)]
VOCAB_SIZE = 64
STATE_BYTES = 2


class Disk(Executor):
    """Runs jobs when told to, or at once."""

    def __init__(self) -> None:
        self.is_held = False
        self.held: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.held.append((future, lambda: fn(*args, **kwargs)))
        if not self.is_held:
            self.run()
        return future

    def run(self) -> None:
        while self.held:
            future, job = self.held.pop(0)
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except Exception as error:
                    future.set_exception(error)


class Machine:
    """A KV cache with its snapshots; ``restart`` empties the memory and keeps the disk."""

    def __init__(self, folder: Path, num_blocks: int = 64, **options: Any) -> None:
        self.store = SnapshotStore(folder, 1 << 30)
        self.disk = Disk()
        self.num_blocks, self.options = num_blocks, options
        self.restart()

    def restart(self, key: bytes = KEY) -> None:
        self.history = History()
        self.history.start_engine()
        self.backend = FakeBackend(self.num_blocks, vocab_size=VOCAB_SIZE)
        self.backend.state_bytes = STATE_BYTES
        self.cache = KVCache(self.num_blocks, self.backend.copy_block, **self.options)
        self.logits = PromptLogits()
        self.snapshots = Snapshots(self.store, self.disk, key, self.history, self.cache, self.backend, self.logits)

    def read(self, conversation: str, tokens: list[int], states_at: list[int] | None = None) -> int:
        """Compute a sequence; returns what was reused, all of which must be right."""
        table = self.cache.acquire(tokens)
        reused = table.num_reused_tokens
        stored = self.backend._stored[table.block_ids].reshape(-1)
        assert stored[:reused].tolist() == tokens[:reused]
        if self.cache.reserve(table, len(tokens)):
            for position in range(reused, len(tokens)):
                block = int(table.block_ids[position // BLOCK_SIZE])
                self.backend._stored[block, position % BLOCK_SIZE] = tokens[position]
            for place in states_at or []:
                self.cache.commit(table, tokens, place)
                self.cache.add_checkpoint(table, place, np.array([place, tokens[place - 1]], np.uint8))
            self.cache.release(table, tokens, len(tokens))
            self.history.remember(conversation, tokens)
            self.snapshots.note_changed(conversation)
        else:
            self.cache.release(table, tokens, reused)
        self.cache.check_integrity()
        return reused

    def reopen(self, conversation: str, tokens: list[int]) -> Restoration | None:
        found = self.snapshots.find(conversation, tokens)
        while found is not None and not found.is_done:
            found.advance()
            self.cache.check_integrity()
        return found

    def rest(self) -> None:
        while self.snapshots.has_work:
            self.snapshots.advance()

    def num_stored(self, conversation: str) -> int:
        files = self.store.files(KEY, conversation, self.backend.block_bytes)
        return sum(len(file.blocks) for file in files)

    def damage(self, conversation: str, block: int) -> None:
        (file,) = self.store.files(KEY, conversation, self.backend.block_bytes)
        content = bytearray(file.path.read_bytes())
        content[file._offset + block * file.block_bytes + 5] ^= 1
        file.path.write_bytes(content)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)
    monkeypatch.setattr(restoration, "CHUNK_BYTES", 2 * 64)
    monkeypatch.setattr(restoration, "ADVANCE_S", 0.0)
    monkeypatch.setattr(snapshots, "CHUNK_BYTES", 2 * 64)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 64, 100])
def test_a_conversation_comes_back_whole(machine: Machine, length: int) -> None:
    tokens = CHAT[:length]
    machine.read("a", tokens)
    machine.rest()
    machine.restart()
    found = machine.reopen("a", [*tokens, 61])
    assert found is not None
    assert (found.num_tokens_before, found.num_tokens) == (0, length)
    assert machine.read("a", [*tokens, 61]) == length


def test_only_as_much_comes_back_as_is_asked_for(machine: Machine) -> None:
    machine.read("a", CHAT)
    machine.rest()
    machine.restart()
    edited = [*CHAT[:37], 62, 63]
    found = machine.reopen("a", edited)
    assert found is not None
    assert found.num_tokens == 48, "the block in which they part"
    assert machine.read("a", edited) == 37
    assert machine.reopen("b", [1, 2, 3]) is None


def test_all_branches_come_back(machine: Machine) -> None:
    branches = [CHAT, [*CHAT[:50], 61, 62], [*CHAT[:53], 63], [9] * 30]
    for branch in branches:
        machine.read("a", branch)
    machine.rest()
    machine.restart()
    for branch in branches:
        machine.reopen("a", [*branch, 1])
        assert machine.read("a", [*branch, 1]) == len(branch)


def test_a_second_writing_adds_only_what_is_new(machine: Machine) -> None:
    machine.read("a", CHAT[:64])
    machine.rest()
    assert machine.num_stored("a") == 4
    machine.rest()
    machine.read("a", CHAT[:80])
    machine.rest()
    assert machine.num_stored("a") == 5
    machine.read("a", CHAT[:80])
    machine.rest()
    assert len(machine.store.files(KEY, "a", machine.backend.block_bytes)) == 2


def test_what_the_tree_has_is_not_read_from_the_disk(machine: Machine) -> None:
    machine.read("a", CHAT)
    machine.rest()
    assert machine.reopen("a", [*CHAT, 1]) is None
    machine.restart()
    machine.read("b", CHAT[:40])
    found = machine.reopen("a", [*CHAT, 1])
    assert found is not None
    assert (found.num_tokens_before, found.num_tokens) == (32, 100)


def test_another_key_finds_nothing(machine: Machine) -> None:
    machine.read("a", CHAT)
    machine.rest()
    machine.restart(bytes([1] * 32))
    assert machine.reopen("a", CHAT) is None
    assert machine.snapshots.is_elsewhere("a")


@pytest.mark.parametrize("block", [0, 1, 3, 6])
def test_damage_ends_what_comes_back_and_is_written_anew(machine: Machine, block: int) -> None:
    machine.read("a", CHAT)
    machine.rest()
    machine.restart()
    machine.damage("a", block)
    found = machine.reopen("a", [*CHAT, 1])
    assert found is not None
    assert found.is_damaged
    assert found.num_tokens == block * 16
    assert machine.read("a", [*CHAT, 1]) == block * 16
    machine.rest()
    machine.restart()
    found = machine.reopen("a", [*CHAT, 1, 2])
    assert found is not None
    assert not found.is_damaged
    assert machine.read("a", [*CHAT, 1, 2]) == 101


def test_a_pool_too_small_takes_what_fits(machine: Machine, tmp_path: Path) -> None:
    machine.read("a", CHAT)
    machine.rest()
    small = Machine(tmp_path, num_blocks=4)
    held = small.cache.acquire([50] * 20)
    assert small.cache.reserve(held, 20)
    found = small.reopen("a", [*CHAT, 1])
    assert found is not None
    assert found.num_tokens == 32
    small.cache.release(held, [50] * 20, 0)
    small.cache.check_integrity()


def test_what_runs_takes_the_room_of_what_comes_back(machine: Machine, tmp_path: Path) -> None:
    machine.read("a", CHAT)
    machine.rest()
    small = Machine(tmp_path, num_blocks=8)
    running = small.cache.acquire([50] * 20)
    assert small.cache.reserve(running, 16)
    found = small.snapshots.find("a", [*CHAT, 1])
    assert found is not None
    found.advance()
    assert not found.is_done
    assert small.cache.reserve(running, 5 * 16)
    assert found.is_done
    small.cache.check_integrity()
    assert found.num_tokens == 32
    assert small.cache.reserve(running, 8 * 16)
    assert not small.cache.reserve(running, 9 * 16)
    small.cache.release(running, [50] * 128, 0)
    small.cache.check_integrity()


def test_what_is_evicted_while_it_is_written_ends_the_file(machine: Machine) -> None:
    machine.read("a", CHAT[:96])
    machine.disk.is_held = True
    machine.snapshots.advance()
    machine.disk.run()
    machine.snapshots.advance()  # the first two blocks
    big = machine.cache.acquire([50] * 1000)
    assert machine.cache.reserve(big, 61 * 16)
    machine.backend._stored[big.block_ids] = -7
    machine.cache.release(big, [50] * 1000, 0)
    machine.disk.is_held = False
    machine.disk.run()
    machine.rest()
    machine.restart()
    found = machine.reopen("a", CHAT)
    assert found is not None
    assert found.num_tokens == 48
    assert machine.read("a", CHAT) == 48


def test_a_conversation_forgotten_while_it_is_written_leaves_nothing(machine: Machine) -> None:
    machine.read("a", CHAT)
    machine.disk.is_held = True
    for _ in range(3):
        machine.snapshots.advance()
        machine.disk.run()
    machine.snapshots.forget("a")
    machine.disk.submit(machine.store.forget, "a")
    machine.disk.run()
    assert machine.store.usage() == (0, 0)
    assert not machine.snapshots.has_work


def test_flushing_ends_in_time_and_leaves_no_half_file(machine: Machine) -> None:
    machine.read("a", CHAT)
    machine.disk.is_held = True
    machine.snapshots.flush(0.05)
    assert not machine.snapshots.has_work
    machine.disk.run()
    assert machine.store.usage() == (0, 0)
    assert not list(machine.store._folder.glob("*/*/.*"))


def test_states_and_logits_come_back(tmp_path: Path) -> None:
    machine = Machine(tmp_path, needs_checkpoints=True)
    machine.read("a", CHAT, states_at=[30, 64, 100])
    machine.logits.put(CHAT[:90], np.arange(VOCAB_SIZE, dtype=np.float32))
    machine.rest()
    machine.restart()
    assert machine.read("b", [*CHAT[:30], 61]) == 0
    found = machine.reopen("a", [*CHAT, 1])
    assert found is not None
    table = machine.cache.acquire([*CHAT, 1])
    assert table.num_reused_tokens == 100
    assert table.checkpoint is not None
    assert table.checkpoint.state.tolist() == [100, CHAT[99]]
    machine.cache.release(table, [*CHAT, 1], 100)
    edited = [*CHAT[:80], 62]
    assert machine.reopen("a", edited) is not None
    assert machine.read("a", edited) == 64, "an earlier state, for another end"
    row = machine.logits.get(CHAT[:90])
    assert row is not None
    assert row.tolist() == list(range(VOCAB_SIZE))


def test_a_model_without_keys_and_values_keeps_its_states(tmp_path: Path) -> None:
    machine = Machine(tmp_path, needs_checkpoints=True)
    machine.backend.block_bytes = 0
    machine.backend.read_blocks = machine.backend.write_blocks = lambda block_ids, data: None  # type: ignore
    machine.read("a", CHAT, states_at=[100])
    machine.rest()
    stored = machine.backend._stored.copy()
    machine.restart()
    machine.backend.block_bytes = 0
    machine.backend.write_blocks = lambda block_ids, data: None  # type: ignore
    machine.backend._stored[:] = stored
    assert machine.reopen("a", [*CHAT, 1]) is not None
    assert machine.cache.num_matching_tokens([*CHAT, 1]) == 100


@pytest.mark.parametrize(("seed", "num_blocks"), [(1, 12), (2, 30), (3, 400)])
def test_random_use_with_restarts_and_damage_gives_right_contents(
    tmp_path: Path, seed: int, num_blocks: int
) -> None:
    rng = random.Random(seed)
    machine = Machine(tmp_path, num_blocks)
    chats: dict[str, list[int]] = {}
    num_restored = 0
    for _ in range(150):
        name = rng.choice("abcd")
        base = chats.get(name, [])[: rng.randrange(1, 100)] if rng.random() < 0.9 else []
        tokens = [*base, *(rng.randrange(4) for _ in range(rng.randrange(1, 25)))]
        found = machine.reopen(name, tokens)
        num_restored += found.num_tokens - found.num_tokens_before if found is not None else 0
        machine.read(name, tokens)  # asserts that what it reuses is right
        chats[name] = tokens
        action = rng.random()
        if action < 0.4:
            machine.rest()
        elif action < 0.55:
            machine.restart()
        elif action < 0.6:
            machine.snapshots.forget(name)
            machine.store.forget(name)
            machine.history.forget(name)
            chats.pop(name)
        elif action < 0.75:
            paths = [path for path in machine.store._folder.glob("*/*/*.kv") if path.is_file()]
            if paths:
                path = rng.choice(paths)
                content = bytearray(path.read_bytes())
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
                path.write_bytes(content[: rng.randrange(len(content))] if rng.random() < 0.3 else content)
    assert num_restored > 100
