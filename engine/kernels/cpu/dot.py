"""The int8 dot product and the table lookup of each instruction set.

Products are exact in int32. A weight vector is "unsigned" (0..127) or "signed" (-128..127); where a processor only
multiplies unsigned by signed bytes, signed weights are taken plus ``SIGNED_BIAS`` and the excess, SIGNED_BIAS times
the sum of the activations, is taken off by the caller (see ``formats``).
"""

from __future__ import annotations

from collections.abc import Callable
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
