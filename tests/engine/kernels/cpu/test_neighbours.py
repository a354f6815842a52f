from __future__ import annotations

from engine.kernels.cpu.neighbours import TeamSize


def run(size: TeamSize, seconds: float, now: float, left_of: dict[int, int]) -> list[int]:
    """Steps of 10 ms for some time; returns how many threads each began with."""
    begun = []
    for index in range(round(seconds * 100)):
        begun.append(size.begin(now + index / 100))
        size.end(now + index / 100 + 0.01, left_of.get(begun[-1], begun[-1]))
    return begun


def test_alone_all_threads_take_part() -> None:
    assert set(run(TeamSize(4), 1, 0.0, {})) == {4}


def test_beside_a_neighbour_one_fewer_with_rare_tries() -> None:
    begun = run(TeamSize(4), 60, 0.0, {4: 3})
    assert begun[0] == 4
    assert set(begun) == {3, 4}
    assert 15 < begun.count(4) < 40  # the tries grow rarer, up to one in 3.2 s


def test_two_neighbours_cost_two_threads() -> None:
    begun = run(TeamSize(4), 10, 0.0, {4: 3, 3: 2})
    assert begun[:3] == [4, 3, 2]
    assert begun.count(2) > 900


def test_when_the_neighbour_ends_all_threads_come_back() -> None:
    size = TeamSize(2)
    run(size, 20, 0.0, {2: 1})
    begun = run(size, 5, 20.0, {})
    assert begun[400:] == [2] * 100
    size.end(26.0, 1)  # a new neighbour: the first try comes soon
    assert size.begin(26.11) == 2


def test_steps_are_judged_together_but_a_try_by_itself() -> None:
    size = TeamSize(2)
    assert [size.begin(0.0), size.counts_anew, size.patience_ns] == [2, True, 40_000_000]
    size.end(0.01, 2)
    assert [size.begin(0.02), size.counts_anew] == [2, False]
    size.end(0.03, 1)
    assert [size.begin(0.04), size.counts_anew, size.patience_ns] == [1, False, 40_000_000]
    size.end(0.05, 1)
    assert [size.begin(0.6), size.counts_anew, size.patience_ns] == [2, True, 4_000_000]
    size.end(0.61, 2)
    assert [size.begin(0.62), size.counts_anew, size.patience_ns] == [2, True, 40_000_000]


def test_old_lateness_is_forgotten() -> None:
    size = TeamSize(2)
    size.begin(0.0)
    size.end(0.1, 2)
    size.begin(0.1)
    assert not size.counts_anew
    size.end(0.3, 2)
    size.begin(0.3)
    assert size.counts_anew
