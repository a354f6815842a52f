"""Ends of rows for ``matvec_pairs``: where a row's last unit has four blocks or fewer, several rows share one.

A row of 576 values is two units and two blocks, which as a third unit of their own cost as much as eight. So the
blocks of up to eight rows are put side by side and meet activations that are repeated as often. A row's lanes are
then added to its own, in an order that is the same for one token and for several. It saves a fifth of the time.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types

from engine.kernels.cpu.formats import UNIT_BYTES, UNIT_ORDER, UNIT_SCALES
from engine.kernels.cpu.matvec_row import row_source
from engine.kernels.cpu.simd import (
    F32X8,
    I32,
    I32X8,
    constant,
    define,
    inline,
    load_i32,
    load_u8x16,
    splat_value,
    store_i32,
    store_u8x16,
)

MOST_BLOCKS: Final = 4
# In a thread's scratch, after the totals of 16 rows and 16 tokens:
TAIL_WEIGHTS: Final = 16 << 10  # a unit of the ends of rows
TAIL_ACTIVATIONS: Final = 20 << 10  # a unit a token


@inline
def packed_blocks(width: int) -> Any:
    """Blocks of a row's last unit where rows share it; 0 where they do not."""
    blocks = width // 32 % 8
    return blocks if blocks <= MOST_BLOCKS else 0


@inline
def spread_tail(source: int, target: int, blocks: int, is_alone: bool) -> None:
    """The first ``blocks`` blocks of a token's unit, again and again, as another unit."""
    first = 0
    if is_alone:
        for place in range(8):
            q, origin = target + place // 4 * 128 + place % 4 * 16, source + place % blocks * 16
            store_u8x16(q, load_u8x16(origin))
            store_u8x16(q + 64, load_u8x16(origin + 64))
        first = UNIT_SCALES
    for lane in range(8):
        place = lane % 4 * 2 + lane // 4  # UNIT_ORDER
        block = place % blocks
        origin = block // 2 + block % 2 * 4
        for offset in range(first, UNIT_BYTES, 32):
            store_i32(target + offset + 4 * lane, load_i32(source + offset + 4 * origin))


@inline
def copy_tails(op: int, first: int, end: int, before: int, num_bytes: int, scratch: int, unit: int) -> None:
    """Put the ends of rows into a unit: ``num_bytes`` each, ``before`` bytes after the row's beginning."""
    for row in range(first, end):
        source = row_source(op, row, before + num_bytes + 15, scratch) + before
        target = unit + (row - first) * num_bytes
        for offset in range(0, num_bytes, 16):
            store_u8x16(target + offset, load_u8x16(source + offset))


def _emit_add_row(b: Any, total: Any, tails: Any, first: Any, count: Any) -> Any:
    order = constant(I32X8.llvm, list(UNIT_ORDER))
    low = splat_value(b, b.trunc(first, I32), 8)
    high = b.add(low, splat_value(b, b.trunc(count, I32), 8))
    is_own = b.and_(b.icmp_signed(">=", order, low), b.icmp_signed("<", order, high))
    return b.fadd(total, b.select(is_own, tails, ir.Constant(F32X8.llvm, None)))


# add_row(total, tails, first, count): adds the lanes of ``count`` blocks from ``first`` on, each where it is.
add_row = define(F32X8, [F32X8, F32X8, types.int64, types.int64], _emit_add_row)
