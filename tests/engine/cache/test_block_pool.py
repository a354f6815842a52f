from __future__ import annotations

import numpy as np
import pytest

from engine.cache.block_pool import BlockPool


def test_blocks_that_continue_a_block_are_its_neighbours() -> None:
    pool = BlockPool(64)
    first = pool.allocate(4)
    second = pool.allocate(4)
    assert first == [0, 1, 2, 3]
    assert second[0] > 8, "room is left behind the first for it to grow"
    assert pool.allocate(2, after=first[-1]) == [4, 5]
    assert pool.allocate(2, after=second[-1]) == [second[-1] + 1, second[-1] + 2]


def test_scattered_blocks_are_used_when_there_is_no_run() -> None:
    pool = BlockPool(8)
    pool.allocate(8)
    pool.release([1, 3, 6])
    assert sorted(pool.allocate(3)) == [1, 3, 6]


def test_too_many_blocks_are_refused_and_nothing_is_taken() -> None:
    pool = BlockPool(4)
    with pytest.raises(ValueError, match="5 blocks wanted, 4 free"):
        pool.allocate(5)
    assert pool.num_free == 4


def test_a_block_is_free_when_its_last_owner_releases_it() -> None:
    pool = BlockPool(4)
    (block,) = pool.allocate(1)
    pool.retain([block])
    pool.release([block])
    assert pool.num_free == 3
    pool.release([block])
    assert pool.num_free == 4
    with pytest.raises(AssertionError, match="free already"):
        pool.release([block])


def test_check_integrity_sees_a_lost_owner() -> None:
    pool = BlockPool(4)
    pool.allocate(1)
    pool.check_integrity(np.array([1, 0, 0, 0], dtype=np.int32))
    with pytest.raises(AssertionError, match="other owners"):
        pool.check_integrity(np.zeros(4, dtype=np.int32))
