from __future__ import annotations

import pytest

from engine.cache.memory_plan import plan_memory
from engine.errors import InsufficientMemoryError, InvalidParameterError

GB = 1_000_000_000
BLOCK = 1_000_000  # bytes a block


def _plan(available: float, weights: float = 1, **wishes: int) -> tuple[int, int]:
    plan = plan_memory(
        available_bytes=int(available * GB),
        weights_bytes=int(weights * GB),
        block_bytes=BLOCK,
        trained_context_length=wishes.pop("trained", 32_768),
        **wishes,
    )
    return plan.context_length, plan.num_blocks


def test_a_roomy_machine_gets_the_default_context_and_room_for_other_chats() -> None:
    context_length, num_blocks = _plan(32)
    assert context_length == 8192
    assert num_blocks == (4 << 30) // BLOCK, "at most 4 GB unless more is allowed"
    assert _plan(10)[1] == (9 * GB - (400 << 20)) // 4 // BLOCK, "a quarter of what is left"


def test_the_trained_length_bounds_the_context() -> None:
    assert _plan(32, trained=2048)[0] == 2048
    assert _plan(32, trained=2048, context_length=100_000)[0] == 2048


def test_a_wish_is_honoured() -> None:
    context_length, num_blocks = _plan(32, context_length=32_768)
    assert context_length == 32_768
    assert num_blocks >= 2049
    assert _plan(32, kv_bytes=BLOCK * 700) == (8192, 700)


def test_a_short_machine_gets_a_shorter_default() -> None:
    context_length, num_blocks = _plan(1.6)
    assert 512 <= context_length < 8192
    assert context_length <= (num_blocks - 1) * 16
    assert num_blocks * BLOCK <= 0.2 * GB


def test_a_model_that_does_not_fit_is_refused_with_numbers() -> None:
    with pytest.raises(InsufficientMemoryError, match=r"needs 9\.5 GB of memory and 8\.0 GB is free"):
        _plan(8, weights=9)


def test_a_context_that_does_not_fit_is_refused_with_the_largest_that_does() -> None:
    with pytest.raises(InsufficientMemoryError, match=r"30,000 tokens.*at most ([\d,]+) tokens") as refused:
        _plan(2, context_length=30_000)
    largest = int(str(refused.value).split("at most ")[1].split(" ")[0].replace(",", ""))
    assert _plan(2, context_length=largest)[0] == largest
    with pytest.raises(InsufficientMemoryError):
        _plan(2, context_length=largest + 1)


def test_negative_wishes_are_refused() -> None:
    with pytest.raises(InvalidParameterError):
        _plan(32, context_length=-1)


def test_the_limit_of_the_person_bounds_the_cache() -> None:
    assert _plan(32, kv_bytes=20 * GB)[1] == 20_000, "more than the default, too"
    context_length, num_blocks = _plan(32, kv_bytes=BLOCK * 100)
    assert (context_length, num_blocks) == (99 * 16, 100), "a default context is made to fit"
    assert _plan(2, kv_bytes=5 * GB)[1] * BLOCK < 0.6 * GB, "but never more than is free"


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        (
            {"context_length": 4096, "kv_bytes": 100 * BLOCK},
            "A context of 4,096 tokens needs 257.0 MB of memory for what has been read and 100.0 MB is allowed; "
            "allow more, or choose a context of at most 1,584 tokens.",
        ),
        (
            {"kv_bytes": 20 * BLOCK},
            "A context of 512 tokens needs 33.0 MB of memory for what has been read and 20.0 MB is allowed; "
            "allow more, or choose a context of at most 304 tokens.",
        ),
        (
            {"kv_bytes": 1000},
            "Even the shortest context needs 2.0 MB of memory for what has been read and 0.0 MB is allowed; "
            "allow at least 33.0 MB.",
        ),
    ],
)
def test_a_limit_that_is_too_small_is_refused_with_numbers(wishes: dict[str, int], sentence: str) -> None:
    with pytest.raises(InsufficientMemoryError) as refused:
        _plan(32, **wishes)
    assert str(refused.value) == sentence
