from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from engine.kernels.cpu.kv_layout import kv_bytes_per_block
from engine.kernels.cpu.kv_store import KVStore
from engine.model.plan import KVLayer

PLAN = cast(Any, SimpleNamespace(kv_layers=(KVLayer(2, 16, 24), KVLayer(1, 32, 32, 8))))


@pytest.mark.parametrize("ids", [[3], [0, 1, 2], [5, 2, 3, 4, 9], [9, 8, 7], []])
def test_blocks_leave_and_come_back_as_they_were(ids: list[int]) -> None:
    store = KVStore(PLAN, 10)
    rng = np.random.default_rng(1)
    for array in (*store.keys, *store.values):
        array[...] = rng.integers(0, 256, array.shape)
    before = [array.copy() for array in (*store.keys, *store.values)]
    block_ids = np.array(ids, np.int32)
    data = np.empty((len(ids), kv_bytes_per_block(PLAN)), np.uint8)
    store.read_blocks(block_ids, data)
    targets = np.array([(block_id + 3) % 10 for block_id in ids], np.int32)
    store.write_blocks(targets, data)
    for old, new in zip(before, (*store.keys, *store.values), strict=True):
        assert (new[:, targets] == old[:, block_ids]).all()
        others = np.setdiff1d(np.arange(10), targets)
        assert (new[:, others] == old[:, others]).all()
