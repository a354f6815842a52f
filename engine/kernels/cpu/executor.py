"""The loop that runs a program of kernels on every thread (machine code; its owner is ``threads``).

Every thread walks the whole program and takes its share of the work inside each kernel. Threads wait for each
other at barriers, and workers for the next step, first by a short spin and then asleep on the system's condition
variable: a neighbour that needs the core gets it, and an idle engine uses none. Who says before that it needs one,
as a window before a picture, keeps nobody waiting: the last thread parks at the next barrier, and once it is called
back it joins the others at the row where they are.

``control`` draws the layouts. This module knows nothing of ops, plans or models.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from engine.kernels.cpu.control import (
    AHEAD,
    AHEAD_GOES_ON,
    AHEAD_KERNEL,
    ARRIVED,
    BARRIER_GENERATION,
    BARRIER_SPINS,
    CALL_LOCK,
    CALL_TIME,
    CALL_UNLOCK,
    CALL_WAIT,
    CALL_WAKE_ALL,
    CONDITION,
    GENERATION,
    IDLE_SPINS,
    IS_CORE_WANTED,
    IS_INTERRUPTED,
    LATE_NS,
    MUTEX,
    NUM_ASLEEP,
    NUM_OPS,
    PARKED,
    PATIENCE_NS,
    PROGRAM,
    ROW,
    ROW_BYTES,
    ROW_KERNEL,
    ROW_OPERANDS,
    ROW_WAITS,
    SINCE_NS,
    STEP,
    TEAM,
    TEAM_FACTOR,
    WAIT_TIMEOUT,
)
from engine.kernels.cpu.simd import (
    I32,
    I64,
    atomic_add,
    atomic_load,
    atomic_store,
    define,
    inline,
    load_i64,
    pause,
    pointer,
    store_i64,
)
from engine.kernels.cpu.sleep import TIME_UTC

LATE_SHARE = 4  # of the time counted, the part slept above which a thread is left out: a quarter

_POINTER = ir.IntType(8).as_pointer()


def _emit_call_kernel(b: Any, address: Any, *arguments: Any) -> None:
    with b.goto_entry_block():
        unused = b.alloca(_POINTER)
    function = ir.FunctionType(I32, [_POINTER.as_pointer()] * 2 + [I64] * 4)
    b.call(pointer(b, address, function), [unused, unused, *arguments])


def _emit_call_system(b: Any, address: Any, *arguments: Any) -> None:
    b.call(pointer(b, address, ir.FunctionType(I32, [I64] * 4)), arguments)


def _emit_two_slots(b: Any) -> Any:
    with b.goto_entry_block():
        space = b.alloca(I64, 2)
    return b.ptrtoint(space, I64)


def _emit_fence(b: Any) -> None:
    b.fence("seq_cst")


# call_kernel(address, op, step, thread, num_threads): a kernel in numba's native signature, see ``jit``.
call_kernel = define(types.void, [types.int64] * 5, _emit_call_kernel)
# call_system(address, a, b, c, d): a C function of integers.
call_system = define(types.void, [types.int64] * 5, _emit_call_system)
# two_slots(): 16 bytes that live as long as the function.
two_slots = define(types.int64, [], _emit_two_slots)
# fence(): earlier stores come before later loads.
fence = define(types.void, [], _emit_fence)


@inline
def time_ns(control: int) -> Any:
    """Nanoseconds on the system's clock, which may be set meanwhile: for differences that may be wrong once."""
    time = two_slots()
    store_i64(time + 8, 0)  # of which Windows writes the lower half
    call_system(load_i64(control + CALL_TIME * 8), time, TIME_UTC, 0, 0)
    return load_i64(time) * 1_000_000_000 + load_i64(time + 8)


@inline
def spin_while(address: int, value: int, spins: int) -> Any:
    """Look ``spins`` times for another value at the address. Whether there is one is returned."""
    for _ in range(spins):
        if atomic_load(address) != value:
            return True
        pause()
    return False


