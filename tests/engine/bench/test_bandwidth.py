"""The read kernel: it touches all bytes, at a rate a memory can have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.bench.bandwidth import _compile, _compile_straight, measure_bandwidth, measure_file_bandwidth


@pytest.mark.parametrize("make", [_compile, _compile_straight])
def test_the_kernel_reads_every_value(make: Callable[[], Callable[[Any], Any]]) -> None:
    kernel = make()
    values = np.zeros(64, np.uint64)
    for index in range(64):
        values[index] = 1 << index
    assert int(kernel(values)) == (1 << 64) - 1


def test_bandwidth_is_plausible() -> None:
    found = measure_bandwidth([1, 2], buffer_bytes=16 << 20)
    assert list(found) == [1, 2]
    assert all(0.05e9 < value < 5e12 for value in found.values())


def test_the_bandwidth_of_a_file_is_plausible(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes((1 << 20) + 5))
    found = measure_file_bandwidth([1, 2], path)
    assert list(found) == [1, 2]
    assert all(0.05e9 < value < 5e12 for value in found.values())
