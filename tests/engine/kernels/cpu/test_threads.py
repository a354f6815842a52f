from __future__ import annotations

import ctypes
import gc
import threading
import time
from collections.abc import Iterator

import numpy as np
import psutil
import pytest

from engine.kernels.cpu.control import ROW_KERNEL, ROW_OPERANDS, ROW_SLOTS, ROW_WAITS
from engine.kernels.cpu.jit import Kernel, compile_kernel
from engine.kernels.cpu.neighbours import TeamSize
from engine.kernels.cpu.simd import atomic_add, atomic_load, load_i64, pause, store_i64
from engine.kernels.cpu.threads import ThreadTeam, physical_cores

ROWS = 60


def count_rows(op: int, step: int, thread: int, num_threads: int) -> None:
    """Every thread adds its share of the rows to the counter of the op."""
    atomic_add(load_i64(op), ROWS * (thread + 1) // num_threads - ROWS * thread // num_threads)


def check_count(op: int, step: int, thread: int, num_threads: int) -> None:
    """Every thread notes whether all rows were counted before it came here."""
    if load_i64(load_i64(op)) != ROWS:
        atomic_add(load_i64(op) + 8, 1)


def reset(op: int, step: int, thread: int, num_threads: int) -> None:
    """The last thread sets the counter to 0."""
    if thread == num_threads - 1:
        store_i64(load_i64(op), 0)


@pytest.fixture(scope="module")
def kernels() -> list[Kernel]:
    return [compile_kernel(function) for function in (count_rows, check_count, reset)]


@pytest.fixture
def counters() -> np.ndarray:
    return np.zeros(2, np.int64)


@pytest.fixture
def program(kernels: list[Kernel], counters: np.ndarray) -> np.ndarray:
    """Counts and checks 50 times."""
    rows = np.zeros((150, ROW_SLOTS), np.int64)
    for index, row in enumerate(rows):
        row[ROW_KERNEL] = kernels[index % 3].address
        row[ROW_WAITS] = 1
        row[ROW_OPERANDS] = counters.ctypes.data
    return rows


@pytest.fixture(params=[1, 2, 5])
def team(request: pytest.FixtureRequest) -> Iterator[ThreadTeam]:
    team = ThreadTeam(request.param)
    yield team
    team.close()


STEP = np.zeros(16, np.int64)


def dawdle(op: int, step: int, thread: int, num_threads: int) -> None:
    """The last of several threads takes a tenth of a second, as if its core were taken; all note their number."""
    if thread == num_threads - 1 > 0:
        for _ in range(10_000_000):
            atomic_add(step, 1)
    store_i64(load_i64(op), num_threads)


def test_every_op_waits_for_all_threads(team: ThreadTeam, program: np.ndarray, counters: np.ndarray) -> None:
    team.set_program(program, STEP)
    for _ in range(20):
        team.run()
    assert counters.tolist() == [0, 0]


def test_steps_wake_sleeping_workers(team: ThreadTeam, program: np.ndarray, counters: np.ndarray) -> None:
    team.set_program(program, STEP)
    for _ in range(5):
        time.sleep(0.02)  # far longer than workers look for a step
        team.run()
    assert counters.tolist() == [0, 0]


def test_steps_may_come_from_any_thread(team: ThreadTeam, program: np.ndarray, counters: np.ndarray) -> None:
    team.set_program(program, STEP)
    for _ in range(4):
        caller = threading.Thread(target=team.run)
        caller.start()
        caller.join(120)
        assert not caller.is_alive()
    assert counters.tolist() == [0, 0]


def test_idle_team_uses_no_processor(program: np.ndarray) -> None:
    team = ThreadTeam(3)
    team.set_program(program, STEP)
    team.run()
    used = [_seconds_used_in(0.3) for _ in range(3)]
    team.close()
    assert min(used) < 0.1, "workers that look for a step all the time use 0.6 s"


def _seconds_used_in(seconds: float) -> float:
    """Processor time that this process uses while this thread sleeps."""
    before = psutil.Process().cpu_times()
    time.sleep(seconds)
    after = psutil.Process().cpu_times()
    return float(after.user + after.system - before.user - before.system)


def test_close_ends_the_threads() -> None:
    before = threading.active_count()
    team = ThreadTeam(4)
    assert threading.active_count() == before + 3
    team.close()
    team.close()
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="closed"):
        team.run()


