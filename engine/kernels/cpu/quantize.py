"""Kernels that turn float32 rows into the activation formats of ``formats`` (see there for the layouts).

Own the QUANTIZE op. A block of 32 gets scale = max|x| / 127 and q = round(x / scale); zeros get scale 0, and what
has a NaN gets NaN, so that the logits tell of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from engine.kernels.cpu.dot_tiles import transpose_4
from engine.kernels.cpu.formats import (
    GROUP,
    HAS_UNITS,
    MATVEC_TOKENS,
    SIGNED_BIAS,
    TILE_BLOCK_BYTES,
    TOKEN_TILE,
    UNIT_BYTES,
    UNIT_SCALES,
    UNIT_SUMS16,
    UNIT_SUMS32,
)
from engine.kernels.cpu.operands import QUANTIZE_ACTIVATION, QUANTIZE_ROWS_KIND, QUANTIZE_WIDTH, QUANTIZE_X
from engine.kernels.cpu.simd import (
    F32,
    F32X4,
    F32X16,
    I16,
    I16X16,
    I32,
    I32X4,
    I32X8,
    I32X16,
    U8X16,
    U8X32,
    call_llvm,
    constant,
    define,
    inline,
    load_f32,
    load_f32x16,
    load_i64,
    load_value,
    pointer,
    reduce_add_i32,
    round_even,
    shuffle_value,
    splat_f32x16,
    store_f32,
    store_f32x16,
    store_i32,
    store_u8x16,
    to_i32x16,
    to_u8x16,
    zeros_i32x16,
)
from engine.kernels.cpu.step_state import READS_PROMPT, ROWS_LOGITS


def _emit_store_quads(b: Any, address: Any, stride: Any, vector: Any) -> None:
    quads = b.bitcast(vector, I32X4.llvm)
    for index in range(4):
        target = b.add(address, b.mul(stride, stride.type(index)))
        b.store(b.extract_element(quads, I32(index)), pointer(b, target, I32), align=4)


def _emit_minus_pairs(b: Any, vector: Any) -> Any:
    sums = b.sext(vector, I16X16.llvm)
    sums = b.add(*(shuffle_value(b, sums, range(start, 16, 2)) for start in (0, 1)))
    for half in (4, 2):
        sums = b.add(*(shuffle_value(b, sums, range(start, start + half)) for start in (0, half)))
    return b.bitcast(b.neg(sums), I32)


def _emit_add_pairs(b: Any, first: Any, second: Any) -> Any:
    pair = ir.VectorType(I16, 2)
    return b.bitcast(b.add(b.bitcast(first, pair), b.bitcast(second, pair)), I32)


def _emit_largest(b: Any, low: Any, high: Any) -> Any:
    """The magnitudes are in the order of their bits, NaN above infinity; a maximum of floats would lose NaN."""
    integers = I32X16.llvm
    bits = [b.and_(b.bitcast(x, integers), constant(integers, 0x7FFFFFFF)) for x in (low, high)]
    larger = call_llvm(b, "llvm.umax.v16i32", integers, bits)
    return b.bitcast(call_llvm(b, "llvm.vector.reduce.umax.v16i32", I32, [larger]), F32)


# largest_magnitude(low, high): of all 32 values; NaN where one is.
largest_magnitude = define(types.float32, [F32X16] * 2, _emit_largest)
# minus_pairs(vector): negated, the sum of the first two of each four bytes and of the last two, as two int16.
minus_pairs = define(types.int32, [U8X16], _emit_minus_pairs)
add_pairs = define(types.int32, [types.int32, types.int32], _emit_add_pairs)
# store_quads(address, stride, vector): four pieces of four bytes, ``stride`` apart.
store_quads = define(types.void, [types.int64, types.int64, U8X16], _emit_store_quads)


def _emit_quantize_4(
    b: Any, x: Any, row_bytes: Any, q: Any, scales: Any, sums: Any, half_sums: Any, *rest: Any
) -> None:
    """The four tokens' bytes are transposed to the order of a tile first: then each instruction serves them all."""
    bias, half_bias = rest
    largest: Any = ir.Constant(F32X4.llvm, ir.Undefined)
    tokens = []
    for token in range(4):
        here = b.add(x, b.mul(row_bytes, row_bytes.type(token)))
        tokens.append([load_value(b, here, F32X16.llvm, offset) for offset in (0, 64)])
        largest = b.insert_element(largest, _emit_largest(b, *tokens[-1]), I32(token))
    zero = ir.Constant(F32X4.llvm, None)
    quotient = b.fdiv(constant(F32X4.llvm, 127.0), largest)
    inverse = b.select(b.fcmp_ordered(">", largest, zero), quotient, zero)
    scale = b.fmul(largest, constant(F32X4.llvm, 1.0 / 127.0))
    rows = [_round_32(b, parts, shuffle_value(b, inverse, [token] * 8)) for token, parts in enumerate(tokens)]
    pairs = None
    for index, column in enumerate(transpose_4(b, rows)):
        for half in range(2):
            place = b.add(q, q.type(16 * (index + 4 * half)))
            _store_4(b, place, shuffle_value(b, column, range(4 * half, 4 * half + 4)))
        arguments = [constant(U8X32.llvm, 1), b.bitcast(column, U8X32.llvm)]
        products = call_llvm(b, "llvm.x86.avx2.pmadd.ub.sw", I16X16.llvm, arguments)
        pairs = products if pairs is None else b.add(pairs, products)
    both = call_llvm(b, "llvm.x86.avx2.pmadd.wd", I32X8.llvm, [pairs, constant(I16X16.llvm, 1)])
    minus = b.neg(pairs)
    halves = [range(first, first + 4) for first in (0, 4)]
    minus_halves = [shuffle_value(b, minus, range(first, first + 8)) for first in (0, 8)]
    sum_halves = [shuffle_value(b, both, half) for half in halves]
    _store_4(b, scales, scale)
    _store_4(b, sums, b.fmul(scale, b.sitofp(b.add(*sum_halves), F32X4.llvm)))
    _store_4(b, bias, b.add(*minus_halves))
    for half in range(2):
        offset = half_sums.type(16 * half)
        _store_4(b, b.add(half_sums, offset), b.fmul(scale, b.sitofp(sum_halves[half], F32X4.llvm)))
        _store_4(b, b.add(half_bias, offset), minus_halves[half])


