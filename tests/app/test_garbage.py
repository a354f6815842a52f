from __future__ import annotations

import gc

import pytest
from pytestqt.qtbot import QtBot

from app import garbage
from app.garbage import GarbageTurns


class _Ring:
    """Garbage that only a collection finds."""

    num_gone = 0

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        _Ring.num_gone += 1


def test_what_is_old_is_collected_when_nothing_is_computed(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "EVERY_MS", 5)
    monkeypatch.setattr(_Ring, "num_gone", 0)
    before, is_busy = gc.get_threshold(), True
    ring = _Ring()
    gc.collect()  # it is old now
    turns = GarbageTurns(lambda: is_busy)
    try:
        assert gc.get_threshold()[:2] == before[:2]
        assert gc.get_threshold()[2] > 1000 * before[2], "not in the midst of something"
        del ring
        qtbot.waitUntil(lambda: turns._num_put_off > 2)
        assert not _Ring.num_gone
        is_busy = False
        qtbot.waitUntil(lambda: _Ring.num_gone == 1)
    finally:
        turns.close()
    assert gc.get_threshold() == before


def test_it_is_not_put_off_for_ever(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "EVERY_MS", 1)
    monkeypatch.setattr(_Ring, "num_gone", 0)
    turns = GarbageTurns(lambda: True)
    try:
        _Ring()
        qtbot.waitUntil(lambda: _Ring.num_gone == 1)
    finally:
        turns.close()
