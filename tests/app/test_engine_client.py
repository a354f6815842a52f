from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication
from pytestqt.qtbot import QtBot

from app.engine_client import FRAME_MS, FREE_FRAME_MS, FREE_SHARE, SHARE, EngineClient, RequestEvent, coalesce
from engine.protocol import (
    Channel,
    Delta,
    EngineStopped,
    FinishReason,
    GenerateRequest,
    LoadPhase,
    ModelLoading,
    PromptProgress,
    RequestFailed,
    RequestFinished,
    RequestStarted,
    RequestStats,
)
from tests.app.fake_engine import FakeEngine

_STATS = RequestStats(1, 0, 1, 1.0, 1.0, 1.0, 1.0, 1)


@pytest.fixture
def engines() -> list[FakeEngine]:
    return []


@pytest.fixture
def client(qtbot: QtBot, engines: list[FakeEngine]) -> Iterator[EngineClient]:
    def make_engine(on_event: object) -> FakeEngine:
        engines.append(FakeEngine(on_event))  # type: ignore[arg-type]
        return engines[0]

    client = EngineClient(make_engine)
    yield client
    client.close()


def test_neighbouring_deltas_are_joined() -> None:
    def delta(request: str, text: str, count: int, channel: Channel = Channel.ANSWER) -> Delta:
        return Delta(request, channel, text, count)

    events = [
        RequestStarted("a", 3, 0), PromptProgress("a", 1, 3), PromptProgress("a", 2, 3),
        delta("a", "x", 1), delta("a", "y", 2), delta("a", "z", 3), delta("a", "t", 4, Channel.REASONING),
        delta("b", "1", 1), delta("a", "w", 5), ModelLoading(Path("m"), LoadPhase.HEADER, 0.1),
        ModelLoading(Path("m"), LoadPhase.WEIGHTS, 0.2), delta("a", "v", 6), delta("a", "u", 7),
    ]  # fmt: skip
    assert coalesce(list(events)) == [
        RequestStarted("a", 3, 0), PromptProgress("a", 2, 3),
        delta("a", "xyz", 3), delta("a", "t", 4, Channel.REASONING), delta("b", "1", 1), delta("a", "w", 5),
        ModelLoading(Path("m"), LoadPhase.WEIGHTS, 0.2), delta("a", "vu", 7),
    ]  # fmt: skip


@pytest.mark.parametrize(("num_cores", "pace"), [(2, (FRAME_MS, SHARE)), (8, (FREE_FRAME_MS, FREE_SHARE))])
def test_pictures_come_more_often_where_the_engine_leaves_cores_to_others(
    client: EngineClient, engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch,
    num_cores: int, pace: tuple[int, float],
) -> None:  # fmt: skip
    monkeypatch.setattr("app.engine_client.FRAME_MS", FRAME_MS)
    monkeypatch.setattr("app.engine_client._num_cores", lambda: num_cores)
    paces: list[tuple[int, float]] = []
    monkeypatch.setattr(client._mailbox, "set_pace", lambda *given: paces.append(given))
    client.load(Path("model.gguf"))
    client.catch_up()
    assert paces == [pace], "the model has two threads"


@pytest.mark.parametrize(("num_cores", "loans"), [(2, [True, False]), (8, [])])
def test_an_engine_on_all_cores_lends_one_for_a_picture(
    client: EngineClient, engines: list[FakeEngine], monkeypatch: pytest.MonkeyPatch, qtbot: QtBot,
    num_cores: int, loans: list[bool],
) -> None:  # fmt: skip
    monkeypatch.setattr("app.engine_client._num_cores", lambda: num_cores)
    client.load(Path("model.gguf"))  # with two threads
    client.catch_up()
    client._mailbox._last_work_s -= 1.0  # the last picture took long
    texts: list[RequestEvent] = []
    client.generate(GenerateRequest("r", prompt="x"), texts.append)
    engines[0].say("r", "word")
    qtbot.waitUntil(lambda: len(texts) == 2)
    qtbot.wait(1)
    assert engines[0].loans == loans


