from __future__ import annotations

from pathlib import Path

import pytest

from engine import conversations
from engine.cache import snapshot_store
from tests.engine.random_long_chats import run_fake, run_model
from tests.tiny_models import write_tiny_model


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "REST_S", 0.0)
    monkeypatch.setattr(snapshot_store, "MIN_FREE_BYTES", 0)


@pytest.mark.parametrize("seed", [1, 2])
def test_chats_that_outgrow_their_context_on_the_fake_model(seed: int) -> None:
    """9 blocks are the context and one to copy from."""
    counts = run_fake(60, seed, 9)
    assert counts["reused"] > 500
    assert counts["turns left before the answer"] > 10
    assert counts["turns left during the answer"] > 1


def test_chats_that_outgrow_their_context_beside_rows_of_a_table(tmp_path: Path) -> None:
    counts = run_model(write_tiny_model("gemma3", tmp_path), 30, 3, 9)
    assert counts["rows"] > 5
    assert counts["turns left before the answer"] > 5
