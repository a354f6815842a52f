from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.chat.conversation import MessageView
from app.chat.finder import Finder, Hit
from app.chat.found_text import wanted
from app.storage.records import MessageRecord
from engine.protocol import Role


def _views(*texts: str) -> list[MessageView]:
    roles = (Role.USER, Role.ASSISTANT)
    return [
        MessageView(MessageRecord(f"m{n}", "c", None, roles[n % 2], text), 0, 1) for n, text in enumerate(texts)
    ]


@pytest.fixture
def arrived() -> list[Hit]:
    return []


@pytest.fixture
def finder(qtbot: QtBot, arrived: list[Hit]) -> Finder:
    made = Finder()
    made.arrived.connect(arrived.append)
    return made


def test_hits_are_counted_and_gone_through_round_the_ends(
    finder: Finder, arrived: list[Hit], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.chat.finder.TURN_S", 0.0)
    views = _views("a tea", "tea **te**a\n\ntea", "no", "TEA")
    finder.look_for(wanted("tea"), views, "m2")
    finder.step(1)  # asked for before all are counted: done then
    qtbot.waitUntil(lambda: finder.is_done)
    assert finder.total == 5
    assert arrived == [Hit("m3", 0), Hit("m0", 0)], "first the nearest from where the person reads"
    assert finder.position == 1
    for _ in range(5):
        finder.step(1)
    assert arrived[2:] == [Hit("m1", 0), Hit("m1", 1), Hit("m1", 2), Hit("m3", 0), Hit("m0", 0)]
    finder.step(-1)
    assert finder.position == 5


def test_the_nearest_hit_may_be_further_up(finder: Finder, arrived: list[Hit], qtbot: QtBot) -> None:
    finder.look_for(wanted("tea"), _views("tea", "tea and tea", "no", "no"), "m3")
    qtbot.waitUntil(lambda: finder.is_done)
    assert arrived == [Hit("m1", 1)]


def test_what_streams_is_counted_and_moves_nobody(finder: Finder, arrived: list[Hit], qtbot: QtBot) -> None:
    views = _views("tea", "tea")
    finder.look_for(wanted("tea"), views)
    qtbot.waitUntil(lambda: finder.is_done)
    finder.refresh(_views("tea", "tea and more tea"))
    qtbot.waitUntil(lambda: finder.is_done)
    assert (finder.position, finder.total) == (1, 3)
    assert len(arrived) == 1
    finder.refresh(_views("tea")[1:])
    assert (finder.current, finder.total) == (None, 0)
    finder.look_for(wanted("milk"), views)
    qtbot.waitUntil(lambda: finder.is_done)
    assert (finder.position, finder.total) == (0, 0)
    finder.step(1)
    assert len(arrived) == 1
