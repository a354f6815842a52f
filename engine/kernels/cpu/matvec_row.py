"""What the loops over rows of ``matvec`` share: where a row is read, and how its result is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.kernels.cpu.operands import (
    MATMUL_ACCUMULATE,
    MATMUL_BIAS,
    MATMUL_OUT,
    MATMUL_OUT_STRIDE,
    MATMUL_ROW_BYTES,
    MATMUL_ROWS,
    MATMUL_WEIGHT,
)
from engine.kernels.cpu.simd import inline, load_f32, load_i64, load_u8, prefetch, store_f32, store_i8

PADDING_ROW_BYTES = 128 << 10  # scratch for the copy of a row at the end of the tensor
_LINE_BYTES = 64


@inline
def row_source(op: int, row: int, needed: int, scratch: int) -> Any:
    """Address of a row of which ``needed`` bytes may be read: a padded copy where that would leave the tensor."""
    weights, row_bytes = load_i64(op + 8 * MATMUL_WEIGHT), load_i64(op + 8 * MATMUL_ROW_BYTES)
    source = weights + row_bytes * row
    if source + needed > weights + row_bytes * load_i64(op + 8 * MATMUL_ROWS):
        for index in range(row_bytes):
            store_i8(scratch + index, np.int8(load_u8(source + index)))
        for index in range(row_bytes, needed):
            store_i8(scratch + index, np.int8(0))
        source = scratch
    return source


@inline
def prefetch_bytes(address: int, num_bytes: int) -> None:
    """Fetch the lines that begin there, whether or not they exist."""
    for offset in range(0, num_bytes, _LINE_BYTES):
        prefetch(address + offset)


@inline
def write_result(op: int, row: int, token: int, value: Any) -> None:
    """Write a row's result for a token: with the bias, or what was there."""
    target = load_i64(op + 8 * MATMUL_OUT) + 4 * (load_i64(op + 8 * MATMUL_OUT_STRIDE) * token + row)
    bias = load_i64(op + 8 * MATMUL_BIAS)
    if bias != 0:
        value += load_f32(bias + 4 * row)
    if load_i64(op + 8 * MATMUL_ACCUMULATE) != 0:
        value += load_f32(target)
    store_f32(target, value)
