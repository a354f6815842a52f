"""How ops share out rows among threads, and loads and stores of the last few values of a row.

Ops that share rows this way need not wait for each other: a thread finds the rows that it wrote itself.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from engine.kernels.cpu.simd import F32X16, I32, call_llvm, constant, define, inline, load_i64, pointer, splat_value


@inline
def first_row(num_rows, thread, num_threads):  # type: ignore[no-untyped-def]
    """First row of a thread's share; the share ends before the first row of ``thread + 1``."""
    return (num_rows * thread + num_threads - 1) // num_threads


@inline
def count_rows(step, kind):  # type: ignore[no-untyped-def]
    """Rows of the step of a kind, ROWS_TOKENS or ROWS_LOGITS: the slot of the count has the kind's number."""
    return load_i64(step + kind * 8)


def _mask(b: Any, count: Any) -> Any:
    lanes = constant(ir.VectorType(I32, 16), list(range(16)))
    return b.icmp_signed("<", lanes, splat_value(b, b.trunc(count, I32), 16))


def _emit_load_part(b: Any, address: Any, count: Any) -> Any:
    values = [pointer(b, address, F32X16.llvm), I32(4), _mask(b, count), ir.Constant(F32X16.llvm, None)]
    return call_llvm(b, "llvm.masked.load.v16f32.p0", F32X16.llvm, values)


def _emit_store_part(b: Any, address: Any, value: Any, count: Any) -> None:
    """All of them with an ordinary store, for a masked one takes a Zen 3 ten times as long."""
    place = pointer(b, address, F32X16.llvm)
    with b.if_else(b.icmp_signed(">=", count, count.type(16))) as (whole, part):
        with whole:
            b.store(value, place, align=1)
        with part:
            values = [value, place, I32(4), _mask(b, count)]
            call_llvm(b, "llvm.masked.store.v16f32.p0", ir.VoidType(), values)


# load_part(address, count): ``count`` values and zeros; touches no byte beyond them. 16 or more load all.
load_part = define(F32X16, [types.int64, types.int64], _emit_load_part)
# store_part(address, vector, count): its first ``count`` values.
store_part = define(types.void, [types.int64, F32X16, types.int64], _emit_store_part)
