"""Matmuls with float weights: F32, F16 and BF16, multiplied as float32 (activations are not quantised).

Few tokens: rows of weights where they lie, 16 values at a time. Many: the panel of ``gemm`` with float32 values,
[slice][16 rows], and the same tiles.
"""

from __future__ import annotations

from typing import Any

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.dequantize import FLOAT_LOADS
from engine.kernels.cpu.dot_tiles import store_tile, tile_floats, tile_zeros
from engine.kernels.cpu.float_panel import pack_values
from engine.kernels.cpu.formats import TOKEN_TILE
from engine.kernels.cpu.gemm import chunk_groups, finish_tile
from engine.kernels.cpu.operands import (
    MATMUL_ACCUMULATE,
    MATMUL_ACTIVATION,
    MATMUL_BIAS,
    MATMUL_COUNTER,
    MATMUL_OUT,
    MATMUL_OUT_STRIDE,
    MATMUL_ROW_BYTES,
    MATMUL_ROWS,
    MATMUL_WEIGHT,
    MATMUL_WIDTH,
)
from engine.kernels.cpu.simd import (
    F32X16,
    atomic_add,
    fma,
    inline,
    load_bf16x16,
    load_f16x16,
    load_f32,
    load_f32x16,
    load_i64,
    reduce_add,
    store_f32,
    zeros_f32x16,
)

_SLICE = 2048  # values of a row in one panel: 128 KiB for 16 rows
_PANEL_BYTES = 64 * _SLICE
_TILE_BYTES = 64 * TOKEN_TILE
_VECTOR_LOADS = {TensorType.F32: load_f32x16, TensorType.F16: load_f16x16, TensorType.BF16: load_bf16x16}


def make_float_matvec(tensor_type: TensorType) -> Any:
    """A thread's share of a MATMUL with few tokens (shape: ``matvec.Matvec``)."""
    load_one, value_bytes = FLOAT_LOADS[tensor_type]
    load_16 = _VECTOR_LOADS[tensor_type]

    @inline
    def dot_row(source: int, x: int, width: int) -> Any:
        first, second = zeros_f32x16(), zeros_f32x16()
        whole = width // 32 * 32
        for k in range(0, whole, 32):
            first = fma(load_16(source + value_bytes * k), load_f32x16(x + 4 * k), first)
            second = fma(load_16(source + value_bytes * (k + 16)), load_f32x16(x + 4 * k + 64), second)
        total = reduce_add(first + second)
        for k in range(whole, width):
            total += load_one(source + value_bytes * k) * load_f32(x + 4 * k)
        return total

    @inline
    def matvec(op: int, scratch: int, num_tokens: int, thread: int, num_threads: int) -> None:
        activation, weights = load_i64(op + 8 * MATMUL_ACTIVATION), load_i64(op + 8 * MATMUL_WEIGHT)
        rows, width = load_i64(op + 8 * MATMUL_ROWS), load_i64(op + 8 * MATMUL_WIDTH)
        out, stride = load_i64(op + 8 * MATMUL_OUT), load_i64(op + 8 * MATMUL_OUT_STRIDE)
        bias, row_bytes = load_i64(op + 8 * MATMUL_BIAS), load_i64(op + 8 * MATMUL_ROW_BYTES)
        accumulate, counter = load_i64(op + 8 * MATMUL_ACCUMULATE), load_i64(op + 8 * MATMUL_COUNTER)
        padded = (width + 15) // 16 * 16
        while True:
            first = atomic_add(counter, 1) * 16
            if first >= rows:
                break
            for row in range(first, min(first + 16, rows)):
                for token in range(num_tokens):
                    value = dot_row(weights + row_bytes * row, activation + 4 * padded * token, width)
                    target = out + 4 * (stride * token + row)
                    if bias != 0:
                        value += load_f32(bias + 4 * row)
                    if accumulate != 0:
                        value += load_f32(target)
                    store_f32(target, value)

    return matvec


def make_float_gemm(tensor_type: TensorType) -> Any:
    """A thread's share of a MATMUL with many tokens (shape: ``gemm.Gemm``)."""
    load_one, value_bytes = FLOAT_LOADS[tensor_type]
    zeros, add_k, store = tile_zeros(F32X16, TOKEN_TILE), tile_floats(TOKEN_TILE), store_tile(TOKEN_TILE)
    pack_line, line = pack_values(tensor_type), 64 // value_bytes

    @inline
    def pack(source: int, row_bytes: int, num_rows: int, width: int, panel: int) -> None:
        whole = width // line * line
        for k in range(0, whole, line):
            pack_line(source + value_bytes * k, row_bytes, num_rows - 1, panel + 64 * k)
        for row in range(num_rows):
            for k in range(whole, width):
                store_f32(panel + 64 * k + 4 * row, load_one(source + row_bytes * row + value_bytes * k))

    @inline
    def run_tile(panel: int, x: int, width: int, result: int) -> None:
        total = zeros()
        for _ in range(width):
            total = add_k(total, panel, x)
            panel += 64
            x += 4 * TOKEN_TILE
        store(total, result, 64)

    @inline
    def gemm(op: int, scratch: int, num_tokens: int, thread: int, num_threads: int) -> None:
        activation, weights = load_i64(op + 8 * MATMUL_ACTIVATION), load_i64(op + 8 * MATMUL_WEIGHT)
        rows, width = load_i64(op + 8 * MATMUL_ROWS), load_i64(op + 8 * MATMUL_WIDTH)
        row_bytes, counter = load_i64(op + 8 * MATMUL_ROW_BYTES), load_i64(op + 8 * MATMUL_COUNTER)
        padded = (width + 15) // 16 * 16
        num_tiles = (num_tokens + TOKEN_TILE - 1) // TOKEN_TILE
        num_groups = (rows + 15) // 16
        panels = scratch + _TILE_BYTES
        chunk = chunk_groups(num_groups, _PANEL_BYTES, num_threads)
        while True:
            first = atomic_add(counter, 1) * chunk
            if first >= num_groups:
                break
            last = min(first + chunk, num_groups)
            for start in range(0, width, _SLICE):
                count = min(_SLICE, width - start)
                for group in range(first, last):
                    source = weights + row_bytes * 16 * group + value_bytes * start
                    panel = panels + _PANEL_BYTES * (group - first)
                    pack(source, row_bytes, min(16, rows - 16 * group), count, panel)
                for tile in range(num_tiles):
                    for group in range(first, last):
                        x = activation + 4 * TOKEN_TILE * (padded * tile + start)
                        run_tile(panels + _PANEL_BYTES * (group - first), x, count, scratch)
                        finish_tile(op, scratch, 16 * group, tile * TOKEN_TILE, num_tokens, start == 0)

    return gemm
