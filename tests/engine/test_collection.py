"""Python's search for garbage, paused."""

from __future__ import annotations

import gc

import pytest

from engine.collection import paused_collection


def test_it_goes_on_afterwards_whatever_happens() -> None:
    def fail() -> None:
        with paused_collection():
            assert not gc.isenabled()
            raise KeyError

    assert gc.isenabled()
    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_whoever_turned_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_of_two_that_overlap_the_last_ends_the_pause() -> None:
    """Whichever began first, as loads on two threads do."""
    for first in (0, 1):
        pauses = [paused_collection(), paused_collection()]
        for pause in pauses:
            pause.__enter__()
        pauses[first].__exit__(None, None, None)
        assert not gc.isenabled()
        pauses[1 - first].__exit__(None, None, None)
        assert gc.isenabled()
