from __future__ import annotations

import itertools
import threading
import time
from functools import partial

import pytest
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.tasks import Mailbox, TaskRunner
from app.throttle import Throttle


def test_a_mailbox_delivers_all_in_order_with_few_wake_ups(qtbot: QtBot) -> None:
    batches: list[list[int]] = []
    mailbox = Mailbox(batches.append, 10)
    began = time.monotonic()

    def post() -> None:
        for number in range(5000):
            mailbox.post(number)

    thread = threading.Thread(target=post)
    thread.start()
    qtbot.waitUntil(lambda: sum(map(len, batches)) == 5000)
    thread.join()
    assert [number for batch in batches for number in batch] == list(range(5000))
    assert len(batches) <= (time.monotonic() - began) / 0.010 + 2, "each wakes the thread up"
    mailbox.close()
    mailbox.post(1)
    qtbot.wait(30)
    assert sum(map(len, batches)) == 5000
    mailbox.deliver()
    assert batches[-1] == [1]


@pytest.mark.parametrize(("work_s", "interval_s"), [(0.0, 0.033), (0.0015, 0.05), (0.02, 0.1)])
def test_deliveries_leave_the_time_to_others(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, work_s: float, interval_s: float
) -> None:
    """What is computed from one delivery to the next is no more than a share, up to the longest interval."""
    clock = {"now": 100.0, "work": 5.0}
    monkeypatch.setattr("app.tasks.time.monotonic", lambda: clock["now"])
    monkeypatch.setattr("app.tasks.time.thread_time", lambda: clock["work"])
    seen: list[float] = []
    mailbox = Mailbox(lambda _items: seen.append(clock["now"]), 33, share=0.03, max_interval_ms=100)
    mailbox.deliver()
    for _ in range(300):
        clock["now"] += 0.001
        mailbox._items.put("token")
        num_seen = len(seen)
        mailbox._arm()
        clock["work"] += work_s if len(seen) > num_seen else 0
    gaps = [after - before for before, after in itertools.pairwise(seen[1:])]
    assert gaps
    assert gaps == pytest.approx([interval_s] * len(gaps), abs=0.0011)
    assert seen[0] == pytest.approx(100.001), "the first at once"


def test_a_delivery_that_takes_long_gets_a_core_until_it_is_painted(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"work": 5.0}
    monkeypatch.setattr("app.tasks.time.thread_time", lambda: clock["work"])
    seen: list[object] = []
    widget = _Painted(seen)
    qtbot.addWidget(widget)
    widget.show()
    qtbot.waitExposed(widget)

    def draw(items: list[str]) -> None:
        seen.append(items)
        widget.update()
        clock["work"] += {"short": 0.0005, "long": 0.002}[items[0]]

    mailbox = Mailbox(draw, lend_core=seen.append)
    qtbot.waitUntil(lambda: "painted" in seen)
    seen.clear()
    for number, item in enumerate(("short", "long", "short", "short"), 1):
        mailbox.post(item)
        qtbot.waitUntil(partial(_has, seen, number))
        qtbot.waitUntil(lambda: seen.count(True) == seen.count(False))
    assert seen == [
        *(["short"], "painted"),
        *(["long"], "painted"),
        *(True, ["short"], "painted", False),
        *(["short"], "painted"),
    ]


def _has(seen: list[object], num_pictures: int) -> bool:
    return seen.count("painted") == num_pictures


class _Painted(QWidget):
    def __init__(self, seen: list[object]) -> None:
        super().__init__()
        self._seen = seen

    def paintEvent(self, event: QPaintEvent) -> None:
        self._seen.append("painted")


def test_tasks_run_in_order_elsewhere_and_answer_here(qtbot: QtBot, caplog: pytest.LogCaptureFixture) -> None:
    runner = TaskRunner("test")
    seen: list[tuple[object, bool, bool]] = []
    here = threading.current_thread()

    def work(number: int) -> tuple[int, threading.Thread]:
        return number, threading.current_thread()

    def done(result: tuple[int, threading.Thread]) -> None:
        seen.append((result[0], result[1] is here, threading.current_thread() is here))

    for number in range(5):
        runner.run(lambda number=number: work(number), done)  # type: ignore[misc]
    errors: list[Exception] = []
    runner.run(lambda: 1 // 0, None, errors.append)
    runner.run(lambda: 2 // 0)
    qtbot.waitUntil(lambda: bool(errors))
    assert seen == [(number, False, True) for number in range(5)]
    assert isinstance(errors[0], ZeroDivisionError)
    slow_done: list[object] = []
    runner.run(lambda: time.sleep(0.2), slow_done.append)
    assert runner.close(60)
    qtbot.wait(30)
    assert slow_done == [], "results after closing are dropped"
    assert "a task failed in test" in caplog.text
    with pytest.raises(RuntimeError):
        runner.run(lambda: None)


def test_a_throttle_runs_at_once_then_coalesces(qtbot: QtBot) -> None:
    calls: list[int] = []
    throttle = Throttle(60, lambda: calls.append(len(calls)))
    for _ in range(5):
        throttle.request()
    assert calls == [0]
    qtbot.waitUntil(lambda: calls == [0, 1])
    throttle.request()
    throttle.flush()
    assert calls == [0, 1, 2]
    throttle.flush()
    throttle.delay()
    throttle.cancel()
    qtbot.wait(100)
    assert calls == [0, 1, 2]


def test_a_result_that_cannot_be_taken_keeps_no_other_from_its_taker(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[object] = []
    monkeypatch.setattr("sys.excepthook", lambda _kind, error, _trace: reported.append(error))
    runner = TaskRunner("test")
    taken: list[int] = []

    def fail(_result: object) -> None:
        raise KeyError("gone")

    began = threading.Event()
    runner.run(began.wait)
    runner.run(lambda: 1, fail)
    runner.run(lambda: 2, taken.append)
    began.set()
    runner.run(lambda: 3, taken.append)
    qtbot.waitUntil(lambda: taken == [2, 3], timeout=2000)
    assert [type(error) for error in reported] == [KeyError]
    assert runner.close(1.0)