def test_forgotten_team_ends_its_threads() -> None:
    before = threading.active_count()
    team = ThreadTeam(3)
    del team
    gc.collect()
    assert threading.active_count() == before


def test_teams_do_not_disturb_each_other(kernels: list[Kernel]) -> None:
    teams = [ThreadTeam(2) for _ in range(3)]
    counted = [np.zeros(2, np.int64) for _ in teams]
    programs = []
    for team, counters in zip(teams, counted):
        rows = np.zeros((1, ROW_SLOTS), np.int64)
        rows[0, ROW_KERNEL], rows[0, ROW_OPERANDS] = kernels[0].address, counters.ctypes.data
        team.set_program(rows, STEP)
        programs.append(rows)
    callers = [threading.Thread(target=lambda team=team: [team.run() for _ in range(50)]) for team in teams]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(120)
    for team, counters in zip(teams, counted):
        assert counters[0] == 50 * ROWS
        team.close()


def test_interpreter_runs_on_while_a_step_runs(kernels: list[Kernel]) -> None:
    """The caller's thread gives up the GIL: another Python thread makes progress during a long step."""
    counters = np.zeros(2, np.int64)
    rows = np.zeros((200_000, ROW_SLOTS), np.int64)
    rows[:, ROW_KERNEL], rows[:, ROW_OPERANDS], rows[:, ROW_WAITS] = kernels[0].address, counters.ctypes.data, 1
    team = ThreadTeam(2)
    team.set_program(rows, STEP)
    caller = threading.Thread(target=team.run)
    caller.start()
    loops = 0
    while caller.is_alive():
        loops += 1
        ctypes.pythonapi.PyErr_CheckSignals()
    team.close()
    assert loops > 10
    assert counters[0] == 200_000 * ROWS


def forever(op: int, step: int, thread: int, num_threads: int) -> None:
    """Counts, so slowly that the whole program would take a minute."""
    for _ in range(100_000):
        atomic_add(step, 1)
    if thread == 0:
        atomic_add(load_i64(op), 1)


@pytest.mark.parametrize("num_threads", [1, 3])
def test_an_interrupted_step_ends_at_a_barrier_and_the_next_one_runs(
    num_threads: int, kernels: list[Kernel], counters: np.ndarray
) -> None:
    slow = compile_kernel(forever)
    rows = np.zeros((100_000, ROW_SLOTS), np.int64)
    rows[:, ROW_KERNEL], rows[:, ROW_WAITS], rows[:, ROW_OPERANDS] = slow.address, 1, counters.ctypes.data
    team = ThreadTeam(num_threads)
    for _ in range(3):
        team.set_program(rows, STEP.copy())
        counters[0] = 0
        ended: list[bool] = []
        caller = threading.Thread(target=lambda ended=ended: ended.append(team.run()))
        caller.start()
        while counters[0] == 0:
            time.sleep(0.001)
        team.interrupt()
        caller.join(120)
        assert ended == [False]
        assert counters[0] < 100_000
        counters[0] = 0
        rows_after = rows[:1].copy()
        rows_after[0, ROW_KERNEL] = kernels[0].address
        team.set_program(rows_after, STEP)
        assert team.run()
        assert counters[0] == ROWS
    team.close()


def note_team(op: int, step: int, thread: int, num_threads: int) -> None:
    """The first thread notes how many there are."""
    if thread == 0:
        store_i64(load_i64(op), num_threads)
    for _ in range(2000):
        atomic_add(step, 1)