def test_the_first_delta_comes_at_once_and_the_rest_at_most_60_times_a_second(
    client: EngineClient, engines: list[FakeEngine], qtbot: QtBot
) -> None:
    arrivals: list[tuple[float, str]] = []
    begins: list[RequestEvent] = []
    ends: list[RequestEvent] = []

    def on_event(event: RequestEvent) -> None:
        if isinstance(event, Delta):
            arrivals.append((time.perf_counter(), event.text))
        elif isinstance(event, RequestStarted):
            begins.append(event)
        elif isinstance(event, RequestFinished):
            ends.append(event)

    client.generate(GenerateRequest("r", prompt="x"), on_event)
    qtbot.waitUntil(lambda: bool(begins))
    qtbot.wait(50)  # nothing is delivered for longer than an interval
    engines[0].say("r", "0,")
    QCoreApplication.processEvents()
    assert [text for _, text in arrivals] == ["0,"], "without a timer"

    def stream() -> None:
        for number in range(1, 2000):
            engines[0].say("r", f"{number},")
            if number % 10 == 0:
                time.sleep(0.005)
        engines[0].finish("r", FinishReason.STOP)

    started = time.perf_counter()
    thread = threading.Thread(target=stream)
    thread.start()
    qtbot.waitUntil(lambda: bool(ends))
    thread.join()
    assert "".join(text for _, text in arrivals) == "".join(f"{number}," for number in range(2000))
    assert len(arrivals) <= (arrivals[-1][0] - started) * 62.5 + 3


def test_events_of_ended_or_foreign_requests_reach_nobody(
    client: EngineClient, engines: list[FakeEngine], qtbot: QtBot
) -> None:
    events: list[RequestEvent] = []
    client.generate(GenerateRequest("r", prompt="x"), events.append)
    engines[0].finish("r")
    engines[0].say("r", "late")
    engines[0].say("other", "foreign")
    engines[0].on_event(RequestFailed("r", "late"))
    qtbot.wait(60)
    assert [type(event) for event in events] == [RequestStarted, RequestFinished]
    client.abort("r")
    assert not any(type(command).__name__ == "AbortRequest" for command in engines[0].commands)


def test_a_handler_that_raises_swallows_no_event(
    client: EngineClient, engines: list[FakeEngine], qtbot: QtBot, caplog: pytest.LogCaptureFixture
) -> None:
    good: list[RequestEvent] = []

    def bad(event: RequestEvent) -> None:
        raise ValueError("a view's mistake")

    client.generate(GenerateRequest("bad", prompt="x"), bad)
    client.generate(GenerateRequest("good", prompt="x"), good.append)
    qtbot.waitUntil(lambda: bool(good))
    assert "a view's mistake" in caplog.text


def test_an_engine_that_ends_fails_what_runs(client: EngineClient, engines: list[FakeEngine], qtbot: QtBot) -> None:
    events: list[RequestEvent] = []
    client.generate(GenerateRequest("r", prompt="x"), events.append)
    with qtbot.waitSignal(client.stopped):
        engines[0].on_event(EngineStopped())
    assert isinstance(events[-1], RequestFailed)


def test_only_the_newest_count_is_answered(client: EngineClient, qtbot: QtBot) -> None:
    counts: list[int] = []
    client.count_tokens("one", counts.append)
    client.count_tokens("one two", counts.append)
    qtbot.wait(60)
    assert counts == [2]


def test_nothing_arrives_after_closing(client: EngineClient, engines: list[FakeEngine], qtbot: QtBot) -> None:
    events: list[RequestEvent] = []
    client.generate(GenerateRequest("r", prompt="x"), events.append)
    assert client.close()
    engines[0].on_event(RequestFinished("r", FinishReason.STOP, _STATS))
    client.load(Path("x"))
    qtbot.wait(40)
    assert events == []
    assert len(engines[0].commands) == 1
