"""The int8 dot product and the table lookup of each instruction set.

Products are exact in int32. A weight vector is "unsigned" (0..63) or "signed" (-128..127); where a processor only
multiplies unsigned by signed bytes, signed weights are taken plus ``SIGNED_BIAS`` and the excess, SIGNED_BIAS times
the sum of the activations, is taken off by the caller (see ``formats``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from engine.kernels.cpu.isa import ISA, InstructionSet
from engine.kernels.cpu.simd import (
    I16,
    I32,
    Vector,
    call_llvm,
    constant,
    define,
    shuffle_value,
)

# The dot product: <n x i32> += sums of 4 neighbours of <4n x u8> * <4n x i8>, for one or two pairs of these.

_Pairs = Sequence[tuple[Any, Any]]  # (weights, activations)


def _dot_vnni(b: Any, accumulator: Any, pairs: _Pairs, is_signed: bool) -> Any:
    for weights, activations in pairs:
        unsigned = b.xor(weights, constant(weights.type, -128)) if is_signed else weights
        operands = [accumulator, unsigned, activations]
        accumulator = call_llvm(b, "llvm.x86.avx512.vpdpbusd.512", accumulator.type, operands)
    return accumulator


def _dot_avx2(b: Any, accumulator: Any, pairs: _Pairs, is_signed: bool) -> Any:
    # Neighbours' products are summed in 16 bits: 2 * 128 * 127 fits, 2 * 255 * 127 would saturate. So a signed
    # weight is multiplied as |weight| * (activation with the weight's sign). Unsigned weights are small enough to
    # sum two pairs there, too, which halves the widening.
    words = ir.VectorType(I16, 16)
    products = []
    for weights, activations in pairs:
        if is_signed:
            activations = call_llvm(b, "llvm.x86.avx2.psign.b", activations.type, [activations, weights])
            weights = call_llvm(b, "llvm.x86.avx2.psign.b", weights.type, [weights, weights])
        products.append(call_llvm(b, "llvm.x86.avx2.pmadd.ub.sw", words, [weights, activations]))
    if not is_signed and len(products) == 2:
        products = [b.add(*products)]
    for product in products:
        widened = call_llvm(b, "llvm.x86.avx2.pmadd.wd", accumulator.type, [product, constant(words, 1)])
        accumulator = b.add(accumulator, widened)
    return accumulator


def _dot_neon(b: Any, accumulator: Any, pairs: _Pairs, is_signed: bool) -> Any:
    del is_signed  # 0..63 is the same in both
    for pair in pairs:
        name = "llvm.aarch64.neon.sdot.v4i32.v16i8"
        accumulator = call_llvm(b, name, accumulator.type, [accumulator, *pair])
    return accumulator


def _dot_portable(b: Any, accumulator: Any, pairs: _Pairs, is_signed: bool) -> Any:
    del is_signed  # as above
    for weights, activations in pairs:
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
        accumulator = b.add(accumulator, products)
    return accumulator


_DOTS: dict[InstructionSet, tuple[Callable[..., Any], int]] = {  # the dot product and the bytes it takes at once
    InstructionSet.AVX512VNNI: (_dot_vnni, 64),
    InstructionSet.AVX2: (_dot_avx2, 32),
    InstructionSet.NEON: (_dot_neon, 16),
    InstructionSet.PORTABLE: (_dot_portable, 32),
}


def dot_width(isa: Any = ISA) -> int:
    """Bytes of a vector that the instruction set takes at once."""
    return _DOTS[isa][1]


def dot_piece(b: Any, accumulator: Any, pairs: _Pairs, is_signed: bool, isa: Any = ISA) -> Any:
    """``accumulator`` plus the dot products of one or two pairs of vectors (weights, activations) of that width."""
    return _DOTS[isa][0](b, accumulator, pairs, is_signed)


def dot_value(b: Any, accumulator: Any, pairs: _Pairs, is_signed: bool, isa: Any = ISA) -> Any:
    """<16 x i32> plus the dot products of one or two pairs of <64 x i8> (weights, activations).

    They are taken in pieces of the processor's width.
    """
    width = dot_width(isa)
    pieces = []
    for start in range(0, 64, width):
        lanes, sums = range(start, start + width), range(start // 4, (start + width) // 4)
        parts = [tuple(shuffle_value(b, vector, lanes) for vector in pair) for pair in pairs]
        pieces.append(dot_piece(b, shuffle_value(b, accumulator, sums), parts, is_signed, isa))
    return join_values(b, pieces)


def join_values(b: Any, pieces: Sequence[Any]) -> Any:
    """A power of two of equal vectors as one."""
    while len(pieces) > 1:
        pieces = [
            shuffle_value(b, x, range(2 * x.type.count), y) for x, y in zip(pieces[::2], pieces[1::2], strict=True)
        ]
    return pieces[0]


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
        return join_values(b, pieces)

    return define(vector, [vector], emit)