@inline
def sleep_while(control: int, slot: int, value: int) -> None:
    """Sleep until the slot holds another value.

    No wake-up is lost: a sleeper counts itself in ``NUM_ASLEEP`` before it looks under the mutex, and whoever
    changes the slot looks at the count after the change.
    """
    asleep, mutex = control + NUM_ASLEEP * 8, control + MUTEX * 8
    atomic_add(asleep, 1)
    fence()
    call_system(load_i64(control + CALL_LOCK * 8), mutex, 0, 0, 0)
    while atomic_load(control + slot * 8) == value:
        timeout = load_i64(control + WAIT_TIMEOUT * 8)
        call_system(load_i64(control + CALL_WAIT * 8), control + CONDITION * 8, mutex, timeout, 0)
    call_system(load_i64(control + CALL_UNLOCK * 8), mutex, 0, 0, 0)
    atomic_add(asleep, -1)


@inline
def wake(control: int) -> None:
    """Wake the sleepers, if any, after a slot was changed."""
    fence()
    if atomic_load(control + NUM_ASLEEP * 8) > 0:
        mutex = control + MUTEX * 8
        call_system(load_i64(control + CALL_LOCK * 8), mutex, 0, 0, 0)
        call_system(load_i64(control + CALL_WAKE_ALL * 8), control + CONDITION * 8, 0, 0, 0)
        call_system(load_i64(control + CALL_UNLOCK * 8), mutex, 0, 0, 0)


@inline
def end_if_interrupted(control: int) -> None:
    """Leave nobody in the team when the step is to end early. Of the threads in the step one may call this."""
    if atomic_load(control + IS_INTERRUPTED * 8) != 0:
        team = atomic_load(control + TEAM * 8)
        atomic_store(control + TEAM * 8, team - team % TEAM_FACTOR)


@inline
def is_late(control: int, num_threads: int) -> Any:
    """Whether threads slept at barriers so long that one of the others must have lost its core.

    All the others sleep for one that is late. Unequal shares of an op also make them sleep, each op a little: so
    the sleep is held against the time that has passed.
    """
    late = atomic_load(control + LATE_NS * 8) // (num_threads - 1)
    if late < load_i64(control + PATIENCE_NS * 8) or atomic_load(control + PARKED * 8) != 0:
        return False
    return late * LATE_SHARE > time_ns(control) - load_i64(control + SINCE_NS * 8)


@inline
def count_late_from_now(control: int) -> None:
    """Begin to add up how long threads sleep."""
    atomic_store(control + LATE_NS * 8, 0)
    store_i64(control + SINCE_NS * 8, time_ns(control))


@inline
def share_cores(control: int) -> None:
    """Park the last thread of the team while its core is wanted, then call it back. One thread may call this."""
    parked = atomic_load(control + PARKED * 8)
    if atomic_load(control + IS_CORE_WANTED * 8) != 0:
        team = atomic_load(control + TEAM * 8)
        if parked == 0 and team % TEAM_FACTOR > 1:
            atomic_store(control + PARKED * 8, team - 1)
            atomic_store(control + TEAM * 8, team - 1)
    elif parked != 0:
        atomic_store(control + TEAM * 8, parked + 1)
        atomic_store(control + PARKED * 8, 0)
        wake(control)


@inline
def barrier(control: int, num_threads: int, row: int) -> None:
    """Return once all ``num_threads`` of the team have come here; the last one may change the team.

    ``row`` follows; 0 at the end of the program, where no parked thread can come back.
    """
    if num_threads == 1:
        if row != 0:
            atomic_store(control + ROW * 8, row)
            share_cores(control)
        end_if_interrupted(control)
        return
    generation = atomic_load(control + BARRIER_GENERATION * 8)
    if atomic_add(control + ARRIVED * 8, 1) == num_threads - 1:
        atomic_store(control + ARRIVED * 8, 0)
        if is_late(control, num_threads):
            atomic_add(control + TEAM * 8, -1)
            count_late_from_now(control)
        if row != 0:
            atomic_store(control + ROW * 8, row)
            share_cores(control)
        end_if_interrupted(control)
        atomic_add(control + BARRIER_GENERATION * 8, 1)
        wake(control)
    elif not spin_while(control + BARRIER_GENERATION * 8, generation, load_i64(control + BARRIER_SPINS * 8)):
        begun = time_ns(control)
        sleep_while(control, BARRIER_GENERATION, generation)
        atomic_add(control + LATE_NS * 8, time_ns(control) - begun)


