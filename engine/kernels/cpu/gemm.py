"""Matmuls of more than MATVEC_TOKENS tokens, or any number of a prompt's, in tiles of 16 rows by TOKEN_TILE tokens.

A thread takes a chunk of 16-row groups, unpacks and transposes it into a panel that stays in its L2 cache, and runs
all tiles of tokens over it:

    panel of one group, for a slice of up to SLICE values
        values   [slice / 4][16 rows][4] bytes, signed ones plus SIGNED_BIAS (AVX2: see ``pair_tile``)
        scales   [slice / values_per_scale][16 rows] float32
        offsets  the same, for affine types

so one tile kernel serves all types, and a lane of an accumulator is a row: no horizontal sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.kernels.cpu.dot_tiles import store_tile, tile_block, tile_zeros, transpose_16
from engine.kernels.cpu.formats import GROUP, SIGNED_BIAS, TILE_BLOCK_BYTES, TOKEN_TILE
from engine.kernels.cpu.isa import ISA, InstructionSet
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
from engine.kernels.cpu.pair_tile import PairFormat, pair_block, pair_format
from engine.kernels.cpu.simd import (
    F32X16,
    atomic_add,
    inline,
    load_f32,
    load_f32x16,
    load_i64,
    store_f32,
    store_f32x16,
)
from engine.kernels.cpu.weight_types import WeightType

Gemm = Callable[[int, int, int, int, int], None]  # (op, scratch, num_tokens, thread, num_threads)

SLICE = 4096  # values of a row in one panel
PANEL_BYTES = 448 << 10  # of all groups of a chunk; with the rest it leaves half of a 1 MiB L2 cache to activations
_PIECE = 1024  # values of 16 rows unpacked before they are transposed: 16 KiB, in L1
_STAGING_BYTES = 16 * _PIECE
_TILE_BYTES = 64 * TOKEN_TILE
CHUNKS_A_THREAD = 3
IS_PAIRED = ISA is InstructionSet.AVX2  # the processor sums products in pairs of 16 bits


@inline
def chunk_groups(num_groups: int, group_bytes: int, num_threads: int) -> Any:
    """16-row groups of a chunk: as many as fit the panel, few enough that threads finish together."""
    balanced = (num_groups + CHUNKS_A_THREAD * num_threads - 1) // (CHUNKS_A_THREAD * num_threads)
    return max(1, min(balanced, PANEL_BYTES // group_bytes))


@inline
def finish_tile(op: int, tile: int, row: int, first_token: int, num_tokens: int, is_first: bool) -> None:
    """Write a tile, [TOKEN_TILE][16 rows] float32, to out: with the bias, or what was there, on the first slice."""
    out, stride = load_i64(op + 8 * MATMUL_OUT), load_i64(op + 8 * MATMUL_OUT_STRIDE)
    bias, rows = load_i64(op + 8 * MATMUL_BIAS), load_i64(op + 8 * MATMUL_ROWS)
    adds = load_i64(op + 8 * MATMUL_ACCUMULATE) != 0 or not is_first
    has_bias = bias != 0 and is_first
    for token in range(min(TOKEN_TILE, num_tokens - first_token)):
        target = out + 4 * (stride * (first_token + token) + row)
        source = tile + 64 * token
        if row + 16 <= rows:
            value = load_f32x16(source)
            if has_bias:
                value = value + load_f32x16(bias + 4 * row)
            if adds:
                value = value + load_f32x16(target)
            store_f32x16(target, value)
        else:
            for lane in range(rows - row):
                scalar = load_f32(source + 4 * lane)
                if has_bias:
                    scalar += load_f32(bias + 4 * (row + lane))
                if adds:
                    scalar += load_f32(target + 4 * lane)
                store_f32(target + 4 * lane, scalar)


def _make_run_blocks(is_affine: bool, num_scales: int, form: PairFormat) -> Any:
    """Makes ``f(result, panel, scales, offsets, q, token_scales, sums, bias, num_blocks)``: a tile over blocks."""
    token_row = 4 * TOKEN_TILE
    zeros, store = tile_zeros(F32X16, TOKEN_TILE), store_tile(TOKEN_TILE)
    dot_block = tile_block(TOKEN_TILE, not is_affine, is_affine, num_scales)
    panel_step = 512 * form.planes
    add_block = pair_block(form, is_affine, num_scales)

    @inline
    def in_registers(
        result: int,
        panel: int,
        scales: int,
        offsets: int,
        q: int,
        token_scales: int,
        sums: int,
        bias: int,
        count: int,
    ) -> None:
        total = zeros()
        for _ in range(count):
            total = dot_block(total, panel, scales, offsets, q, token_scales, sums, bias)
            panel += 512
            scales += 64 * num_scales
            offsets += 64 * num_scales
            q += 8 * token_row
            token_scales += token_row
            sums += token_row * num_scales
            bias += token_row * num_scales
        store(total, result, 64)

    @inline
    def in_memory(
        result: int,
        panel: int,
        scales: int,
        offsets: int,
        q: int,
        token_scales: int,
        sums: int,
        bias: int,
        count: int,
    ) -> None:
        store(zeros(), result, 64)
        for _ in range(count):
            add_block(result, panel, scales, offsets, q, token_scales, sums, bias)
            panel += panel_step
            scales += 64 * num_scales
            offsets += 64 * num_scales
            q += 8 * token_row
            token_scales += token_row
            sums += token_row * num_scales
            bias += token_row * num_scales

    return in_memory if IS_PAIRED else in_registers


def make_gemm(weight: WeightType) -> Gemm:
    """The function that computes a thread's share of a MATMUL with many tokens."""
    unpack, is_affine = weight.unpack, weight.is_affine
    block_values, block_bytes = weight.block_values, weight.block_bytes
    values_per_scale = weight.values_per_scale
    num_scales = 32 // values_per_scale
    form = pair_format(weight.lowest, weight.highest, num_scales)
    planes = form.planes if IS_PAIRED else 1
    transpose = transpose_16(form.zero if IS_PAIRED else 0 if is_affine else SIGNED_BIAS, planes)
    run_blocks = _make_run_blocks(is_affine, num_scales, form)
    scales_bytes = SLICE // values_per_scale * 64
    token_row = 4 * TOKEN_TILE

    @inline
    def pack(source: int, row_bytes: int, num_rows: int, width: int, staging: int, panel: int) -> None:
        """Panel of ``num_rows`` <= 16 rows of ``width`` values at ``source``; lanes beyond hold anything."""
        scales = panel + 16 * planes * SLICE
        for start in range(0, width, _PIECE):
            count = min(_PIECE, width - start)
            target = scales + start // values_per_scale * 64
            for row in range(num_rows):
                here = source + row_bytes * row + start // block_values * block_bytes
                row_scales = target + 4 * row
                unpack(
                    here, count // block_values, staging + _PIECE * row, row_scales, row_scales + scales_bytes, 64
                )
            for k in range(0, count, 64):
                transpose(staging + k, _PIECE, panel + 16 * planes * (start + k))

    @inline
    def run_tile(panel: int, tile: int, padded: int, first_block: int, num_blocks: int, result: int) -> None:
        """One group times one tile of tokens over blocks of 32 from ``first_block`` of the tokens."""
        all_blocks = padded // 32
        scales = panel + 16 * planes * SLICE
        q = tile + 8 * token_row * first_block
        token_scales = tile + padded * TOKEN_TILE
        sums = token_scales + all_blocks * token_row
        bias = sums + 3 * all_blocks * token_row
        sums += (num_scales - 1) * all_blocks * token_row  # sum16 follows sum32, bias16 bias32
        bias += (num_scales - 1) * all_blocks * token_row
        token_scales += token_row * first_block
        sums += token_row * num_scales * first_block
        bias += token_row * num_scales * first_block
        run_blocks(result, panel, scales, scales + scales_bytes, q, token_scales, sums, bias, num_blocks)

    def gemm(op: int, scratch: int, num_tokens: int, thread: int, num_threads: int) -> None:
        activation, weights = load_i64(op + 8 * MATMUL_ACTIVATION), load_i64(op + 8 * MATMUL_WEIGHT)
        rows, width = load_i64(op + 8 * MATMUL_ROWS), load_i64(op + 8 * MATMUL_WIDTH)
        row_bytes, counter = load_i64(op + 8 * MATMUL_ROW_BYTES), load_i64(op + 8 * MATMUL_COUNTER)
        padded = (width + GROUP - 1) // GROUP * GROUP
        tile_bytes = TOKEN_TILE * TILE_BLOCK_BYTES * (padded // 32)
        num_tiles = (num_tokens + TOKEN_TILE - 1) // TOKEN_TILE
        num_groups = (rows + 15) // 16
        group_bytes = 16 * planes * SLICE + 2 * scales_bytes
        result, panels = scratch + _STAGING_BYTES, scratch + _STAGING_BYTES + _TILE_BYTES
        chunk = chunk_groups(num_groups, group_bytes, num_threads)
        while True:
            first = atomic_add(counter, 1) * chunk
            if first >= num_groups:
                break
            last = min(first + chunk, num_groups)
            for start in range(0, width, SLICE):
                count = min(SLICE, width - start)
                for group in range(first, last):
                    source = weights + row_bytes * 16 * group + start // block_values * block_bytes
                    panel = panels + group_bytes * (group - first)
                    pack(source, row_bytes, min(16, rows - 16 * group), count, scratch, panel)
                for tile in range(num_tiles):
                    for group in range(first, last):
                        panel, here = panels + group_bytes * (group - first), activation + tile_bytes * tile
                        run_tile(panel, here, padded, start // 32, count // 32, result)
                        finish_tile(op, result, 16 * group, tile * TOKEN_TILE, num_tokens, start == 0)

    gemm.__name__ = f"gemm_{weight.type.name.lower()}"
    return inline(gemm)
