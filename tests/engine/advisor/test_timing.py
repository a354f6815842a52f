"""A kernel's time beside other programs, with clocks that the test turns."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from engine.advisor import Speeds, kernel_speeds, known_speeds, look_at_machine, measure_speeds, needs_measuring
from engine.advisor.kernel_speeds import AGAIN_AFTER_S, MEASURED_TYPES, NUM_MEASUREMENTS, TypeSpeed
from engine.advisor.speeds import guessed_speeds
from engine.advisor.timing import MOST_ROUNDS, NUM_ROUNDS, ROUND_S, Clocks, time_runs
from engine.gguf.tensor_types import TensorType
from engine.loader import num_physical_cores

RUN_S = ROUND_S / 5


@dataclass
class Turned:
    """A machine of two processors whose team of two runs for RUN_S of processor time each.

    Attributes:
        shares: of the processors that the team gets, run after run; a run takes accordingly longer.
        slowness: of each run, without the team losing a processor: others that take the memory's bandwidth.
        others: processors that other programs take, where the machine has more of them than the team uses.
    """

    shares: Iterator[float] = field(default_factory=lambda: itertools.repeat(1.0))
    slowness: Iterator[float] = field(default_factory=lambda: itertools.repeat(1.0))
    others: float = 0.0
    num_processors: int = 2
    num_runs: int = 0
    wall: float = 0.0
    team: float = 0.0
    machine: float = 0.0

    def run(self) -> None:
        share, busy_s = next(self.shares), RUN_S * next(self.slowness)
        self.num_runs += 1
        self.wall += busy_s / share
        self.team += 2 * busy_s
        self.machine += 2 * busy_s / share + self.others * busy_s / share

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.wall, lambda: self.team, lambda: self.machine, 2, self.num_processors)


def _for_runs(*pairs: tuple[int, float]) -> Iterator[float]:
    """A number of runs with each value; the last value for ever."""
    for count, value in pairs:
        yield from itertools.repeat(value, count)
    yield from itertools.repeat(pairs[-1][1])


def test_alone_a_few_rounds_say_all() -> None:
    machine = Turned()
    timing = time_runs(machine.run, machine.clocks)
    assert timing.is_quiet
    assert timing.seconds == pytest.approx(RUN_S)
    assert machine.num_runs == pytest.approx(NUM_ROUNDS * 5, abs=NUM_ROUNDS)


def test_a_neighbour_for_part_of_the_time_leaves_the_rounds_without_it() -> None:
    """A burst, and a dismissed thread that comes back only after it, are waited for."""
    machine = Turned(shares=_for_runs((12, 0.5), (1, 1.0)), num_processors=8)
    timing = time_runs(machine.run, machine.clocks)
    assert timing.is_quiet
    assert timing.seconds == pytest.approx(RUN_S)


def test_beside_a_steady_neighbour_the_time_is_known_to_be_too_long() -> None:
    machine = Turned(shares=itertools.repeat(2 / 3))
    timing = time_runs(machine.run, machine.clocks)
    assert not timing.is_quiet
    assert timing.seconds == pytest.approx(1.5 * RUN_S)


def test_where_others_had_most_of_it_nothing_is_said() -> None:
    machine = Turned(shares=itertools.repeat(0.5))
    timing = time_runs(machine.run, machine.clocks)
    assert (timing.seconds, timing.is_quiet) == (None, False)
    assert machine.num_runs <= MOST_ROUNDS * 5


@pytest.mark.parametrize(("others", "is_quiet"), [(0.5, True), (3.0, False)])
def test_neighbours_on_other_processors_take_of_the_memory(others: float, is_quiet: bool) -> None:
    machine = Turned(others=others, num_processors=8)
    assert time_runs(machine.run, machine.clocks).is_quiet is is_quiet


def test_rounds_that_differ_were_disturbed_by_something() -> None:
    machine = Turned(slowness=_for_runs((6, 1.4), (1, 1.0)))
    timing = time_runs(machine.run, machine.clocks)
    assert not timing.is_quiet
    assert timing.seconds == pytest.approx(RUN_S)


def test_who_needs_the_processor_ends_it_at_once() -> None:
    machine = Turned()
    asked = iter([True, False])
    assert time_runs(machine.run, machine.clocks, lambda: next(asked)).seconds is None
    assert machine.num_runs <= 6


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """A file of its own, and what others take of the processors in percent, and the time, to be set."""
    now = {"busy": 5.0, "time": 1e9}
    monkeypatch.setattr(kernel_speeds, "_file", lambda: tmp_path / "speeds.json")
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: now["busy"])
    monkeypatch.setattr("time.time", lambda: now["time"])
    return now


def _samples(monkeypatch: pytest.MonkeyPatch, *samples: TypeSpeed) -> list[TensorType]:
    """Measuring gives these, one after the other; returns the list of what is asked for."""
    asked: list[TensorType] = []
    left = iter(samples)

    def measure(type: TensorType, may_go_on: Callable[[], bool]) -> TypeSpeed:
        asked.append(type)
        return replace(next(left), measured_at=time.time())

    monkeypatch.setattr(kernel_speeds, "measure_type", measure)
    return asked


def test_the_kernels_are_measured_and_kept(clock: dict[str, float], tmp_path: Path) -> None:
    assert known_speeds() is None
    assert needs_measuring()
    assert not look_at_machine(tmp_path / "absent").speeds.is_measured
    measured = measure_speeds([TensorType.Q8_0])
    if measured.is_measured:  # a machine that is quite busy says nothing
        assert measured.read_rate(TensorType.Q6_K) > 1e8
        assert measured.multiply_rate(TensorType.Q8_0) > 1e8
        assert known_speeds() == measured == look_at_machine(tmp_path).speeds


def test_a_damaged_file_counts_as_none(clock: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    _samples(monkeypatch, TypeSpeed(2e9, 3e9, 1))
    measure_speeds([TensorType.Q4_K])
    file = kernel_speeds._file()
    whole = file.read_text()
    assert known_speeds() == Speeds({TensorType.Q4_K: 2e9}, {TensorType.Q4_K: 3e9})
    damages = [whole.replace("machine", "x"), whole.replace("2000000000.0", "NaN"), whole.replace("num_", "x")]
    for damage in ("", "{", "[]", '{"format": 1}', *damages):
        file.write_text(damage)
        assert known_speeds() is None


def test_a_disturbed_figure_serves_until_a_quiet_one_and_never_replaces_a_quicker(
    clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    type = TensorType.Q4_K
    guess = guessed_speeds(num_physical_cores())
    steps = [
        (TypeSpeed(0.0, 0.0, 0), (guess.read_rate(type), guess.multiply_rate(type))),
        (TypeSpeed(2e9, 9e9, 0), (2e9, 9e9)),
        (TypeSpeed(3e9, 8e9, 0), (3e9, 9e9)),
        (TypeSpeed(0.0, 0.0, 0), (3e9, 9e9)),
        (TypeSpeed(5e9, 30e9, 1), (5e9, 30e9)),
    ]
    _samples(monkeypatch, *(sample for sample, _ in steps))
    for _, rates in steps:
        assert needs_measuring()
        speeds = measure_speeds([type])
        assert (speeds.read_rate(type), speeds.multiply_rate(type)) == rates
    assert known_speeds() == Speeds({type: 5e9}, {type: 30e9})


def test_a_busy_machine_is_left_alone(clock: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    clock["busy"] = 90.0
    assert not needs_measuring()
    clock["busy"] = 30.0
    assert needs_measuring()  # better than a guess
    _samples(monkeypatch, TypeSpeed(2e9, 9e9, 0))
    measure_speeds([TensorType.Q4_K])
    assert not needs_measuring()
    clock["busy"] = 5.0
    assert needs_measuring()


def test_beside_others_each_type_is_measured_once_and_then_left_for_a_quiet_time(
    clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, disturbed, nothing = TypeSpeed(2e9, 2e9, 1), TypeSpeed(1e9, 1e9, 0), TypeSpeed()
    first, second, third, *rest = MEASURED_TYPES
    asked = _samples(
        monkeypatch,
        *(quiet, disturbed, nothing),
        *(disturbed, disturbed, *[quiet] * len(rest)),
        *(disturbed, quiet, quiet),
    )
    measure_speeds()
    assert asked == [first, second, third]  # nothing can be said: it ends
    del asked[:]
    measure_speeds()
    assert asked == [second, third, *rest]  # better than nothing; and what was undisturbed has time
    del asked[:]
    measure_speeds()
    assert asked == [second]  # once more disturbed: the third has a figure
    del asked[:]
    measure_speeds()
    assert asked == [second, third]
    assert not needs_measuring()


def test_quiet_figures_are_taken_on_several_occasions_and_the_best_stays(
    clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another machine on the same processor takes, nothing here tells."""
    rates = [4e9, 6e9, 5e9]
    assert len(rates) == NUM_MEASUREMENTS
    _samples(monkeypatch, *(TypeSpeed(rate, rate, 1) for rate in rates for _ in MEASURED_TYPES))
    for _ in rates:
        assert needs_measuring()
        measure_speeds()
        assert not needs_measuring()  # not again so soon
        clock["time"] += AGAIN_AFTER_S + 1
    assert not needs_measuring()
    speeds = known_speeds()
    assert speeds is not None
    assert set(speeds.bytes_per_s.values()) == {6e9}


def test_a_clock_that_was_set_back_measures_again(clock: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    _samples(monkeypatch, *[TypeSpeed(1e9, 1e9, 1)] * len(MEASURED_TYPES))
    measure_speeds()
    clock["time"] -= 1e6
    assert needs_measuring()
    assert "num_quiet" in json.loads(kernel_speeds._file().read_text())["speeds"]["Q4_K"]


def test_a_measurement_that_was_broken_off_keeps_what_it_had(clock: dict[str, float]) -> None:
    assert not measure_speeds(may_go_on=lambda: False).is_measured
    assert known_speeds() is None