def team_rows(counters: np.ndarray, num_rows: int) -> np.ndarray:
    rows = np.zeros((num_rows, ROW_SLOTS), np.int64)
    rows[:, ROW_KERNEL], rows[:, ROW_WAITS] = compile_kernel(note_team).address, 1
    rows[:, ROW_OPERANDS] = counters.ctypes.data
    return rows


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is left out because others on this machine keep it from its core."""
    monkeypatch.setattr(TeamSize, "patience_ns", 1 << 60)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("num_threads", [1, 2, 4])
def test_a_lent_core_is_left_from_step_to_step_and_taken_back(num_threads: int, counters: np.ndarray) -> None:
    rows = team_rows(counters, 3)
    team = ThreadTeam(num_threads)
    team.set_program(rows, STEP.copy())
    for is_lent in (False, True, True, False, True, False, False):
        team.lend_core(is_lent)
        assert team.run()
        assert counters[0] == max(1, num_threads - is_lent)
    team.lend_core(True)
    team.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("num_threads", [2, 4])
def test_a_core_is_lent_and_taken_back_in_the_middle_of_a_step(num_threads: int, counters: np.ndarray) -> None:
    rows = team_rows(counters, 1_000_000)
    team = ThreadTeam(num_threads)
    team.set_program(rows, STEP.copy())
    ended: list[bool] = []
    caller = threading.Thread(target=lambda: ended.append(team.run()))
    caller.start()
    for num_left in (num_threads, num_threads - 1, num_threads, num_threads - 1):
        team.lend_core(num_left < num_threads)
        while counters[0] != num_left:
            time.sleep(0.001)
    assert not ended, "all that was within one step"
    team.interrupt()
    caller.join(120)
    assert ended == [False]
    team.lend_core(False)
    team.set_program(rows[:1].copy(), STEP.copy())
    assert team.run()
    assert counters[0] == num_threads, "a thread that left its core is none that was late"
    team.close()


def test_each_op_is_done_once_however_often_a_core_is_lent(
    team: ThreadTeam, program: np.ndarray, counters: np.ndarray
) -> None:
    team.set_program(program, STEP)
    is_over = threading.Event()

    def lend() -> None:
        while not is_over.is_set():
            team.lend_core(True)
            team.lend_core(False)
            time.sleep(0)

    lender = threading.Thread(target=lend)
    lender.start()
    for _ in range(300):
        assert team.run()
    is_over.set()
    lender.join(120)
    assert counters.tolist() == [0, 0]


def test_whoever_wants_a_core_waits_for_no_long_op(counters: np.ndarray) -> None:
    rows = np.zeros((1, ROW_SLOTS), np.int64)
    rows[0, ROW_KERNEL] = compile_kernel(hold).address
    rows[0, ROW_OPERANDS] = counters.ctypes.data
    team = ThreadTeam(2)
    team.set_program(rows, STEP.copy())
    caller = threading.Thread(target=team.run)
    caller.start()
    while counters[0] < 2:
        time.sleep(0.001)
    team.lend_core(True)  # both threads are in an op that does not end
    assert caller.is_alive()
    counters[1] = 1
    caller.join(120)
    assert not caller.is_alive()
    team.close()


def hold(op: int, step: int, thread: int, num_threads: int) -> None:
    """Stay until the second counter is set; the first one counts who is here."""
    counters = load_i64(op)
    atomic_add(counters, 1)
    while atomic_load(counters + 8) == 0:
        pause()


def test_number_of_threads_defaults_to_cores() -> None:
    team = ThreadTeam(0)
    assert team.num_threads == physical_cores() >= 1
    team.close()


def test_a_thread_that_holds_up_the_others_is_left_out(counters: np.ndarray) -> None:
    kernel = compile_kernel(dawdle)
    rows = np.zeros((12, ROW_SLOTS), np.int64)
    rows[:, ROW_KERNEL], rows[:, ROW_WAITS], rows[:, ROW_OPERANDS] = kernel.address, 1, counters.ctypes.data
    team = ThreadTeam(3)
    team.set_program(rows, STEP.copy())
    team.run()
    team.run()
    team.close()
    assert counters[0] == 1


def test_the_processor_time_is_that_of_the_team(kernels: list[Kernel]) -> None:
    """It grows with the team's work alone, and cannot exceed what the threads can have had."""
    counters = np.zeros(2, np.int64)
    rows = np.zeros((100_000, ROW_SLOTS), np.int64)
    rows[:, ROW_KERNEL], rows[:, ROW_OPERANDS], rows[:, ROW_WAITS] = kernels[0].address, counters.ctypes.data, 1
    team = ThreadTeam(2)
    team.set_program(rows, STEP.copy())
    wall, before = time.perf_counter(), team.cpu_seconds()
    team.run()
    had, elapsed = team.cpu_seconds() - before, time.perf_counter() - wall
    assert 0 < had < 2.1 * elapsed + 0.05
    team.close()
    with pytest.raises(RuntimeError, match="closed"):
        team.cpu_seconds()
