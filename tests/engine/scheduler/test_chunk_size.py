from __future__ import annotations

from engine.scheduler.chunk_size import ChunkSize


def _settle(tokens_per_second: float, overhead_s: float = 0.0) -> float:
    """Seconds that a step takes once the size has settled."""
    chunk = ChunkSize(128, 8, 512)
    seconds = 0.0
    for _ in range(20):
        seconds = overhead_s + chunk.num_tokens / tokens_per_second
        chunk.observe(chunk.num_tokens, seconds, 0.08)
    return seconds


def test_steps_settle_near_their_target() -> None:
    for speed in (200, 700, 1500, 5000):
        assert 0.065 <= _settle(speed) <= 0.081
        assert 0.055 <= _settle(speed, overhead_s=0.02) <= 0.081


def test_one_slow_step_costs_half_of_what_it_says() -> None:
    chunk = ChunkSize(256, 32, 512)
    chunk.observe(256, 0.12, 0.08)
    assert chunk.num_tokens == 208


def test_a_step_far_too_slow_is_believed_at_once() -> None:
    chunk = ChunkSize(256, 32, 512)
    chunk.observe(256, 0.64, 0.08)
    assert chunk.num_tokens == 32


def test_a_short_step_says_only_that_it_was_too_slow() -> None:
    chunk = ChunkSize(256, 32, 512)
    chunk.observe(64, 0.03, 0.08)
    assert chunk.num_tokens == 256
    chunk.observe(64, 0.1, 0.08)
    assert chunk.num_tokens == 144


def test_bounds_hold() -> None:
    assert _settle(10) == 8 / 10
    assert _settle(1e6) == 512 / 1e6
    small = ChunkSize(128, 32, 16)
    small.observe(16, 1.0, 0.08)
    assert small.num_tokens == 16, "a backend that takes no more"


def test_a_step_that_did_not_use_its_budget_raises_nothing() -> None:
    chunk = ChunkSize(128, 8, 512)
    chunk.observe(5, 0.001, 0.08)
    assert chunk.num_tokens == 128
