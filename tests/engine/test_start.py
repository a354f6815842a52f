"""What the first import of the engine brings with it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

VARIABLE = "OPENBLAS_NUM_THREADS"


@pytest.mark.parametrize(("wished", "expected"), [("", "1"), ("3", "3")])
def test_numpy_starts_threads_only_for_who_wants_some(wished: str, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {VARIABLE: wished} if wished else {}
    code = f"import engine, numpy, os, psutil; print(os.environ['{VARIABLE}'], psutil.Process().num_threads())"
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    value, num_threads = told.stdout.split()
    assert value == expected
    assert int(num_threads) == 1 or wished
