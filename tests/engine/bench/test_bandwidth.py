"""The read kernel: it touches all bytes, at a rate a memory can have."""

from __future__ import annotations

import numpy as np

from engine.bench.bandwidth import _compile, measure_bandwidth


def test_the_kernel_reads_every_value() -> None:
    kernel = _compile()
    values = np.zeros(64, np.uint64)
    for index in range(64):
        values[index] = 1 << index
    assert int(kernel(values)) == (1 << 64) - 1


def test_bandwidth_is_plausible() -> None:
    found = measure_bandwidth([1, 2], buffer_bytes=16 << 20)
    assert list(found) == [1, 2]
    assert all(0.05e9 < value < 5e12 for value in found.values())
