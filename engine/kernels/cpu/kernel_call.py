"""Calls a kernel on arrays and numbers, outside any plan; knows no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from engine.kernels.cpu.jit import Kernel


def run_kernel(kernel: Kernel, *operands: npt.NDArray[Any] | int) -> int:
    """Run a kernel on contiguous arrays and numbers without the GIL; returns what it writes behind them."""
    row = np.zeros(len(operands) + 1, np.int64)
    for slot, operand in enumerate(operands):
        if isinstance(operand, int):
            row[slot] = operand
        else:
            assert operand.flags.c_contiguous
            row[slot] = operand.ctypes.data
    kernel(row.ctypes.data, 0)
    return int(row[-1])
