"""How long a kernel takes, told apart from how long it waited for the processor.

Beside another program a thread waits for its core, and a team of threads for its slowest one, or goes on without
it: what the clock on the wall says then is not the speed of the kernel. So each round of runs is set against the
processor time that the threads had, and counts only where they had all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

ROUND_S = 0.1
NUM_ROUNDS = 3  # that nothing disturbed, for a figure that counts for good
MOST_ROUNDS = 12  # after which the machine is taken to be busy
OWN_SHARE = 0.95  # of the processors it runs on, that a team needs for a round to count
LEAST_SHARE = 0.6  # below which a round says nothing at all
OTHERS_SHARE = 0.15  # of all processors, at most, that others take meanwhile: they take of the memory's bandwidth
SPREAD = 1.15  # of the slowest round that counts to the quickest


@dataclass(frozen=True)
class Clocks:
    """Clocks in seconds.

    Attributes:
        wall: of the wall.
        team: processor time that the team's threads have had.
        machine: processor time that all programs have had, the team included.
        num_threads, num_processors: of the team, of the machine.
    """

    wall: Callable[[], float]
    team: Callable[[], float]
    machine: Callable[[], float]
    num_threads: int
    num_processors: int


@dataclass(frozen=True)
class Timing:
    """What one run takes.

    Attributes:
        seconds: of a run, in the best round; None where no round says anything.
        is_quiet: nothing disturbed the rounds it is from.
    """

    seconds: float | None
    is_quiet: bool


def machine_seconds() -> float:
    """Processor time that all programs have had since the machine started, and other machines on its processors."""
    times = psutil.cpu_times()
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # in user and nice already
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - guests)


def team_clocks(team: Callable[[], float], num_threads: int) -> Clocks:
    """The clocks of this machine for a team of threads."""
    return Clocks(time.perf_counter, team, machine_seconds, num_threads, psutil.cpu_count() or num_threads)


def time_runs(run: Callable[[], object], clocks: Clocks, may_go_on: Callable[[], bool] = lambda: True) -> Timing:
    """Run over and over until NUM_ROUNDS rounds were undisturbed, or MOST_ROUNDS were run.

    ``may_go_on`` is asked before each round; once it says no, the time is unknown.
    """
    quiet: list[float] = []
    disturbed: list[float] = []
    wall, team, machine = clocks.wall(), clocks.team(), clocks.machine()
    for _ in range(MOST_ROUNDS):
        if not may_go_on():
            return Timing(None, False)
        seconds, own_share = _round(run, clocks)
        if own_share >= OWN_SHARE:
            quiet.append(seconds)
        elif own_share >= LEAST_SHARE:
            disturbed.append(seconds)
        if len(quiet) == NUM_ROUNDS:
            break
    elapsed = clocks.wall() - wall
    others = max(0.0, clocks.machine() - machine - (clocks.team() - team))
    if len(quiet) == NUM_ROUNDS:
        is_alone = others <= OTHERS_SHARE * elapsed * clocks.num_processors
        return Timing(min(quiet), is_alone and max(quiet) <= SPREAD * min(quiet))
    return Timing(min([*quiet, *disturbed], default=None), False)


def _round(run: Callable[[], object], clocks: Clocks) -> tuple[float, float]:
    """Seconds of a run, and the share of its processors that the team had."""
    wall, team, num_runs = clocks.wall(), clocks.team(), 0
    elapsed = 0.0
    while elapsed < ROUND_S:
        run()
        num_runs += 1
        elapsed = clocks.wall() - wall
    return elapsed / num_runs, (clocks.team() - team) / (elapsed * clocks.num_threads)
