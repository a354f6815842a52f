"""Conversations across requests, loads and starts, through the engine thread over a fake model."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine import EngineConfig, EngineThread, conversations
from engine.cache import restoration, snapshot_store
from engine.model.plan import BLOCK_SIZE
from engine.protocol import (
    AbortRequest,
    AskSnapshotStorage,
    ClearSnapshots,
    Delta,
    EjectModel,
    ForgetConversation,
    GenerateRequest,
    LoadModel,
    Message,
    ModelEjected,
    ModelLoaded,
    PrefillDraft,
    RequestFinished,
    RequestStats,
    RereadReason,
    Role,
    SetSnapshotQuota,
    SnapshotStorage,
)
from engine.sampling.params import SamplingParams
from tests.engine.fake_model import FakeLoads, answer
from tests.integration.engine_events import EventLog, engine_thread

MODEL = Path("model.gguf")
KEY = bytes(32)
TALE = "There was a castle by the sea and nobody had ever seen its owner. "


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "REST_S", 0.02)
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)


@contextmanager
def _started(folder: Path, loads: FakeLoads | None = None, key: bytes = KEY) -> Iterator[EventLog]:
    with engine_thread(EngineConfig(snapshot_folder=folder), load=loads or FakeLoads(snapshot_key=key)) as log:
        log.submit(LoadModel(MODEL))
        log.wait(ModelLoaded)
        yield log


def _ask(log: EventLog, name: str, prompt: str, conversation: str = "chat", num_tokens: int = 20) -> RequestStats:
    sampling = SamplingParams(temperature=0)
    log.submit(
        GenerateRequest(name, prompt=prompt, sampling=sampling, max_tokens=num_tokens, conversation_id=conversation)
    )
    end = log.wait_end(name)
    assert isinstance(end, RequestFinished), end
    assert log.text(name) == answer(prompt, num_tokens), "whatever is reused, the answer is that of a cold run"
    return end.stats


def _storage(log: EventLog) -> SnapshotStorage:
    log.submit(AskSnapshotStorage())
    return log.wait(SnapshotStorage)


def _wait_for_storage(log: EventLog, num_conversations: int) -> SnapshotStorage:
    deadline = time.monotonic() + 60
    while (storage := _storage(log)).num_conversations != num_conversations:
        assert time.monotonic() < deadline, storage
        time.sleep(0.02)
    return storage


def test_a_conversation_written_at_rest_is_reopened_after_a_start(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        stats = _ask(log, "a", TALE)
        assert stats.reread_reason is RereadReason.FIRST_TIME
        assert _wait_for_storage(log, 1).num_bytes > 0
    with _started(tmp_path) as log:
        stats = _ask(log, "a", TALE + answer(TALE, 20) + " And then?")
        # The last token of the first answer was never computed.
        assert stats.num_reused_tokens == stats.num_snapshot_tokens == len(TALE) + 19
        assert stats.reread_reason is RereadReason.NOTHING


def test_a_conversation_is_written_at_exit_and_its_answer_given_anew_without_reading(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
    loads = FakeLoads(snapshot_key=KEY)
    with _started(tmp_path, loads) as log:
        stats = _ask(log, "again", TALE)
        assert stats.num_snapshot_tokens == stats.num_reused_tokens == len(TALE)
        assert loads.backends[-1].num_computed_tokens == 19, "the answer's alone"


def test_what_the_disk_has_comes_back_before_it_is_asked_for(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
    loads = FakeLoads(snapshot_key=KEY)
    with _started(tmp_path, loads) as log:
        log.submit(PrefillDraft("chat", (Message(Role.USER, TALE),), only_kept=True))
        backend = loads.backends[-1]
        deadline = time.monotonic() + 60
        while backend.num_written_blocks < len(TALE) // BLOCK_SIZE and time.monotonic() < deadline:
            time.sleep(0.01)
        assert backend.num_computed_tokens == 0, "brought, not read"
        stats = _ask(log, "again", TALE + " And then?")
        assert stats.num_reused_tokens >= len(TALE)
        assert stats.num_snapshot_tokens == 0, "it was there already"
        assert stats.reread_reason is RereadReason.NOTHING


def test_each_branch_is_given_anew_after_a_start_without_reading(tmp_path: Path) -> None:
    """One prompt begins in the middle of another's block; each has its last logits in the snapshot."""
    prompts = [TALE, TALE + "Who", TALE[:30] + "beach", TALE[:33], TALE + answer(TALE, 20) + " And then?"]
    with _started(tmp_path) as log:
        for number, prompt in enumerate(prompts):
            _ask(log, f"a{number}", prompt)
    for prompt in prompts:
        loads = FakeLoads(snapshot_key=KEY)
        with _started(tmp_path, loads) as log:
            assert _ask(log, "again", prompt).num_read_tokens == 0
            assert loads.backends[-1].num_computed_tokens == 19, "the answer's alone"


