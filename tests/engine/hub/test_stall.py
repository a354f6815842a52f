"""A computer that sleeps in the middle of a download, by a clock that is moved by hand."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from engine.errors import HubUnreachableError
from engine.hub.connection import Answer, Connection
from engine.hub.names import RemoteFile
from engine.hub.stall import ALIVE_BYTES, StallWatch
from engine.hub.transfer import RetryPolicy, Transfer

URL = "https://hub.example/m.gguf"
DATA = b"GGUF" + bytes(range(256)) * 40
Step = Callable[[], bytes]


class Clock:
    """Seconds, as they are set."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def passes(self, seconds: float) -> None:
        self.now_s += seconds


class FakeConnection:
    """Answers with the bytes that each step gives after it moved the clock; one list of steps an answer."""

    read_timeout_s = 20.0

    def __init__(self, *answers: list[Step]) -> None:
        self._answers = list(answers)
        self.starts: list[int] = []

    def cut(self) -> None: ...

    @contextlib.contextmanager
    def open(self, _url: str, _subject: str, start: int, _stop: int) -> Iterator[Answer]:
        self.starts.append(start)
        steps = self._answers.pop(0)

        headers = {"content-range": f"bytes {start}-{len(DATA) - 1}/{len(DATA)}"}
        response = SimpleNamespace(status_code=206, headers=headers, iter_raw=lambda: (step() for step in steps))
        yield Answer(cast(Any, response), {}, URL)


def _transfer(connection: FakeConnection, part: Path, clock: Clock) -> Transfer:
    """One that takes no failure at all."""
    file = RemoteFile("m.gguf", len(DATA), hashlib.sha256(DATA).hexdigest())
    policy = RetryPolicy(max_failures=0)
    return Transfer(cast(Connection, connection), URL, file, part, policy=policy, clock=clock)


def _bytes(start: int, stop: int, clock: Clock, after_s: float = 0.0) -> Step:
    def step() -> bytes:
        clock.passes(after_s)
        return DATA[start:stop]

    return step


def test_little_after_a_sleep_is_no_stall(tmp_path: Path) -> None:
    clock = Clock()
    connection = FakeConnection(
        [
            _bytes(0, 5000, clock),
            _bytes(5000, 5001, clock, after_s=60),
            _bytes(5001, 5002, clock, after_s=15),
            _bytes(5002, len(DATA), clock, after_s=4),
        ]
    )
    transfer = _transfer(connection, tmp_path / "m.part", clock)
    transfer.run()
    assert (tmp_path / "m.part").read_bytes() == DATA
    assert connection.starts == [0]


def test_little_for_long_while_awake_is_a_stall(tmp_path: Path) -> None:
    clock = Clock()
    drip = [_bytes(5001 + number, 5002 + number, clock, after_s=4) for number in range(8)]
    connection = FakeConnection([_bytes(0, 5000, clock), _bytes(5000, 5001, clock, after_s=60), *drip])
    with pytest.raises(HubUnreachableError, match="stalled"):
        _transfer(connection, tmp_path / "m.part", clock).run()
    assert clock.now_s == 60 + 6 * 4, "the sleep does not count, what follows does"


def test_a_connection_that_did_not_outlive_the_sleep_is_no_failure(tmp_path: Path) -> None:
    clock = Clock()

    def gone() -> bytes:
        clock.passes(3600)
        raise httpx2.ReadTimeout("nothing came")

    connection = FakeConnection([_bytes(0, 5000, clock), gone], [_bytes(5000, len(DATA), clock)])
    transfer = _transfer(connection, tmp_path / "m.part", clock)
    transfer.run()
    assert connection.starts == [0, 5000], "it goes on where it was, at once"
    assert transfer.message == ""


def test_a_read_that_gets_nothing_while_awake_is_a_failure(tmp_path: Path) -> None:
    clock = Clock()

    def silence() -> bytes:
        clock.passes(FakeConnection.read_timeout_s)
        raise httpx2.ReadTimeout("nothing came")

    connection = FakeConnection([_bytes(0, 5000, clock), silence])
    with pytest.raises(HubUnreachableError, match="does not answer"):
        _transfer(connection, tmp_path / "m.part", clock).run()


@pytest.mark.parametrize(("num_bytes", "is_stalled"), [(ALIVE_BYTES - 1, True), (ALIVE_BYTES, False)])
def test_what_is_hardly_anything(num_bytes: int, is_stalled: bool) -> None:
    clock = Clock()
    watch = StallWatch(20.0, 20.0, clock)
    clock.passes(20.5)
    assert watch.is_stalled(num_bytes) is is_stalled
    assert not watch.is_stalled(num_bytes), "the next one is counted from here"