def _round_32(b: Any, parts: Any, inverse: Any) -> Any:
    """32 float32 times ``inverse`` as bytes, in <8 x i32>."""
    eights = [shuffle_value(b, part, range(first, first + 8)) for part in parts for first in (0, 8)]
    rounded = [call_llvm(b, "llvm.x86.avx.cvt.ps2dq.256", I32X8.llvm, [b.fmul(x, inverse)]) for x in eights]
    halves = [shuffle_value(b, rounded[k], range(16), rounded[k + 1]) for k in (0, 2)]
    return b.bitcast(b.trunc(shuffle_value(b, halves[0], range(32), halves[1]), U8X32.llvm), I32X8.llvm)


def _store_4(b: Any, address: Any, value: Any) -> None:
    b.store(value, pointer(b, address, value.type), align=4)


# quantize_4(x, row_bytes, q, scales, sums, half_sums, bias, half_bias): a block of 4 tokens, ``row_bytes`` apart.
quantize_4 = define(types.void, [types.int64] * 8, _emit_quantize_4)


@inline
def few_rows(step: int, kind: int) -> Any:
    """Up to how many rows of a kind the kernels for few take: rows of logits are few whatever the step is."""
    reads_prompt = load_i64(step + 8 * READS_PROMPT) != 0 and kind != ROWS_LOGITS
    return 0 if reads_prompt else MATVEC_TOKENS


@inline
def _quantize_block(x: int, exists: bool) -> Any:
    """q of both halves (U8X16) with their sums, and the scale, of the 32 float32 at ``x``, or zeros."""
    if not exists:
        zero = to_u8x16(zeros_i32x16())
        return zero, zero, np.int32(0), np.int32(0), np.float32(0.0)
    low, high = load_f32x16(x), load_f32x16(x + 64)
    largest = largest_magnitude(low, high)
    inverse = np.float32(0.0)
    if largest > np.float32(0.0):
        inverse = np.float32(127.0) / largest
    low = to_i32x16(round_even(low * splat_f32x16(inverse)))
    high = to_i32x16(round_even(high * splat_f32x16(inverse)))
    scale = largest * np.float32(1.0 / 127.0)
    return to_u8x16(low), to_u8x16(high), reduce_add_i32(low), reduce_add_i32(high), scale


