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
