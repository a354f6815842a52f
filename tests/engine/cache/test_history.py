from __future__ import annotations

import numpy as np
import pytest

from engine.cache.history import MAX_BRANCHES, MAX_CONVERSATIONS, History
from engine.protocol import RereadReason

CHAT = list(range(40))


@pytest.fixture
def history() -> History:
    history = History()
    history.start_engine()
    history.remember("a", CHAT)
    return history


@pytest.mark.parametrize(
    ("prompt", "num_reused", "expected"),
    [
        ([*CHAT, 90, 91], 40, (RereadReason.NOTHING, 0)),
        (CHAT[:30], 29, (RereadReason.NOTHING, 0)),
        (CHAT[:30], 30, (RereadReason.NOTHING, 0)),
        ([*CHAT[:25], 90, 91], 25, (RereadReason.CHANGED, 0)),
        ([*CHAT, 90], 24, (RereadReason.EVICTED, 16)),
        ([*CHAT[:25], 90, 91], 10, (RereadReason.EVICTED, 15)),
        ([90, 91, 92], 0, (RereadReason.CHANGED, 0)),
        ([*CHAT[:25], 90, 91], 26, (RereadReason.NOTHING, 0)),
    ],
)
def test_the_reason(
    history: History, prompt: list[int], num_reused: int, expected: tuple[RereadReason, int]
) -> None:
    assert history.explain("a", prompt, num_reused) == expected


def test_an_unknown_conversation_is_read_for_the_first_time(history: History) -> None:
    assert history.explain("b", CHAT, 0) == (RereadReason.FIRST_TIME, 0)
    history.forget("a")
    history.forget("a")
    assert history.explain("a", CHAT, 0) == (RereadReason.FIRST_TIME, 0)


def test_a_new_engine_has_nothing_of_what_the_old_one_read(history: History) -> None:
    history.start_engine()
    assert history.branches("a") == []
    assert history.explain("a", [*CHAT, 90], 0) == (RereadReason.RELOADED, 40)
    history.remember("a", CHAT[:5])
    assert history.explain("a", [*CHAT, 90], 5) == (RereadReason.NOTHING, 0)


def test_branches_are_kept_newest_first_and_none_begins_another(history: History) -> None:
    branch = [*CHAT[:20], 90]
    history.remember("a", branch)
    history.remember("a", [*CHAT, 41])
    history.remember("a", CHAT[:10])
    assert [each.tolist() for each in history.branches("a")] == [[*CHAT, 41], branch]
    assert history.explain("a", [*branch, 91], 21) == (RereadReason.NOTHING, 0)


def test_only_so_much_is_remembered() -> None:
    history = History()
    for number in range(MAX_BRANCHES + 3):
        history.remember("a", [number])
    assert [int(np.asarray(each)[0]) for each in history.branches("a")] == [
        MAX_BRANCHES + 2 - number for number in range(MAX_BRANCHES)
    ]
    for number in range(MAX_CONVERSATIONS):
        history.remember(f"c{number}", [1])
    assert history.branches("a") == []


def test_turns_that_left_the_context_are_told_from_an_edit(history: History) -> None:
    """The prompt goes on differently both times; only what stays behind the dropped turns was read before."""
    system, turns = list(range(100, 110)), [[1000 * turn + n for n in range(20)] for turn in range(1, 6)]
    history.remember("c", [*system, *turns[0], *turns[1], *turns[2]])
    shifted = [*system, *turns[1], *turns[2], *turns[3]]
    assert history.explain("c", shifted, 10, num_dropped=2) == (RereadReason.CONTEXT_SHIFTED, 40)
    assert history.explain("c", [*system, *turns[4]], 10, num_dropped=6) == (RereadReason.CONTEXT_SHIFTED, 0)
    assert history.explain("c", [*system, 7, 8], 10) == (RereadReason.CHANGED, 0)
    history.remember("c", shifted, 2)
    assert history.explain("c", [*shifted, 7], 70, num_dropped=2) == (RereadReason.NOTHING, 0)
    edited = [*shifted[:60], *turns[4]]
    assert history.explain("c", edited, 60, num_dropped=2) == (RereadReason.CHANGED, 0)