@inline
def team_size(control: int, generation: int) -> Any:
    """Threads of the team now; 0 if that step is over: a dismissed thread may come here during the next one."""
    team = atomic_load(control + TEAM * 8)
    return team % TEAM_FACTOR if team // TEAM_FACTOR == generation else 0


@inline
def team_with(control: int, thread: int, generation: int) -> Any:
    """Threads of the team, once ``thread`` is not parked; no more than its number where it takes part no longer."""
    team = team_size(control, generation)
    if thread >= team:
        sleep_while(control, PARKED, generation * TEAM_FACTOR + thread)
        team = team_size(control, generation)
    return team


@inline
def walk(control: int, thread: int, generation: int) -> None:
    """Run the program once; returns when all threads of the team are through, or this one is no longer of it."""
    step = load_i64(control + STEP * 8)
    end = load_i64(control + PROGRAM * 8) + load_i64(control + NUM_OPS * 8) * ROW_BYTES
    team = team_with(control, thread, generation)
    if thread >= team:
        return
    row = atomic_load(control + ROW * 8)  # not the first one for a thread that was called back meanwhile
    while row < end:
        call_kernel(load_i64(row + ROW_KERNEL * 8), row + ROW_OPERANDS * 8, step, thread, team)
        row += ROW_BYTES
        if row < end and load_i64(row + ROW_WAITS * 8) != 0:
            barrier(control, team, row)
            team = team_with(control, thread, generation)
            if thread >= team:
                return
            row = atomic_load(control + ROW * 8)
    barrier(control, team, 0)


@inline
def take_step(op: int, num_threads: int) -> None:
    """Begin a step, take part, return at its end."""
    generation = atomic_load(op + GENERATION * 8) + 1
    parked, team = 0, generation * TEAM_FACTOR + num_threads
    if atomic_load(op + IS_CORE_WANTED * 8) != 0 and num_threads > 1:
        parked = team = team - 1
    atomic_store(op + PARKED * 8, parked)
    atomic_store(op + ROW * 8, load_i64(op + PROGRAM * 8))
    atomic_store(op + TEAM * 8, team)
    atomic_store(op + GENERATION * 8, generation)
    if team % TEAM_FACTOR > 1:
        wake(op)
    walk(op, 0, generation)


def run_step(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel for the calling thread (thread 0): a step, and those that follow it. ``op`` is control."""
    ahead, count = load_i64(op + AHEAD * 8), num_threads
    while True:
        take_step(op, count)
        count = atomic_load(op + TEAM * 8) % TEAM_FACTOR
        if ahead == 0 or count == 0:
            return
        call_kernel(load_i64(op + AHEAD_KERNEL * 8), ahead, load_i64(op + STEP * 8), 0, 1)
        if load_i64(ahead + AHEAD_GOES_ON * 8) == 0:
            return
        if atomic_load(op + PARKED * 8) != 0:
            count += 1


def run_worker(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel for a worker: take part in every step until the generation is negative. ``op`` is control."""
    seen = 0
    while True:
        if not spin_while(op + GENERATION * 8, seen, load_i64(op + IDLE_SPINS * 8)):
            sleep_while(op, GENERATION, seen)
        seen = atomic_load(op + GENERATION * 8)
        if seen < 0:
            return
        walk(op, thread, seen)


def stop_workers(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: end the workers, now asleep or looking for a step. ``op`` is control."""
    atomic_store(op + PARKED * 8, 0)
    atomic_store(op + GENERATION * 8, -1)
    wake(op)


def spin(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: ``op`` looks at a slot, to measure what one takes; ``step`` is an address."""
    for _ in range(op):
        if atomic_load(step) < 0:
            return
        pause()
