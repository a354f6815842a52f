"""Busy processes beside a measurement: one thread each, doing nothing but taking a core."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

# A neighbour ends when its standard input closes, so that none outlives a benchmark that was killed.
_SPIN = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""
_SETTLE_S = 0.2


@contextlib.contextmanager
def busy_neighbours(count: int) -> Iterator[None]:
    """Keep ``count`` processes busy for the length of the block."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen([sys.executable, "-S", "-c", _SPIN], stdin=subprocess.PIPE))
        if processes:
            time.sleep(_SETTLE_S)
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def fair_share(num_cores: int, num_threads: int, num_neighbours: int) -> float:
    """Part of its speed alone that an engine of ``num_threads`` keeps when all runnable threads get equal time."""
    return min(1.0, num_cores / (num_threads + num_neighbours))
