"""The threads that run programs, and the control block they share.

Workers are Python threads that stay inside ``executor.run_worker``, without the GIL, until the team is closed. This
module knows nothing of ops, plans or models.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import time
import weakref

import numpy as np
import numpy.typing as npt
import psutil

from engine.kernels.cpu.control import (
    AHEAD,
    AHEAD_KERNEL,
    BARRIER_SPINS,
    CALL_LOCK,
    CONDITION,
    CONTROL_SLOTS,
    IDLE_SPINS,
    IS_CORE_WANTED,
    IS_INTERRUPTED,
    LATE_NS,
    MUTEX,
    NUM_OPS,
    PARKED,
    PATIENCE_NS,
    PROGRAM,
    SINCE_NS,
    STEP,
    TEAM,
    TEAM_FACTOR,
)
from engine.kernels.cpu.jit import Kernel, KernelSource, load_kernels
from engine.kernels.cpu.neighbours import TeamSize
from engine.kernels.cpu.sleep import initialize, sleep_calls

RUN_STEP = KernelSource("executor", "run_step")
RUN_WORKER = KernelSource("executor", "run_worker")
STOP_WORKERS = KernelSource("executor", "stop_workers")
SPIN = KernelSource("executor", "spin")
GO_AHEAD = KernelSource("ahead", "go_ahead")
EXECUTOR_KERNELS = (RUN_STEP, RUN_WORKER, STOP_WORKERS, SPIN, GO_AHEAD)

_BARRIER_SPIN_S = 1e-3  # longer than threads of a balanced op differ, shorter than a time slice
_IDLE_SPIN_S = 300e-6  # about what sampling a token takes: a wake-up costs some 50 us
_LOAN_S = 2e-3  # most barriers come after some 10 us, but one behind the logits; a person sees no such time
_MEASURED_SPINS = 2000


def physical_cores() -> int:
    """Cores this process may use, at least 1; hyper-threads share one."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, psutil.cpu_count(logical=False) or usable))


def aligned_zeros(num_bytes: int) -> npt.NDArray[np.uint8]:
    """Zeroed bytes from an address that is a multiple of 64; the pages are not touched."""
    raw = np.zeros(num_bytes + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    return raw[offset : offset + num_bytes]


def sparse_zeros(num_bytes: int) -> npt.NDArray[np.uint8]:
    """As ``aligned_zeros``, for memory of which little may ever be used: it is taken by the small page.

    NumPy asks for pages of 2 MB. The KV cache is filled here and there, in each head of each layer, and with such
    pages a chat of 2,000 tokens on a model of 135M parameters took 310 MB instead of 46 and half a second to touch.
    """
    memory = mmap.mmap(-1, max(num_bytes, 1))
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without such pages
            memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.uint8, num_bytes)


