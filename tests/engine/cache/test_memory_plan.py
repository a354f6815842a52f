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


def _states(available: float, state_bytes: int, **wishes: int) -> tuple[int, int, int]:
    plan = plan_memory(
        available_bytes=int(available * GB),
        weights_bytes=GB,
        block_bytes=BLOCK,
        trained_context_length=32_768,
        state_bytes=state_bytes,
        **wishes,
    )
    return plan.num_states, plan.checkpoint_bytes, plan.num_blocks


def test_recurrent_states_count_and_large_ones_are_few() -> None:
    assert _states(32, 0)[:2] == (0, 0)
    assert _states(32, 1_000_000)[:2] == (16, 256 << 20)
    num_states, checkpoint_bytes, _ = _states(8, 100_000_000)
    share = (7 * GB - (400 << 20)) // 8
    assert num_states == share // 100_000_000 < 16
    assert checkpoint_bytes == min(share, 800_000_000)
    without, with_states = _states(8, 0)[2], _states(8, 100_000_000)
    taken = with_states[0] * 100_000_000 + with_states[1]
    assert abs(without - with_states[2] - taken // 4 // BLOCK) <= 1


def test_a_model_whose_states_do_not_fit_is_refused() -> None:
    assert _states(2.8, 300_000_000)[:2] == (1, 600_000_000), "one to run, two to come back to"
    with pytest.raises(InsufficientMemoryError, match=r"needs 2\.3 GB of memory"):
        _states(2.2, 280_000_000)


def test_buffers_beyond_the_reserve_count() -> None:
    small, large = (_states(8, 0, work_bytes=size << 20)[2] for size in (200, 1200))
    assert small == _states(8, 0)[2]
    assert small - large == pytest.approx((1000 << 20) // 4 // BLOCK, abs=1)


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


def test_more_than_is_free_is_taken_where_that_is_wished() -> None:
    assert _plan(8, weights=9, takes_more=True) == (512, 33), "no more than it needs"
    assert _plan(2, context_length=30_000, takes_more=True)[0] == 30_000
    assert _plan(32, takes_more=True) == _plan(32), "where there is enough it changes nothing"
    assert _states(1, GB, takes_more=True)[0] == 1
    with pytest.raises(InsufficientMemoryError) as refused:
        _plan(8, weights=9)
    assert refused.value.can_load_anyway
    with pytest.raises(InsufficientMemoryError) as limited:
        _plan(32, context_length=8192, kv_bytes=BLOCK * 10, takes_more=True)
    assert not limited.value.can_load_anyway, "a limit that the person set is kept"
