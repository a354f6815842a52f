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
