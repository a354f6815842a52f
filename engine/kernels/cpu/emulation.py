"""The instructions that the kernels name, as plain vector code that LLVM fits to any processor.

For tests alone: with ``FIRESIDE_ISA=avx512vnni-emulated`` and the like the kernels of an instruction set, with
their tiles and layouts, run on a processor that lacks it; only these few instructions are others. Slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from engine.kernels.cpu.isa import IS_EMULATED

Emulation = Callable[..., Any]  # (IRBuilder, *LLVM values) -> LLVM value

_I16, _I32 = ir.IntType(16), ir.IntType(32)


def emulation(name: str) -> Emulation | None:
    """What stands for the LLVM intrinsic ``name`` in this process; None where the processor has it."""
    return _EMULATIONS.get(name) if IS_EMULATED else None


def _constant(vector: Any, value: int) -> Any:
    return ir.Constant(vector, [value] * vector.count)


def _lanes(b: Any, vector: Any, lanes: Sequence[int]) -> Any:
    undefined = ir.Constant(vector.type, ir.Undefined)
    return b.shuffle_vector(vector, undefined, ir.Constant(ir.VectorType(_I32, len(lanes)), list(lanes)))


def _add_neighbours(b: Any, vector: Any, count: int) -> Any:
    """Sums of each ``count`` neighbours."""
    parts = [_lanes(b, vector, range(start, vector.type.count, count)) for start in range(count)]
    total = parts[0]
    for part in parts[1:]:
        total = b.add(total, part)
    return total


def _products(b: Any, x: Any, y: Any, is_x_signed: bool) -> Any:
    wide = ir.VectorType(_I32, x.type.count)
    return b.mul((b.sext if is_x_signed else b.zext)(x, wide), b.sext(y, wide))


def _dot_of_unsigned(b: Any, total: Any, weights: Any, values: Any) -> Any:
    return b.add(total, _add_neighbours(b, _products(b, weights, values, False), 4))


def _dot_of_signed(b: Any, total: Any, weights: Any, values: Any) -> Any:
    return b.add(total, _add_neighbours(b, _products(b, weights, values, True), 4))


def _add_pairs_saturating(b: Any, weights: Any, values: Any) -> Any:
    sums = _add_neighbours(b, _products(b, weights, values, False), 2)
    least, most = _constant(sums.type, -32768), _constant(sums.type, 32767)
    sums = b.select(b.icmp_signed("<", sums, least), least, sums)
    sums = b.select(b.icmp_signed(">", sums, most), most, sums)
    return b.trunc(sums, ir.VectorType(_I16, sums.type.count))


def _add_pairs(b: Any, x: Any, y: Any) -> Any:
    return _add_neighbours(b, _products(b, x, y, True), 2)


def _round(b: Any, x: Any) -> Any:
    name = f"llvm.rint.v{x.type.count}f32"
    rint = cgutils.get_or_insert_function(b.module, ir.FunctionType(x.type, [x.type]), name)
    return b.fptosi(b.call(rint, [x]), ir.VectorType(_I32, x.type.count))


def _with_sign(b: Any, values: Any, signs: Any) -> Any:
    zero = _constant(values.type, 0)
    negative = b.select(b.icmp_signed("<", signs, zero), b.sub(zero, values), values)
    return b.select(b.icmp_signed("==", signs, zero), zero, negative)


def _take(b: Any, table: Any, indices: Any) -> Any:
    """Bytes at indices 0..15 of the first 16 of the table, which are all that the kernels ask for."""
    result = _constant(indices.type, 0)
    for index in range(16):
        value = _lanes(b, table, [index] * indices.type.count)
        result = b.select(b.icmp_signed("==", indices, _constant(indices.type, index)), value, result)
    return result


_EMULATIONS: dict[str, Emulation] = {
    "llvm.x86.avx512.vpdpbusd.512": _dot_of_unsigned,
    "llvm.x86.avx512.pshuf.b.512": _take,
    "llvm.x86.avx2.pshuf.b": _take,
    "llvm.x86.ssse3.pshuf.b.128": _take,
    "llvm.x86.avx2.pmadd.ub.sw": _add_pairs_saturating,
    "llvm.x86.avx2.pmadd.wd": _add_pairs,
    "llvm.x86.avx2.psign.b": _with_sign,
    "llvm.x86.avx.cvt.ps2dq.256": _round,
    "llvm.aarch64.neon.sdot.v4i32.v16i8": _dot_of_signed,
    "llvm.aarch64.neon.tbl1.v16i8": _take,
}
