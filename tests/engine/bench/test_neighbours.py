"""Busy neighbours: busy, and gone afterwards, however the benchmark ends."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from engine.bench.neighbours import busy_neighbours, fair_share


def _wait_until(is_true: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.02)


def test_neighbours_take_cores_and_leave() -> None:
    before = {child.pid for child in psutil.Process().children()}
    with busy_neighbours(2):
        children = [child for child in psutil.Process().children() if child.pid not in before]
        assert len(children) == 2
        _wait_until(lambda: all(child.cpu_times().user > 0.02 for child in children), "they take no core")
    assert not any(psutil.pid_exists(child.pid) for child in children)


def test_no_neighbours_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.bench.neighbours.subprocess.Popen", None)
    monkeypatch.setattr("engine.bench.neighbours.time.sleep", None)
    with busy_neighbours(0):
        pass  # neither a process nor a wait


def test_neighbours_end_with_a_killed_benchmark() -> None:
    code = (
        "import psutil, time\n"
        "from engine.bench.neighbours import busy_neighbours\n"
        "with busy_neighbours(1):\n"
        "    print(psutil.Process().children()[0].pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    benchmark = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert benchmark.stdout is not None
    pid = int(benchmark.stdout.readline())
    benchmark.kill()
    benchmark.communicate()
    _wait_until(lambda: not _is_running(pid), "the neighbour lives on")


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("num_cores", "num_threads", "num_neighbours", "share"),
    [(2, 2, 1, 2 / 3), (2, 1, 1, 1.0), (2, 2, 2, 0.5), (8, 4, 2, 1.0), (8, 8, 0, 1.0)],
)
def test_the_fair_share(num_cores: int, num_threads: int, num_neighbours: int, share: float) -> None:
    assert fair_share(num_cores, num_threads, num_neighbours) == pytest.approx(share)
