from __future__ import annotations

from pathlib import Path

import pytest

from engine.scheduler import recurrent_states
from tests import tiny_models, tiny_models_second
from tests.engine.fake_backend import VOCAB_SIZE, FakeBackend
from tests.engine.random_chats import model_backends, run
from tests.golden_models import write_golden_model


@pytest.mark.parametrize(("seed", "num_blocks"), [(1, 18), (2, 24), (3, 300)])
def test_random_chats_on_the_fake_backend(seed: int, num_blocks: int) -> None:
    """18 blocks are the context and little more: nearly everything is evicted all the time."""
    counts = run(FakeBackend, VOCAB_SIZE, 200, seed, num_blocks)
    assert counts["reused"] > 1000
    assert counts["from the disk"] > 100


@pytest.mark.parametrize("name", ["llama", "gemma3", "granite_swa"])
def test_random_chats_on_tiny_models(name: str, tmp_path: Path) -> None:
    """Windows of 8 tokens among them, much shorter than what is reused."""
    module = tiny_models if name in tiny_models.RECIPES else tiny_models_second
    with model_backends(module.write_tiny_model(name, tmp_path), num_threads=1) as (make_backend, vocab_size):
        counts = run(make_backend, vocab_size, 40, 5, 20)
    assert counts["reused"] > 200


@pytest.mark.parametrize("name", ["qwen35", "lfm2moe", "mamba2"])
def test_random_chats_on_hybrids(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sequences side by side at most, states every 32 tokens, and states that come back from the disk."""
    monkeypatch.setattr(recurrent_states, "CHECKPOINT_INTERVAL", 32)
    path = write_golden_model(name, tmp_path)
    with model_backends(path, num_threads=1, num_states=2) as (make_backend, vocab_size):
        counts = run(make_backend, vocab_size, 50, 6, 20)
    assert counts["reused"] > 200
    assert counts["from the disk"] > 50
