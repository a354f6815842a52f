"""What the memory gives: bytes read a second by a plain kernel over a buffer far larger than the caches.

And what a mapped file gives to a thread that reads its part from front to back, as decoding does with weights:
less, for its pages are small, and one run of addresses leaves half of what fetches ahead idle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

BUFFER_BYTES = 256 << 20
_NUM_PASSES = 6


def measure_bandwidth(thread_counts: list[int], buffer_bytes: int = BUFFER_BYTES) -> dict[int, float]:
    """Bytes a second by number of threads, the best of several passes: a neighbour can only take away."""
    num_bytes = min(buffer_bytes, psutil.virtual_memory().available // 4)
    values = np.ones(num_bytes // 8, np.uint64)
    kernel = _compile()
    kernel(values[:64])
    return {count: max(_pass(kernel, values, count) for _ in range(_NUM_PASSES)) for count in thread_counts}


def measure_file_bandwidth(thread_counts: list[int], path: Path) -> dict[int, float]:
    """Bytes a second of the mapped file, which is in memory afterwards, by number of threads; as above."""
    mapped = np.memmap(path, np.uint8, "r")
    values = np.asarray(mapped[: mapped.size // 8 * 8]).view(np.uint64)
    kernel = _compile_straight()
    kernel(values)
    return {count: max(_pass(kernel, values, count) for _ in range(_NUM_PASSES)) for count in thread_counts}


def _compile_straight() -> Callable[[Any], Any]:
    from numba import njit, types

    @njit(types.uint64(types.Array(types.uint64, 1, "C", readonly=True)), nogil=True)
    def read(values: Any) -> Any:  # pragma: no cover - machine code
        a = np.uint64(0)
        for i in range(values.size):
            a ^= values[i]
        return a

    compiled: Callable[[Any], Any] = read
    return compiled


def _compile() -> Callable[[Any], Any]:
    from numba import njit

    @njit("uint64(uint64[::1])", nogil=True)
    def read(values: Any) -> Any:  # pragma: no cover - machine code
        # Four streams: one alone leaves the prefetchers of a core half idle.
        quarter = values.size // 4
        a = b = c = d = np.uint64(0)
        for i in range(quarter):
            a ^= values[i]
            b ^= values[i + quarter]
            c ^= values[i + 2 * quarter]
            d ^= values[i + 3 * quarter]
        return a ^ b ^ c ^ d

    compiled: Callable[[Any], Any] = read
    return compiled


def _pass(kernel: Callable[[Any], Any], values: Any, num_threads: int) -> float:
    size = values.size // num_threads
    threads = [
        threading.Thread(target=kernel, args=(values[index * size : (index + 1) * size],))
        for index in range(num_threads)
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return float(size * num_threads * 8 / (time.perf_counter() - started))