def test_a_conversation_outlives_an_eject(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
        log.submit(EjectModel())
        log.wait(ModelEjected)
        log.submit(LoadModel(MODEL))
        log.wait(ModelLoaded)
        assert _ask(log, "b", TALE).num_snapshot_tokens == len(TALE)


def test_another_model_reads_again_and_says_so(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
    with _started(tmp_path, key=bytes([1] * 32)) as log:
        stats = _ask(log, "a", TALE)
        assert (stats.num_reused_tokens, stats.reread_reason) == (0, RereadReason.RELOADED)
        assert stats.num_reread_tokens == len(TALE) - 1


def test_reasons_within_one_engine(tmp_path: Path) -> None:
    with _started(tmp_path, FakeLoads(num_blocks=33)) as log:
        assert _ask(log, "a", TALE).reread_reason is RereadReason.FIRST_TIME
        edited = _ask(log, "b", TALE[:30] + "beach")
        assert (edited.num_reused_tokens, edited.reread_reason) == (30, RereadReason.CHANGED)
        again = _ask(log, "c", TALE)
        assert (again.num_reused_tokens, again.reread_reason) == (len(TALE), RereadReason.NOTHING)
        _ask(log, "d", "x" * 480, "other", 8)
        evicted = _ask(log, "e", TALE)
        assert evicted.reread_reason is RereadReason.EVICTED
        assert evicted.num_reread_tokens == len(TALE) - 1 - evicted.num_reused_tokens > 0
        assert _ask(log, "f", TALE, "").reread_reason is RereadReason.NOTHING


def test_what_was_evicted_comes_from_the_disk(tmp_path: Path) -> None:
    with _started(tmp_path, FakeLoads(num_blocks=33, snapshot_key=KEY)) as log:
        _ask(log, "a", TALE)
        _wait_for_storage(log, 1)
        _ask(log, "b", "x" * 500, "other", 8)
        stats = _ask(log, "c", TALE)
        assert stats.num_reused_tokens >= len(TALE) - 1
        assert stats.num_snapshot_tokens > 0
        assert stats.reread_reason is RereadReason.NOTHING


def test_damage_is_read_again_and_said(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
    (path,) = tmp_path.glob("*/*/*.kv")
    content = bytearray(path.read_bytes())
    content[4096 + 3 * 64] ^= 1
    path.write_bytes(content)
    with _started(tmp_path) as log:
        stats = _ask(log, "a", TALE + "x")
        assert (stats.num_reused_tokens, stats.reread_reason) == (48, RereadReason.DAMAGED)
        assert stats.num_reread_tokens == len(TALE) - 48


def test_a_damaged_header_is_said_too(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
    (path,) = tmp_path.glob("*/*/*.kv")
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with _started(tmp_path) as log:
        stats = _ask(log, "a", TALE + "x")
        assert (stats.num_reused_tokens, stats.reread_reason) == (0, RereadReason.DAMAGED)
        assert stats.num_reread_tokens == len(TALE)
        assert _ask(log, "b", TALE + "x").reread_reason is RereadReason.NOTHING, "once"


def test_forgetting_deletes_what_is_on_the_disk(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE, "one")
        _ask(log, "b", TALE + "x", "two")
        _wait_for_storage(log, 2)
        log.submit(ForgetConversation("one"), ForgetConversation("never seen"))
        _wait_for_storage(log, 1)
        log.submit(ClearSnapshots())
        assert _wait_for_storage(log, 0).num_bytes == 0
    assert not list(tmp_path.glob("**/*.kv"))


def test_forgetting_needs_no_model(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
    with engine_thread(EngineConfig(snapshot_folder=tmp_path), load=FakeLoads()) as log:
        assert _storage(log).num_conversations == 1
        log.submit(ForgetConversation("chat"))
        _wait_for_storage(log, 0)


@pytest.mark.parametrize("moment", ["running", "stopped", "stopping", "waiting for a model", "in another program"])
def test_what_is_forgotten_while_it_is_answered_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Nothing of the request stays when it ends, at once or later; what begins after that is kept again."""
    loads = FakeLoads(snapshot_key=KEY)
    loads.before_run = lambda slices: time.sleep(0.003)
    sampling = SamplingParams(temperature=0)
    request = GenerateRequest("a", prompt=TALE, sampling=sampling, max_tokens=30, conversation_id="secret")
    if moment == "waiting for a model":
        loads.hold.set()
    with engine_thread(EngineConfig(snapshot_folder=tmp_path), load=loads) as log:
        log.submit(LoadModel(MODEL), request)
        match moment:
            case "running":
                log.wait(Delta)
                log.submit(ForgetConversation("secret"))
            case "stopped":
                log.wait(Delta)
                log.submit(AbortRequest("a"), ForgetConversation("secret"))
            case "stopping":
                log.wait(Delta)
                log.submit(ForgetConversation("secret"), AbortRequest("a"))
            case "waiting for a model":
                log.submit(ForgetConversation("secret"))
                loads.hold.clear()
            case _:
                log.wait(Delta)
                with engine_thread(EngineConfig(snapshot_folder=tmp_path), load=FakeLoads()) as other:
                    other.submit(ForgetConversation("secret"))
        end = log.wait_end("a")
        assert isinstance(end, RequestFinished)
        _ask(log, "b", "x" * 30, "other")
        _wait_for_storage(log, 1)
        if moment != "in another program":
            assert _ask(log, "c", TALE + "y", "secret").reread_reason is RereadReason.FIRST_TIME
            _wait_for_storage(log, 2)
            log.submit(ForgetConversation("secret"))
    assert len(list(tmp_path.glob("*/*/*.kv"))) == 1, "the other's"


def test_what_another_program_deletes_is_not_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _started(tmp_path) as mine, _started(tmp_path) as other:
        _ask(other, "a", TALE, "secret")
        _wait_for_storage(other, 1)
        monkeypatch.setattr(conversations, "REST_S", 0.3)
        _ask(other, "b", TALE + "x", "secret")
        _ask(other, "c", "x" * 30, "other")
        mine.submit(ForgetConversation("secret"))
        assert _storage(mine).num_conversations == 0
        _wait_for_storage(other, 1)
        assert _ask(other, "d", TALE + "y", "secret").reread_reason is RereadReason.FIRST_TIME
        mine.submit(ClearSnapshots())
        assert _storage(mine).num_conversations == 0
    assert not list(tmp_path.glob("*/*/*.kv"))


def test_a_deletion_just_before_the_end_is_done(tmp_path: Path) -> None:
    for _ in range(3):
        with _started(tmp_path) as log:
            _ask(log, "a", TALE)
        with engine_thread(EngineConfig(snapshot_folder=tmp_path), load=FakeLoads()) as log:
            log.submit(ForgetConversation("chat"))
        assert not list(tmp_path.glob("*/*/*.kv"))


def test_the_quota_holds_from_the_start(tmp_path: Path) -> None:
    for chat in ("a", "b"):
        with _started(tmp_path) as log:
            _ask(log, chat, TALE + chat, chat)
    num_bytes = sum(path.stat().st_size for path in tmp_path.glob("*/*/*.kv"))

    def num_left(quota_bytes: int, *commands: SetSnapshotQuota) -> int:
        config = EngineConfig(snapshot_folder=tmp_path, snapshot_quota_bytes=quota_bytes)
        log = EventLog()
        log.thread = EngineThread(log.put, config, load=FakeLoads())
        log.submit(*commands)
        log.thread.start()
        log.submit(AskSnapshotStorage())
        storage = log.wait(SnapshotStorage)
        assert log.thread.stop(30)
        assert storage.num_conversations == len(list(tmp_path.glob("*/*/*.kv")))
        return storage.num_conversations

    assert num_left(num_bytes) == 2
    assert num_left(0, SetSnapshotQuota(num_bytes)) == 2, "what is set before the start holds"
    assert num_left(num_bytes - 1) == 1
    assert num_left(0) == 0


def test_without_a_quota_nothing_is_kept(tmp_path: Path) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
        _wait_for_storage(log, 1)
        log.submit(SetSnapshotQuota(0))
        storage = _wait_for_storage(log, 0)
        assert storage.quota_bytes == 0
        _ask(log, "b", TALE + "x")
    assert not list(tmp_path.glob("**/*.kv"))
    with _started(tmp_path) as log:
        log.submit(SetSnapshotQuota(1 << 30))
        _ask(log, "c", TALE)
        _wait_for_storage(log, 1)


def test_without_a_folder_there_is_no_storage() -> None:
    with engine_thread(EngineConfig(), load=FakeLoads(snapshot_key=KEY)) as log:
        log.submit(LoadModel(MODEL), SetSnapshotQuota(5), ForgetConversation("a"), ClearSnapshots())
        log.wait(ModelLoaded)
        _ask(log, "a", TALE)
        assert _storage(log) == SnapshotStorage(0, 0, 0)


def test_a_folder_that_cannot_be_written_costs_nothing_but_snapshots(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way", encoding="utf-8")
    with _started(blocked) as log:
        _ask(log, "a", TALE)
        time.sleep(0.2)
        _ask(log, "b", TALE + "x")
        log.submit(ForgetConversation("chat"))
        assert _storage(log).num_conversations == 0


def test_a_stop_during_reopening_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
    monkeypatch.setattr(restoration, "CHUNK_BYTES", 64)
    monkeypatch.setattr(restoration, "ADVANCE_S", 0.0)
    begun, is_told = threading.Event(), threading.Event()
    go_on = restoration.Restoration.advance

    def advance(self: restoration.Restoration) -> None:
        begun.set()
        is_told.wait(60)
        go_on(self)

    monkeypatch.setattr(restoration.Restoration, "advance", advance)
    with _started(tmp_path) as log:
        log.submit(GenerateRequest("a", prompt=TALE, max_tokens=5, conversation_id="chat"))
        assert begun.wait(60)
        log.submit(AbortRequest("a"))
        is_told.set()
        end = log.wait_end("a")
        assert isinstance(end, RequestFinished)
        assert end.stats.num_completion_tokens == 0
        assert _ask(log, "b", TALE).num_reused_tokens == len(TALE)


def test_others_stream_while_a_conversation_is_reopened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _started(tmp_path) as log:
        _ask(log, "a", TALE)
    monkeypatch.setattr(restoration, "CHUNK_BYTES", 64)
    monkeypatch.setattr(restoration, "ADVANCE_S", 0.0)
    steps: list[str] = []
    slow = restoration.Restoration.advance

    def advance(self: restoration.Restoration) -> None:
        steps.append("disk")
        slow(self)

    monkeypatch.setattr(restoration.Restoration, "advance", advance)
    loads = FakeLoads(snapshot_key=KEY)
    both_came = threading.Event()

    def note(_slices: object) -> None:
        both_came.wait(60)
        if "disk" not in steps:
            time.sleep(0.02)  # else the other answer may be over before "b" has become tokens
        steps.append("step")

    loads.before_run = note
    sampling = SamplingParams(temperature=0)
    with _started(tmp_path, loads) as log:
        log.submit(GenerateRequest("other", prompt="hello", sampling=sampling, max_tokens=200))
        log.submit(GenerateRequest("b", prompt=TALE, sampling=sampling, max_tokens=20, conversation_id="chat"))
        both_came.set()
        ends = {log.wait(RequestFinished).request_id for _ in range(2)}
    assert ends == {"other", "b"}
    assert log.text("b") == answer(TALE, 20)
    assert "step" in steps[steps.index("disk") : len(steps) - steps[::-1].index("disk")]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_commands_with_snapshots_never_mix_answers(tmp_path: Path, seed: int) -> None:
    """Chats, stops, loads, ejects and deletions in any order: each answer begins as a cold run's."""
    rng = random.Random(seed)
    loads = FakeLoads(num_blocks=34, snapshot_key=KEY)
    prompts: dict[str, str] = {}
    with _started(tmp_path, loads) as log:
        for number in range(80):
            match rng.choices(
                ["ask", "stop", "forget", "load", "eject", "quota", "storage"], [12, 4, 2, 1, 1, 1, 1]
            )[0]:
                case "ask":
                    prompt = TALE[: rng.randrange(1, len(TALE))] * rng.randrange(1, 5)
                    prompts[f"r{number}"] = prompt
                    log.submit(
                        GenerateRequest(
                            f"r{number}",
                            prompt=prompt,
                            sampling=SamplingParams(temperature=0),
                            max_tokens=rng.randrange(1, 30),
                            conversation_id=rng.choice(["a", "b", "c", ""]),
                        )
                    )
                case "stop" if prompts:
                    log.submit(AbortRequest(rng.choice(list(prompts))))
                case "forget":
                    log.submit(ForgetConversation(rng.choice("abc")))
                case "load":
                    log.submit(LoadModel(MODEL))
                case "eject":
                    log.submit(EjectModel(), LoadModel(MODEL))
                case "quota":
                    log.submit(SetSnapshotQuota(rng.choice([0, 2000, 1 << 30])))
                case "storage":
                    log.submit(AskSnapshotStorage())
            time.sleep(rng.choice([0, 0, 0.001, 0.03]))
        log.submit(GenerateRequest("last", prompt="end", sampling=SamplingParams(temperature=0), max_tokens=3))
        log.wait_end("last")
    for name, prompt in prompts.items():
        (end,) = log.of(RequestFinished, name)
        text = log.text(name)
        assert answer(prompt, 30).startswith(text)
        assert len(text) == end.stats.num_completion_tokens