class ThreadTeam:
    """Runs programs on ``num_threads`` threads: the caller's and sleeping workers. One step at a time.

    Attributes:
        num_threads: the caller's thread included.
        num_steps, step_seconds: that were run so far, and what they took.
    """

    def __init__(self, num_threads: int) -> None:
        """``num_threads`` 0 means one a physical core."""
        self.num_threads = num_threads or physical_cores()
        kernels = load_kernels(EXECUTOR_KERNELS)
        self._run_step = kernels[RUN_STEP]
        block = aligned_zeros(CONTROL_SLOTS * 8)
        self._control = block.data.cast("q")  # NumPy's own access takes several times as long
        self._address = address = block.ctypes.data
        initialize(address + MUTEX * 8, address + CONDITION * 8)
        for slot, value in enumerate(sleep_calls(), CALL_LOCK):
            self._control[slot] = value
        self._control[AHEAD_KERNEL] = kernels[GO_AHEAD].address
        spins_a_second = _measure_spins(kernels[SPIN], address)
        self._control[BARRIER_SPINS] = round(_BARRIER_SPIN_S * spins_a_second)
        self._control[IDLE_SPINS] = round(_IDLE_SPIN_S * spins_a_second)
        self._team_size = TeamSize(self.num_threads)
        self._is_running = False
        self.num_steps = 0
        self.step_seconds = 0.0
        threads = [
            threading.Thread(
                target=_work,
                args=(kernels[RUN_WORKER], block, index, self.num_threads),
                daemon=True,
                name=f"kernels-{index}",
            )
            for index in range(1, self.num_threads)
        ]
        for thread in threads:
            thread.start()
        self._workers = threads
        self._finalizer = weakref.finalize(self, _stop, kernels[STOP_WORKERS], block, threads)

    def set_program(self, program: npt.NDArray[np.int64], step: npt.NDArray[np.int64]) -> None:
        """The program (ops, ROW_SLOTS) and step state of the steps to come; the caller keeps both alive."""
        self._control[PROGRAM] = program.ctypes.data
        self._control[NUM_OPS] = len(program)
        self._control[STEP] = step.ctypes.data

    def run(self, ahead: int = 0) -> bool:
        """Run the program, without the GIL; the calling thread takes part. False when it was interrupted.

        With ``ahead``, the address of a block of tokens ahead, again for each of these. Raises RuntimeError after
        close.

        A thread that keeps the others waiting again and again has lost its core: it is left out of the rest of the
        step and of the next ones (see ``neighbours``).
        """
        if not self._finalizer.alive:
            raise RuntimeError("the threads have ended: the backend is closed")
        control, team_size, begun = self._control, self._team_size, time.perf_counter()
        num_threads = team_size.begin(begun)
        control[AHEAD] = ahead
        control[PATIENCE_NS] = team_size.patience_ns
        if team_size.counts_anew:
            control[LATE_NS], control[SINCE_NS] = 0, time.time_ns()  # the clock of ``executor.time_ns``
        self._is_running = True
        self._run_step(self._address, 0, 0, num_threads)
        self._is_running = False
        control[IS_INTERRUPTED] = 0
        num_left, ended = control[TEAM] % TEAM_FACTOR, time.perf_counter()
        self.num_steps += 1
        self.step_seconds += ended - begun
        if num_left > 0:
            team_size.end(ended, num_left + (control[PARKED] != 0))
        return num_left > 0

    def lend_core(self, is_lent: bool) -> None:
        """Leave one core to the calling thread, which is not of the team, or take it back.

        The last thread sleeps from the next barrier on and the others do its share. A core that is just taken from
        a team that has all of them costs it more: all wait for the thread that worked there. So the caller waits
        for that barrier, though no longer than ``_LOAN_S``.
        """
        control = self._control
        control[IS_CORE_WANTED] = int(is_lent)
        ends = time.perf_counter() + _LOAN_S
        while is_lent and self._is_running and control[TEAM] % TEAM_FACTOR > 1 and control[PARKED] == 0:
            if time.perf_counter() > ends:
                break
            time.sleep(_LOAN_S / 16)

    def interrupt(self) -> None:
        """Let the running step, or else the next one, end at a barrier; from any thread."""
        self._control[IS_INTERRUPTED] = 1

    def cpu_seconds(self) -> float:
        """Processor time that the calling thread and the workers have had. Raises RuntimeError after close.

        Where the system does not tell it of a thread (Windows, macOS), that of the whole process.
        """
        if not self._finalizer.alive:
            raise RuntimeError("the threads have ended: the backend is closed")
        if not hasattr(time, "pthread_getcpuclockid"):
            return time.process_time()
        clocks = (time.pthread_getcpuclockid(thread.ident) for thread in self._workers if thread.ident is not None)
        return time.thread_time() + sum(map(time.clock_gettime, clocks))

    def close(self) -> None:
        """End the workers and wait for them; idempotent. No step may be running or follow."""
        self._finalizer()


def _work(run_worker: Kernel, control: npt.NDArray[np.uint8], thread: int, num_threads: int) -> None:
    run_worker(control.ctypes.data, 0, thread, num_threads)


def _stop(stop_workers: Kernel, control: npt.NDArray[np.uint8], threads: list[threading.Thread]) -> None:
    stop_workers(control.ctypes.data, 0)
    for thread in threads:
        thread.join()


def _measure_spins(spin: Kernel, address: int) -> float:
    """Looks a second of a spinning thread; the best of three, for a neighbour can only slow it down."""
    best = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        spin(_MEASURED_SPINS, address)
        best = min(best, time.perf_counter() - begun)
    return _MEASURED_SPINS / best
