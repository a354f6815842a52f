"""Matmuls with one matrix of many: an expert's for its pairs of tokens, a head's for its part of each row.

Each is an ordinary matmul of few or many rows, whose operands a thread writes on its own stack; threads share out
matrices and blocks of their rows, each of which one thread computes alone. Only the matrices of experts that have
pairs are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.formats import ActivationFormat, activation_format
from engine.kernels.cpu.layouts import (
    TABLE_ACTIVE,
    TABLE_COUNTS,
    TABLE_NUM_ACTIVE,
    TABLE_STARTS,
    TABLE_TILE_STARTS,
)
from engine.kernels.cpu.matmul import matmul_functions
from engine.kernels.cpu.operands import (
    EXPERT_BLOCK_ROWS,
    EXPERT_BYTES,
    EXPERT_QUANTIZE_TABLE,
    EXPERT_QUANTIZE_UNIT,
    EXPERT_ROW_UNIT,
    EXPERT_TABLE,
    HEAD_BYTES,
    HEAD_HEADS,
    HEAD_OUT_HEAD,
    HEAD_PIECE,
    HEAD_ROW_UNIT,
    HEAD_X,
    HEAD_X_HEAD,
    HEAD_X_ROW,
    MATMUL_ACCUMULATE,
    MATMUL_ACTIVATION,
    MATMUL_BIAS,
    MATMUL_COUNTER,
    MATMUL_OUT,
    MATMUL_OUT_STRIDE,
    MATMUL_ROW_BYTES,
    MATMUL_ROWS,
    MATMUL_SLOTS,
    MATMUL_WEIGHT,
    MATMUL_WIDTH,
    QUANTIZE_ACTIVATION,
    QUANTIZE_WIDTH,
    QUANTIZE_X,
)
from engine.kernels.cpu.quantize import few_rows, quantize_float32_rows, quantize_int8_rows
from engine.kernels.cpu.rows import load_part, store_part
from engine.kernels.cpu.simd import atomic_add, inline, load_i32, load_i64, store_i64
from engine.kernels.cpu.step_state import NUM_TOKENS, ROWS_TOKENS, SCRATCH, SCRATCH_BYTES
from engine.kernels.cpu.units import stack_bytes

Kernel = Callable[[int, int, int, int], None]

SECOND_HALF = 1 << 20  # of a thread's scratch; matmuls use the first
_COUNTER = MATMUL_SLOTS  # on the stack, behind the operands
_quantize = {
    ActivationFormat.INT8: quantize_int8_rows,
    ActivationFormat.FLOAT32: quantize_float32_rows,
}


@inline
def entry(table: int, array: int, index: int) -> Any:
    """An int32 of one of the routing table's arrays, as an int64."""
    return np.int64(load_i32(load_i64(table + array * 8) + index * 4))


@inline
def begin_row(op: int, row: int) -> None:
    """The operands that are the same for all matrices, and a counter of the row's own."""
    store_i64(row + 8 * MATMUL_WIDTH, load_i64(op + 8 * MATMUL_WIDTH))
    store_i64(row + 8 * MATMUL_ROW_BYTES, load_i64(op + 8 * MATMUL_ROW_BYTES))
    store_i64(row + 8 * MATMUL_OUT_STRIDE, load_i64(op + 8 * MATMUL_OUT_STRIDE))
    store_i64(row + 8 * MATMUL_ACCUMULATE, 0)
    store_i64(row + 8 * MATMUL_COUNTER, row + 8 * _COUNTER)


def expert_quantize_kernel(activation: ActivationFormat) -> Kernel:
    """Makes the kernel that quantises each expert's rows; the threads share out the work within each."""
    quantize = _quantize[activation]

    def expert_quantize(op: int, step: int, thread: int, num_threads: int) -> None:
        table, width = load_i64(op + 8 * EXPERT_QUANTIZE_TABLE), load_i64(op + 8 * QUANTIZE_WIDTH)
        few = few_rows(step, ROWS_TOKENS)
        row = stack_bytes()
        store_i64(row + 8 * QUANTIZE_WIDTH, width)
        for index in range(load_i64(table + 8 * TABLE_NUM_ACTIVE)):
            expert = entry(table, TABLE_ACTIVE, index)
            place, tile = entry(table, TABLE_STARTS, expert), entry(table, TABLE_TILE_STARTS, expert)
            store_i64(row + 8 * QUANTIZE_X, load_i64(op + 8 * QUANTIZE_X) + 4 * width * place)
            target = load_i64(op + 8 * QUANTIZE_ACTIVATION) + load_i64(op + 8 * EXPERT_QUANTIZE_UNIT) * tile
            store_i64(row + 8 * QUANTIZE_ACTIVATION, target)
            quantize(row, entry(table, TABLE_COUNTS, expert), few, thread, num_threads)

    expert_quantize.__name__ = f"expert_quantize_{activation.name.lower()}"
    return expert_quantize