@inline
def _quantize_row_block(x: int, exists: bool, padded: int, out: int, block: int) -> None:
    """Block ``block`` of a row of few."""
    q = out + block // 4 * 128 + block % 4 * 16
    scales = out + padded + 4 * block
    sums = scales + padded // 32 * 4
    half_sums = sums + padded // 32 * 4 + 4 * block
    low, high, low_sum, high_sum, scale = _quantize_block(x, exists)
    store_u8x16(q, low)
    store_u8x16(q + 64, high)
    store_f32(scales, scale)
    store_f32(sums, scale * np.float32(low_sum + high_sum))
    store_f32(half_sums, scale * np.float32(low_sum))
    store_f32(half_sums + 4, scale * np.float32(high_sum))


@inline
def _quantize_unit_block(x: int, exists: bool, unit: int, block: int, is_alone: bool) -> None:
    """Block ``block`` (0..7) of a row's unit, on AVX2; ``is_alone`` where there is no other row."""
    lane = unit + 4 * (block % 2 * 4 + block // 2)
    low, high, low_sum, high_sum, scale = _quantize_block(x, exists)
    if is_alone:
        q = unit + block // 4 * 128 + block % 4 * 16
        store_u8x16(q, low)
        store_u8x16(q + 64, high)
    else:
        store_quads(lane, 32, low)
        store_quads(lane + 128, 32, high)
    store_f32(lane + UNIT_SCALES, scale)
    store_f32(lane + UNIT_SUMS32, scale * np.float32(low_sum + high_sum))
    store_f32(lane + UNIT_SUMS16, scale * np.float32(low_sum))
    store_f32(lane + UNIT_SUMS16 + 32, scale * np.float32(high_sum))


@inline
def _quantize_tile_block(x: int, exists: bool, padded: int, tile: int, token: int, block: int) -> None:
    """Block ``block`` of token ``token`` of a tile; zeros where nothing ``exists``."""
    num_blocks = padded // 32
    row = 4 * TOKEN_TILE  # bytes of one float32 for each token
    q = tile + 8 * row * block + 4 * token
    scales = tile + padded * TOKEN_TILE + row * block + 4 * token
    sums = scales + num_blocks * row
    half_sums = sums + num_blocks * row + row * block
    bias = half_sums + 2 * num_blocks * row - row * block
    half_bias = bias + num_blocks * row + row * block
    low, high, low_sum, high_sum, scale = _quantize_block(x, exists)
    store_quads(q, row, low)
    store_quads(q + 4 * row, row, high)
    store_f32(scales, scale)
    store_f32(sums, scale * np.float32(low_sum + high_sum))
    store_f32(half_sums, scale * np.float32(low_sum))
    store_f32(half_sums + row, scale * np.float32(high_sum))
    if HAS_UNITS:
        low_bias, high_bias = minus_pairs(low), minus_pairs(high)
        store_i32(bias, add_pairs(low_bias, high_bias))
    else:
        low_bias, high_bias = np.int32(-SIGNED_BIAS * low_sum), np.int32(-SIGNED_BIAS * high_sum)
        store_i32(bias, low_bias + high_bias)
    store_i32(half_bias, low_bias)
    store_i32(half_bias + row, high_bias)


@inline
def _quantize_tile_of_4(x: int, row_bytes: int, padded: int, tile: int, block: int) -> None:
    """Block ``block`` of all tokens of a tile, on AVX2."""
    num_blocks, row = padded // 32, 4 * TOKEN_TILE
    q, scales = tile + 8 * row * block, tile + padded * TOKEN_TILE + row * block
    sums = scales + num_blocks * row
    half_sums = sums + num_blocks * row + row * block
    bias = half_sums + 2 * num_blocks * row - row * block
    half_bias = bias + num_blocks * row + row * block
    quantize_4(x, row_bytes, q, scales, sums, half_sums, bias, half_bias)


@inline
def quantize_int8_rows(op: int, rows: int, few: int, thread: int, num_threads: int) -> None:
    """QUANTIZE to INT8 of ``rows`` rows, up to ``few`` as few; threads share out blocks of tokens, or of tiles."""
    x, out = load_i64(op + 8 * QUANTIZE_X), load_i64(op + 8 * QUANTIZE_ACTIVATION)
    width = load_i64(op + 8 * QUANTIZE_WIDTH)
    num_blocks = width // 32
    padded = (width + GROUP - 1) // GROUP * GROUP
    padded_blocks = padded // 32
    if rows <= few:
        items = rows * padded_blocks
        for item in range(items * thread // num_threads, items * (thread + 1) // num_threads):
            row, block = item // padded_blocks, item % padded_blocks
            source, exists = x + 4 * (width * row + 32 * block), block < num_blocks
            if HAS_UNITS:
                unit = out + UNIT_BYTES * (block // 8 * rows + row)
                _quantize_unit_block(source, exists, unit, block % 8, rows == 1)
            else:
                _quantize_row_block(source, exists, padded, out + (padded + padded // 2) * row, block)
    else:
        tile_bytes = TOKEN_TILE * TILE_BLOCK_BYTES * padded_blocks
        items = (rows + TOKEN_TILE - 1) // TOKEN_TILE * num_blocks
        for item in range(items * thread // num_threads, items * (thread + 1) // num_threads):
            tile, block = item // num_blocks, item % num_blocks
            if HAS_UNITS and (tile + 1) * TOKEN_TILE <= rows:
                source = x + 4 * (width * tile * TOKEN_TILE + 32 * block)
                _quantize_tile_of_4(source, 4 * width, padded, out + tile_bytes * tile, block)
                continue
            for token in range(TOKEN_TILE):
                row = tile * TOKEN_TILE + token
                source = x + 4 * (width * row + 32 * block)
                _quantize_tile_block(source, row < rows, padded, out + tile_bytes * tile, token, block)


@inline
def quantize_float32_rows(op: int, rows: int, few: int, thread: int, num_threads: int) -> None:
    """QUANTIZE to FLOAT32, a change of layout alone, of ``rows`` rows, up to ``few`` as few; threads share out
    rows, or tiles."""
    x, out = load_i64(op + 8 * QUANTIZE_X), load_i64(op + 8 * QUANTIZE_ACTIVATION)
    width = load_i64(op + 8 * QUANTIZE_WIDTH)
    padded = (width + 15) // 16 * 16
    if rows <= few:
        for row in range(rows * thread // num_threads, rows * (thread + 1) // num_threads):
            source, target = x + 4 * width * row, out + 4 * padded * row
            for k in range(0, width - 15, 16):
                store_f32x16(target + 4 * k, load_f32x16(source + 4 * k))
            for k in range(width // 16 * 16, padded):
                store_f32(target + 4 * k, load_f32(source + 4 * k) if k < width else np.float32(0.0))
    else:
        tiles = (rows + TOKEN_TILE - 1) // TOKEN_TILE
        for tile in range(tiles * thread // num_threads, tiles * (thread + 1) // num_threads):
            for token in range(TOKEN_TILE):
                row = tile * TOKEN_TILE + token
                target = out + 4 * (padded * tile * TOKEN_TILE + token)
                for k in range(padded):
                    exists = row < rows and k < width
                    value = load_f32(x + 4 * (width * row + k)) if exists else np.float32(0.0)
                    store_f32(target + 4 * TOKEN_TILE * k, value)


def quantize_int8(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel of QUANTIZE to INT8."""
    kind = load_i64(op + 8 * QUANTIZE_ROWS_KIND)
    quantize_int8_rows(op, load_i64(step + 8 * kind), few_rows(step, kind), thread, num_threads)


def quantize_float32(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel of QUANTIZE to FLOAT32."""
    kind = load_i64(op + 8 * QUANTIZE_ROWS_KIND)
    quantize_float32_rows(op, load_i64(step + 8 * kind), few_rows(step, kind), thread, num_threads)
