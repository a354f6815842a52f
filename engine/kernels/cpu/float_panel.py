"""Rows of float weights as a panel of ``gemm``: float32, [values][16 rows].

Eight values of eight rows are turned in registers. One value at a time took 1.4 to 2.3 ns each, as long as the
multiplications with 60 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.dot_tiles import transpose_4
from engine.kernels.cpu.simd import (
    F16,
    F32,
    I16,
    I32,
    I64,
    constant,
    define,
    load_value,
    pointer,
    shuffle_value,
)

_FLOATS, _WORDS = ir.VectorType(F32, 8), ir.VectorType(I32, 8)
_LOW_HALVES, _HIGH_HALVES = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]


def _load(b: Any, address: Any, tensor_type: TensorType) -> Any:
    """Eight weights as the bits of float32."""
    if tensor_type is TensorType.F32:
        return load_value(b, address, _WORDS)
    if tensor_type is TensorType.F16:
        halves = load_value(b, address, ir.VectorType(F16, 8))
        return b.bitcast(b.fpext(halves, _FLOATS), _WORDS)
    upper = b.zext(load_value(b, address, ir.VectorType(I16, 8)), _WORDS)
    return b.shl(upper, constant(_WORDS, 16))


def _transpose(b: Any, rows: Sequence[Any]) -> list[Any]:
    """8 x 8: 4 x 4 in each half, then halves to their places."""
    upper, lower = (transpose_4(b, rows[start : start + 4]) for start in (0, 4))
    return [
        shuffle_value(b, above, halves, below)
        for halves in (_LOW_HALVES, _HIGH_HALVES)
        for above, below in zip(upper, lower, strict=True)
    ]


def pack_values(tensor_type: TensorType) -> Any:
    """Makes ``f(source, row_bytes, last, panel)``: 64 bytes of rows 0 to 15; those after ``last`` are copies.

    That is a line of the cache, where rows of a power of two of bytes take each other's place: no more than eight
    are read together.
    """

    def emit(b: Any, source: Any, row_bytes: Any, last: Any, panel: Any) -> None:
        for half in (0, 8):
            rows = []
            for row in range(half, half + 8):
                index = b.select(b.icmp_signed("<", I64(row), last), I64(row), last)
                rows.append(b.add(source, b.mul(row_bytes, index)))
            for start in range(0, 64 // tensor_type.block_bytes, 8):
                here = I64(start * tensor_type.block_bytes)
                columns = _transpose(b, [_load(b, b.add(row, here), tensor_type) for row in rows])
                for k, column in enumerate(columns, start):
                    b.store(column, pointer(b, b.add(panel, I64(64 * k + 4 * half)), _WORDS), align=1)

    return define(types.void, [types.int64] * 4, emit)