def expert_matmul_kernel(tensor_type: TensorType) -> Kernel:
    """Makes the kernel of a matmul with the matrices of experts; items of work are blocks of an expert's rows."""
    matvec, gemm = matmul_functions(tensor_type)

    def expert_matmul(op: int, step: int, thread: int, num_threads: int) -> None:
        scratch = load_i64(step + 8 * SCRATCH) + thread * load_i64(step + 8 * SCRATCH_BYTES)
        table, counter = load_i64(op + 8 * EXPERT_TABLE), load_i64(op + 8 * MATMUL_COUNTER)
        rows, block_rows = load_i64(op + 8 * MATMUL_ROWS), load_i64(op + 8 * EXPERT_BLOCK_ROWS)
        blocks = (rows + block_rows - 1) // block_rows
        num_items = load_i64(table + 8 * TABLE_NUM_ACTIVE) * blocks
        few = few_rows(step, ROWS_TOKENS)
        row = stack_bytes()
        begin_row(op, row)
        while True:
            item = atomic_add(counter, 1)
            if item >= num_items:
                break
            expert, first = entry(table, TABLE_ACTIVE, item // blocks), item % blocks * block_rows
            place, tile = entry(table, TABLE_STARTS, expert), entry(table, TABLE_TILE_STARTS, expert)
            weight = load_i64(op + 8 * MATMUL_WEIGHT) + load_i64(op + 8 * EXPERT_BYTES) * expert
            out = load_i64(op + 8 * MATMUL_OUT) + 4 * (load_i64(op + 8 * MATMUL_OUT_STRIDE) * place + first)
            bias = load_i64(op + 8 * MATMUL_BIAS)
            if bias != 0:
                bias += 4 * (rows * expert + first)
            activation = load_i64(op + 8 * MATMUL_ACTIVATION) + load_i64(op + 8 * EXPERT_ROW_UNIT) * tile
            store_i64(row + 8 * MATMUL_ACTIVATION, activation)
            store_i64(row + 8 * MATMUL_WEIGHT, weight + load_i64(op + 8 * MATMUL_ROW_BYTES) * first)
            store_i64(row + 8 * MATMUL_OUT, out)
            store_i64(row + 8 * MATMUL_ROWS, min(block_rows, rows - first))
            store_i64(row + 8 * MATMUL_BIAS, bias)
            store_i64(row + 8 * _COUNTER, 0)
            count = entry(table, TABLE_COUNTS, expert)
            if count <= few:
                matvec(row, scratch, count, 0, 1)
            else:
                gemm(row, scratch, count, 0, 1)

    expert_matmul.__name__ = f"expert_matmul_{tensor_type.name.lower()}"
    return expert_matmul


def head_matmul_kernel(tensor_type: TensorType) -> Kernel:
    """Makes the kernel of a matmul with each head's own matrix; items of work are a head and some tokens."""
    matvec, gemm = matmul_functions(tensor_type)
    quantize = _quantize[activation_format(tensor_type)]

    def head_matmul(op: int, step: int, thread: int, num_threads: int) -> None:
        scratch = load_i64(step + 8 * SCRATCH) + thread * load_i64(step + 8 * SCRATCH_BYTES)
        counter, heads = load_i64(op + 8 * MATMUL_COUNTER), load_i64(op + 8 * HEAD_HEADS)
        num_tokens, piece = load_i64(step + 8 * NUM_TOKENS), load_i64(op + 8 * HEAD_PIECE)
        width, x_row = load_i64(op + 8 * MATMUL_WIDTH), load_i64(op + 8 * HEAD_X_ROW)
        pieces = (num_tokens + piece - 1) // piece
        few = few_rows(step, ROWS_TOKENS)
        activation = scratch + SECOND_HALF
        copied = activation + load_i64(op + 8 * HEAD_ROW_UNIT) * piece
        row, quantize_row = stack_bytes(), stack_bytes()
        begin_row(op, row)
        store_i64(row + 8 * MATMUL_ACTIVATION, activation)
        store_i64(row + 8 * MATMUL_ROWS, load_i64(op + 8 * MATMUL_ROWS))
        store_i64(row + 8 * MATMUL_BIAS, 0)
        store_i64(quantize_row + 8 * QUANTIZE_X, copied)
        store_i64(quantize_row + 8 * QUANTIZE_ACTIVATION, activation)
        store_i64(quantize_row + 8 * QUANTIZE_WIDTH, width)
        while True:
            item = atomic_add(counter, 1)
            if item >= heads * pieces:
                break
            head, first = item // pieces, item % pieces * piece
            count = min(piece, num_tokens - first)
            x = load_i64(op + 8 * HEAD_X) + 4 * (first * x_row + head * load_i64(op + 8 * HEAD_X_HEAD))
            for token in range(count):
                for i in range(0, width, 16):
                    value = load_part(x + 4 * (token * x_row + i), width - i)
                    store_part(copied + 4 * (token * width + i), value, width - i)
            quantize(quantize_row, count, few, 0, 1)
            out = load_i64(op + 8 * MATMUL_OUT) + 4 * head * load_i64(op + 8 * HEAD_OUT_HEAD)
            store_i64(row + 8 * MATMUL_OUT, out + 4 * first * load_i64(op + 8 * MATMUL_OUT_STRIDE))
            weight = load_i64(op + 8 * MATMUL_WEIGHT) + load_i64(op + 8 * HEAD_BYTES) * head
            store_i64(row + 8 * MATMUL_WEIGHT, weight)
            store_i64(row + 8 * _COUNTER, 0)
            if count <= few:
                matvec(row, scratch, count, 0, 1)
            else:
                gemm(row, scratch, count, 0, 1)

    head_matmul.__name__ = f"head_matmul_{tensor_type.name.lower()}"
    return head_matmul
