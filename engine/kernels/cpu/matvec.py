"""Matmuls of up to MATVEC_TOKENS tokens: one pass over the weights where they lie.

Owns how threads share out rows. What a thread does with its rows depends on the processor: ``matvec_lanes`` where
products of bytes are summed in 32 bits, ``matvec_pairs`` for AVX2, where they are not. What a type adds is how its
weights are read (see ``units``). A token gets the same bits alone and among others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.isa import ISA, InstructionSet
from engine.kernels.cpu.matvec_lanes import lane_rows
from engine.kernels.cpu.matvec_pairs import rows_of_one, rows_of_several
from engine.kernels.cpu.operands import MATMUL_COUNTER, MATMUL_ROWS
from engine.kernels.cpu.simd import atomic_add, inline, load_i64
from engine.kernels.cpu.units import Unit

_WHOLE_ROWS = 8  # that may share a unit, see ``pair_tail``: a chunk is a multiple

Matvec = Callable[[int, int, int, int, int], None]  # (op, scratch, num_tokens, thread, num_threads)


@inline
def large_chunk(rows: int, num_threads: int) -> Any:
    """Rows of each thread's first chunk, three quarters of its share.

    A long run of rows lets the processor fetch ahead, where alternating small ones cost a quarter of the bandwidth.
    """
    return rows * 3 // (4 * num_threads) // _WHOLE_ROWS * _WHOLE_ROWS


@inline
def small_chunk(rows: int, num_threads: int) -> Any:
    """Rows of the later chunks, which even out threads of unequal speed."""
    rest = rows - large_chunk(rows, num_threads) * num_threads
    return -(-rest // (2 * num_threads * _WHOLE_ROWS)) * _WHOLE_ROWS


def make_matvec(unit: Unit, tensor_type: TensorType) -> Matvec:
    """The function that computes a thread's share of a MATMUL with few tokens."""
    if ISA is InstructionSet.AVX2:
        one, several = rows_of_one(unit, tensor_type), rows_of_several(unit, tensor_type)
    else:
        one, several = lane_rows(unit)

    def matvec(op: int, scratch: int, num_tokens: int, thread: int, num_threads: int) -> None:
        rows, counter = load_i64(op + 8 * MATMUL_ROWS), load_i64(op + 8 * MATMUL_COUNTER)
        large, small = large_chunk(rows, num_threads), small_chunk(rows, num_threads)
        while True:
            chunk = atomic_add(counter, 1)
            first, end = chunk * large, (chunk + 1) * large
            if chunk >= num_threads:
                first = num_threads * large + (chunk - num_threads) * small
                end = min(first + small, rows)
                if first >= rows:
                    break
            if num_tokens == 1:
                one(op, scratch, first, end)
            else:
                several(op, scratch, first, end, num_tokens)

    matvec.__name__ = f"matvec_{tensor_type.name.lower()}"
    return inline(matvec)
