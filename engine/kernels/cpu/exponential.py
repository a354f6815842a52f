"""The exponential function of vectors.

exp(x) = 2^n * exp(r) with n = round(x / ln 2): |r| <= ln(2) / 2. ln 2 is split in two so that n * ln 2 is exact in
its high part; the polynomial is Cephes' expf (error below 2 units in the last place). x is clamped where 2^n would
leave the normal floats, and below the result is 0, so that what attention hides counts for nothing.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from engine.kernels.cpu.simd import FAST, I32, Vector, call_llvm, constant, fma_value, generic, hold_value

_TERMS = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def _emit_exp(b: Any, x: Any) -> Any:
    floats, integers = x.type, ir.VectorType(I32, x.type.count)
    suffix = f"v{floats.count}f32"
    least = constant(floats, -87.0)
    is_zero = b.fcmp_ordered("<", x, least)
    x = hold_value(b, hold_value(b, x, least, ">"), constant(floats, 88.0), "<")
    power = b.fmul(x, constant(floats, 1.4426950408889634), flags=FAST)
    power = call_llvm(b, f"llvm.rint.{suffix}", floats, [power])
    rest = fma_value(b, power, constant(floats, -0.693145751953125), x)
    rest = fma_value(b, power, constant(floats, -1.42860682030941723212e-6), rest)
    value = constant(floats, _TERMS[0])
    for term in _TERMS[1:]:
        value = fma_value(b, value, rest, constant(floats, term))
    square = b.fmul(rest, rest, flags=FAST)
    value = fma_value(b, value, square, b.fadd(rest, constant(floats, 1.0), flags=FAST))
    exponent = b.add(b.fptosi(power, integers), constant(integers, 127))
    result = b.fmul(value, b.bitcast(b.shl(exponent, constant(integers, 23)), floats), flags=FAST)
    return b.select(is_zero, ir.Constant(floats, None), result)


exp = generic(lambda x: (x, (x,), _emit_exp) if isinstance(x, Vector) and x.element == "f32" else None, 1)
