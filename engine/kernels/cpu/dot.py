"""The int8 dot product of each instruction set, and the tiles of accumulators built on it.

A *tile* is ``count`` vectors, one a token, that live in registers together; the functions here unroll over it
while code is emitted. Products are exact in int32. A weight vector is "unsigned" (0..127) or "signed"
(-128..127); where the processor only multiplies unsigned by signed bytes, signed weights are stored plus
``SIGNED_BIAS`` and the excess, SIGNED_BIAS times the sum of the activations, is taken off by the caller (see
``formats``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import register_model

from engine.kernels.cpu.formats import SIGNED_BIAS
from engine.kernels.cpu.isa import ISA, InstructionSet
from engine.kernels.cpu.simd import (
    F32,
    F32X4,
    F32X16,
    I16,
    I32,
    I32X16,
    I64,
    U8X64,
    Vector,
    call_llvm,
    constant,
    define,
    fma_value,
    load_value,
    pointer,
    shuffle_value,
    splat_value,
)

_QUADS = [lane // 4 for lane in range(16)]  # 4 values, each in 4 lanes: the lanes of a dot product's 4 blocks


class Tile(types.Type):
    """The numba type of ``count`` vectors of one type."""

    def __init__(self, vector: Vector, count: int) -> None:
        self.vector = vector
        self.count = count
        super().__init__(name=f"Tile({vector.name} x {count})")

    @property
    def llvm(self) -> Any:
        """The LLVM type."""
        return ir.ArrayType(self.vector.llvm, self.count)


class TileModel(PrimitiveModel):
    """A tile is passed and stored as the LLVM array itself; LLVM splits it into registers."""

    def __init__(self, manager: Any, tile: Tile) -> None:
        super().__init__(manager, tile, tile.llvm)


register_model(Tile)(TileModel)


# The dot product: <n x i32> += sums of 4 neighbours of <4n x u8> * <4n x i8>.


def _dot_vnni(b: Any, accumulator: Any, weights: Any, activations: Any, is_signed: bool) -> Any:
    if is_signed:
        weights = b.xor(weights, constant(weights.type, -128))
    operands = [accumulator, weights, activations]
    return call_llvm(b, "llvm.x86.avx512.vpdpbusd.512", accumulator.type, operands)


def _dot_avx2(b: Any, accumulator: Any, weights: Any, activations: Any, is_signed: bool) -> Any:
    # Pairs of products are summed in 16 bits: 2 * 128 * 127 fits, 2 * 255 * 127 would saturate. So a signed weight
    # is multiplied as |weight| * (activation with the weight's sign).
    if is_signed:
        signed = call_llvm(b, "llvm.x86.avx2.psign.b", activations.type, [activations, weights])
        weights = call_llvm(b, "llvm.x86.avx2.psign.b", weights.type, [weights, weights])
        activations = signed
    pairs = call_llvm(b, "llvm.x86.avx2.pmadd.ub.sw", ir.VectorType(I16, 16), [weights, activations])
    ones = constant(ir.VectorType(I16, 16), 1)
    return b.add(accumulator, call_llvm(b, "llvm.x86.avx2.pmadd.wd", accumulator.type, [pairs, ones]))


def _dot_neon(b: Any, accumulator: Any, weights: Any, activations: Any, is_signed: bool) -> Any:
    del is_signed  # 0..127 is the same in both
    name = "llvm.aarch64.neon.sdot.v4i32.v16i8"
    return call_llvm(b, name, accumulator.type, [accumulator, weights, activations])


def _dot_portable(b: Any, accumulator: Any, weights: Any, activations: Any, is_signed: bool) -> Any:
    del is_signed  # as above
    wide = ir.VectorType(I16, weights.type.count)
    products = b.mul(b.sext(weights, wide), b.sext(activations, wide))  # |.| <= 128 * 127
    for _ in range(2):
        half = products.type.count // 2
        even = shuffle_value(b, products, range(0, 2 * half, 2))
        odd = shuffle_value(b, products, range(1, 2 * half, 2))
        sums = ir.VectorType(I32, half)
        if products.type.element != I32:
            even, odd = b.sext(even, sums), b.sext(odd, sums)
        products = b.add(even, odd)
    return b.add(accumulator, products)


_DOTS: dict[InstructionSet, tuple[Callable[..., Any], int]] = {  # the dot product and the bytes it takes at once
    InstructionSet.AVX512VNNI: (_dot_vnni, 64),
    InstructionSet.AVX2: (_dot_avx2, 32),
    InstructionSet.NEON: (_dot_neon, 16),
    InstructionSet.PORTABLE: (_dot_portable, 32),
}


def dot_value(b: Any, accumulator: Any, weights: Any, activations: Any, is_signed: bool, isa: Any = ISA) -> Any:
    """<16 x i32> plus the dot products of <64 x i8> vectors, in pieces of the processor's width."""
    dot, width = _DOTS[isa]
    pieces = []
    for start in range(0, 64, width):
        lanes, sums = range(start, start + width), range(start // 4, (start + width) // 4)
        arguments = (shuffle_value(b, v, lanes) for v in (weights, activations))
        pieces.append(dot(b, shuffle_value(b, accumulator, sums), *arguments, is_signed))
    while len(pieces) > 1:
        pieces = [
            shuffle_value(b, x, range(2 * x.type.count), y) for x, y in zip(pieces[::2], pieces[1::2], strict=True)
        ]
    return pieces[0]


# Tiles.


def _each(b: Any, tile: Any, change: Any) -> Any:
    """The tile with vector t replaced by change(vector, t)."""
    for index in range(tile.type.count):
        tile = b.insert_value(tile, change(b.extract_value(tile, index), index), index)
    return tile


def _token_offsets(b: Any, count: int, stride: Any, last: Any) -> list[Any]:
    """Byte offsets of ``count`` tokens; those after ``last`` are computed as copies of it and never stored."""
    offsets = [I64(0)]
    for index in range(1, count):
        exists = b.icmp_signed("<=", I64(index), last)
        offsets.append(b.mul(stride, b.select(exists, I64(index), last)))
    return offsets


def tile_zeros(vector: Vector, count: int) -> Any:
    """Makes ``f() -> tile``."""
    tile = Tile(vector, count)
    return define(tile, [], lambda _b: ir.Constant(tile.llvm, None))


def dot_blocks(count: int, is_signed: bool) -> Any:
    """Makes ``f(sums, low, high, scales, q, scale, stride, last) -> sums`` for four blocks of one row.

    ``sums`` is a tile of F32X16; ``low`` and ``high`` hold the first and second halves of the blocks; ``scales``
    (F32X4) are the weights'. ``q`` and ``scale`` are addresses of the first token's activations.
    """
    tile = Tile(F32X16, count)

    def emit(b: Any, sums: Any, low: Any, high: Any, scales: Any, q: Any, scale: Any, *tokens: Any) -> Any:
        offsets = _token_offsets(b, count, *tokens)

        def change(total: Any, index: int) -> Any:
            here = b.add(q, offsets[index])
            dots = ir.Constant(I32X16.llvm, None)
            dots = dot_value(b, dots, low, load_value(b, here, U8X64.llvm), is_signed)
            dots = dot_value(b, dots, high, load_value(b, here, U8X64.llvm, 64), is_signed)
            factor = b.fmul(scales, load_value(b, b.add(scale, offsets[index]), F32X4.llvm))
            factor = shuffle_value(b, factor, _QUADS)
            return fma_value(b, b.sitofp(dots, F32X16.llvm), factor, total)

        return _each(b, sums, change)

    return define(tile, [tile, U8X64, U8X64, F32X4, *[types.int64] * 4], emit)


def dot_half_blocks(count: int, is_signed: bool) -> Any:
    """Makes ``f(sums, low, high, low_scales, high_scales, q, scale, stride, last) -> sums``.

    As ``dot_blocks``, with a weight scale for each half block.
    """
    tile = Tile(F32X16, count)

    def emit(b: Any, sums: Any, low: Any, high: Any, low_scales: Any, high_scales: Any, *addresses: Any) -> Any:
        q, scale, stride, last = addresses
        offsets = _token_offsets(b, count, stride, last)

        def change(total: Any, index: int) -> Any:
            token_scales = load_value(b, b.add(scale, offsets[index]), F32X4.llvm)
            for half, weights, scales in ((0, low, low_scales), (64, high, high_scales)):
                activations = load_value(b, b.add(q, offsets[index]), U8X64.llvm, half)
                dots = dot_value(b, ir.Constant(I32X16.llvm, None), weights, activations, is_signed)
                factor = shuffle_value(b, b.fmul(scales, token_scales), _QUADS)
                total = fma_value(b, b.sitofp(dots, F32X16.llvm), factor, total)
            return total

        return _each(b, sums, change)

    return define(tile, [tile, U8X64, U8X64, F32X4, F32X4, *[types.int64] * 4], emit)


def add_products(vector: Vector, count: int) -> Any:
    """Makes ``f(sums, factors, values, stride, last) -> sums``: sums[t] += factors * float32 of token t."""
    tile = Tile(vector, count)

    def emit(b: Any, sums: Any, factors: Any, values: Any, stride: Any, last: Any) -> Any:
        offsets = _token_offsets(b, count, stride, last)

        def change(total: Any, index: int) -> Any:
            return fma_value(b, factors, load_value(b, b.add(values, offsets[index]), vector.llvm), total)

        return _each(b, sums, change)

    return define(tile, [tile, vector, *[types.int64] * 3], emit)


def store_sums(vector: Vector, count: int) -> Any:
    """Makes ``f(tile, tile2, address)``: stores sum(tile[t]) - sum(tile2[t]) for each t as float32."""
    main, minus = Tile(F32X16, count), Tile(vector, count)

    def emit(b: Any, sums: Any, subtracted: Any, address: Any) -> None:
        for index in range(count):
            total = b.fsub(*(_sum(b, b.extract_value(tile, index)) for tile in (sums, subtracted)))
            b.store(total, pointer(b, b.add(address, I64(4 * index)), F32), align=4)

    return define(types.void, [main, minus, types.int64], emit)


def _sum(b: Any, vector: Any) -> Any:
    name = f"llvm.vector.reduce.fadd.v{vector.type.count}f32"
    return call_llvm(b, name, F32, [F32(0.0), vector], ("fast",))


def tile_block(count: int, is_signed: bool, is_affine: bool, num_scales: int) -> Any:
    """Makes ``f(sums, panel, scales, offsets, q, scale, sums_of_q, bias) -> sums``: one block of 32, a tile.

    Lanes are rows. ``panel`` holds [8][16 rows][4] weight bytes, ``scales`` and ``offsets`` [num_scales][16 rows]
    float32 (a scale for the block, or one for each half), ``q`` [8][count][4], the rest [.][count]:
    sums += scales * scale * dot - offsets * sums_of_q.
    """
    tile = Tile(F32X16, count)
    dots_in_part = 8 // num_scales

    def emit(b: Any, sums: Any, panel: Any, scales: Any, offsets: Any, q: Any, *tokens: Any) -> Any:
        scale, sums_of_q, bias = tokens
        vectors = []
        for part in range(num_scales):
            dots = [_first_dot(b, bias, 4 * (part * count + t), is_signed) for t in range(count)]
            for k in range(part * dots_in_part, (part + 1) * dots_in_part):
                weights = load_value(b, panel, U8X64.llvm, 64 * k)
                for t in range(count):
                    four = splat_value(b, load_value(b, q, I32, 4 * (k * count + t)), 16)
                    dots[t] = dot_value(
                        b, dots[t], weights, b.bitcast(four, U8X64.llvm), is_signed and not SIGNED_BIAS
                    )
            factor = load_value(b, scales, F32X16.llvm, 64 * part)
            for t in range(count):
                floats = b.sitofp(dots[t], F32X16.llvm)
                if part == 0:
                    vectors.append(b.fmul(floats, factor, flags=("fast",)))
                else:
                    vectors[t] = fma_value(b, floats, factor, vectors[t])
        scaled = _each(b, sums, lambda total, t: fma_value(b, vectors[t], _spread(b, scale, 4 * t), total))
        if not is_affine:
            return scaled
        for part in range(num_scales):
            minus = b.fneg(load_value(b, offsets, F32X16.llvm, 64 * part), flags=("fast",))
            start = 4 * part * count
            scaled = _each(b, scaled, lambda x, t: fma_value(b, minus, _spread(b, sums_of_q, start + 4 * t), x))  # noqa: B023
        return scaled

    return define(tile, [tile, *[types.int64] * 7], emit)


def _first_dot(b: Any, bias: Any, offset: int, is_signed: bool) -> Any:
    if is_signed and SIGNED_BIAS:
        return splat_value(b, load_value(b, bias, I32, offset), 16)
    return ir.Constant(I32X16.llvm, None)


def _spread(b: Any, address: Any, offset: int) -> Any:
    return splat_value(b, load_value(b, address, F32, offset), 16)


def tile_floats(count: int) -> Any:
    """Makes ``f(sums, panel, x) -> sums`` for float weights: 16 rows at one k, ``x`` [count] float32."""
    tile = Tile(F32X16, count)

    def emit(b: Any, sums: Any, panel: Any, x: Any) -> Any:
        weights = load_value(b, panel, F32X16.llvm)
        return _each(b, sums, lambda total, t: fma_value(b, weights, _spread(b, x, 4 * t), total))

    return define(tile, [tile, types.int64, types.int64], emit)


def store_tile(count: int) -> Any:
    """Makes ``f(tile, address, stride)``: vector t of a tile of F32X16 goes to ``address + stride * t``."""
    tile = Tile(F32X16, count)

    def emit(b: Any, sums: Any, address: Any, stride: Any) -> None:
        for index in range(count):
            target = pointer(b, b.add(address, b.mul(stride, I64(index))), F32X16.llvm)
            b.store(b.extract_value(sums, index), target, align=4)

    return define(types.void, [tile, types.int64, types.int64], emit)


def transpose_16(flip_signs: bool) -> Any:
    """Makes ``f(source, stride, target)``: 16 rows of 64 bytes to 16 vectors that hold 4 bytes of each row.

    With ``flip_signs`` each byte gets SIGNED_BIAS added. Four perfect shuffles of 16 vectors are a transposition.
    """
    dwords = I32X16.llvm

    def emit(b: Any, source: Any, stride: Any, target: Any) -> None:
        rows = [load_value(b, b.add(source, b.mul(stride, I64(row))), dwords) for row in range(16)]
        if flip_signs and SIGNED_BIAS:
            flip = b.bitcast(constant(U8X64.llvm, -128), dwords)
            rows = [b.xor(row, flip) for row in rows]
        low = [lane // 2 + 16 * (lane % 2) for lane in range(16)]
        high = [lane + 8 for lane in low]
        for _ in range(4):
            rows = [shuffle_value(b, rows[i // 2], (low, high)[i % 2], rows[i // 2 + 8]) for i in range(16)]
        for index, row in enumerate(rows):
            b.store(row, pointer(b, b.add(target, I64(64 * index)), dwords), align=1)

    return define(types.void, [types.int64] * 3, emit)


def lookup(table: list[int], lanes: int, isa: Any = ISA) -> Any:
    """Makes ``f(indices) -> vector`` of bytes: ``table`` (16 int8) at each index 0..15."""
    vector = Vector("i8", lanes)

    def emit_piece(b: Any, indices: Any) -> Any:
        width = indices.type.count
        values = constant(indices.type, table * (width // 16))
        names = {16: "llvm.x86.ssse3.pshuf.b.128", 32: "llvm.x86.avx2.pshuf.b", 64: "llvm.x86.avx512.pshuf.b.512"}
        if isa in {InstructionSet.AVX2, InstructionSet.AVX512VNNI}:
            return call_llvm(b, names[width], indices.type, [values, indices])
        if isa is InstructionSet.NEON:
            return call_llvm(b, "llvm.aarch64.neon.tbl1.v16i8", indices.type, [values, indices])
        result = constant(indices.type, table[0])
        for index, value in enumerate(table[1:], 1):
            is_index = b.icmp_signed("==", indices, constant(indices.type, index))
            result = b.select(is_index, constant(indices.type, value), result)
        return result

    def emit(b: Any, indices: Any) -> Any:
        width = {InstructionSet.AVX512VNNI: 64, InstructionSet.AVX2: 32}.get(isa, 16)
        width = min(width, lanes)
        pieces = [
            emit_piece(b, shuffle_value(b, indices, range(start, start + width)))
            for start in range(0, lanes, width)
        ]
        while len(pieces) > 1:
            pieces = [
                shuffle_value(b, x, range(2 * x.type.count), y)
                for x, y in zip(pieces[::2], pieces[1::2], strict=True)
            ]
        return pieces[0]

    return define(vector, [vector], emit)
