from __future__ import annotations

import threading
from collections.abc import Callable

from app.late_engine import LateEngine
from engine.protocol import CountTokens, EjectModel, EngineStopped, Event, Notice
from tests.app.fake_engine import FakeEngine


def _joined(engine: LateEngine) -> None:
    engine._thread.join(60)
    assert not engine._thread.is_alive()


def test_what_is_submitted_early_is_done_in_order() -> None:
    made: list[FakeEngine] = []
    may_go = threading.Event()

    def make(on_event: Callable[[Event], None]) -> FakeEngine:
        assert may_go.wait(60)
        made.append(FakeEngine(on_event))
        return made[0]

    events: list[Event] = []
    engine = LateEngine(make, events.append)
    engine.submit(CountTokens("a", "one two"))
    engine.start()
    engine.submit(EjectModel())
    engine.lend_core(True)
    assert not made
    may_go.set()
    _joined(engine)
    engine.lend_core(True)
    engine.lend_core(False)
    assert made[0].loans == [True, False], "one that is not there uses no core"
    engine.submit(CountTokens("b", "three"))
    assert made[0].commands == [CountTokens("a", "one two"), EjectModel(), CountTokens("b", "three")]
    assert engine.stop()
    assert events[-1] == EngineStopped()


def test_one_that_is_stopped_before_it_is_there_never_begins() -> None:
    made: list[FakeEngine] = []
    may_go = threading.Event()

    class Engine(FakeEngine):
        def start(self) -> None:
            raise AssertionError("it was stopped")

    def make(on_event: Callable[[Event], None]) -> FakeEngine:
        assert may_go.wait(60)
        made.append(Engine(on_event))
        return made[0]

    engine = LateEngine(make, lambda _event: None)
    engine.submit(EjectModel())
    engine.start()
    assert engine.stop()
    may_go.set()
    _joined(engine)
    assert made[0].commands == []


def test_an_engine_that_cannot_be_made_is_said_and_fails_what_waits() -> None:
    def make(_on_event: Callable[[Event], None]) -> FakeEngine:
        raise ImportError("no kernels")

    events: list[Event] = []
    engine = LateEngine(make, events.append)
    engine.start()
    _joined(engine)
    assert events == [Notice("The engine cannot be started: no kernels."), EngineStopped()]
    assert engine.stop()
