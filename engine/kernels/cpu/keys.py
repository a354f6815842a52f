"""Logits as integers that may be compared: what sampling does where a float could be infinite or NaN.

A key is a uint32 in the order of the floats: 0 for -inf, both zeros equal, NaNs of both signs above +inf. To the
float arithmetic of kernels, which is "fast", infinities and NaNs have no meaning; to keys they have.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from engine.kernels.cpu.exponential import exp
from engine.kernels.cpu.simd import (
    F32X16,
    I1,
    I16,
    I32,
    I32X16,
    I64,
    bits_to_f32,
    call_llvm,
    constant,
    define,
    inline,
    load_value,
    pointer,
    splat_value,
)

LOWEST: Final = 0  # key of -inf: a token that may not be chosen
_BIAS: Final = 0x7F800001  # from the order of signed integers to that of keys
NOT_FINITE: Final = 0x7F800000 + _BIAS  # key of +inf; those of NaNs are not smaller
SMALLEST_LOG: Final = -87.0  # weights of less than exp of it times the largest are 0
_SIGN: Final = 0x7FFFFFFF

f32_bits = define(types.int32, [types.float32], lambda b, value: b.bitcast(value, I32))


def _emit_load_keys(b: Any, address: Any, count: Any) -> Any:
    lanes = constant(I32X16.llvm, list(range(16)))
    wanted = b.icmp_signed("<", lanes, splat_value(b, b.trunc(count, I32), 16))
    infinity = constant(I32X16.llvm, np.float32(-np.inf).view(np.int32).item())
    values = [pointer(b, address, I32X16.llvm), I32(4), wanted, infinity]
    return _keys_of(b, call_llvm(b, "llvm.masked.load.v16i32.p0", I32X16.llvm, values))


def _keys_of(b: Any, bits: Any) -> Any:
    is_minus_zero = b.icmp_signed("==", bits, constant(I32X16.llvm, ~_SIGN))
    bits = b.select(is_minus_zero, constant(I32X16.llvm, 0), bits)  # both zeros have one key
    sign = b.ashr(bits, constant(I32X16.llvm, 31))
    ordered = b.xor(bits, b.and_(sign, constant(I32X16.llvm, _SIGN)))
    return b.add(ordered, constant(I32X16.llvm, _BIAS))


def _emit_allow(b: Any, keys: Any, address: Any) -> Any:
    allowed = b.bitcast(load_value(b, address, I16), ir.VectorType(I1, 16))
    return b.select(allowed, keys, constant(I32X16.llvm, LOWEST))


def _emit_log_weights(b: Any, keys: Any, best: Any, inverse_temperature: Any) -> Any:
    ordered = b.sub(keys, constant(I32X16.llvm, _BIAS))
    sign = b.ashr(ordered, constant(I32X16.llvm, 31))
    logits = b.bitcast(b.xor(ordered, b.and_(sign, constant(I32X16.llvm, _SIGN))), F32X16.llvm)
    logs = b.fmul(b.fsub(logits, splat_value(b, best, 16)), splat_value(b, inverse_temperature, 16))
    smallest = constant(F32X16.llvm, SMALLEST_LOG)
    return b.select(b.fcmp_ordered(">", logs, smallest), logs, smallest)


def _emit_drop_smallest(b: Any, weights: Any, logs: Any) -> Any:
    has_weight = b.fcmp_ordered(">", logs, constant(F32X16.llvm, SMALLEST_LOG))
    return b.select(has_weight, weights, ir.Constant(F32X16.llvm, None))


def _emit_larger(b: Any, x: Any, y: Any) -> Any:
    return call_llvm(b, "llvm.umax.v16i32", I32X16.llvm, [x, y])


def _emit_largest(b: Any, keys: Any) -> Any:
    return b.zext(call_llvm(b, "llvm.vector.reduce.umax.v16i32", I32, [keys]), I64)


# load_part_keys(address, count): keys of ``count`` floats, LOWEST behind them. 16 or more load all.
load_part_keys = define(I32X16, [types.int64, types.int64], _emit_load_keys)
load_keys = define(I32X16, [types.int64], lambda b, a: _keys_of(b, load_value(b, a, I32X16.llvm)))
# allow(keys, address): LOWEST where a bit of the 16 at the address is not set.
allow = define(I32X16, [I32X16, types.int64], _emit_allow)
# log_weights(keys, best, inverse_temperature): (logit - best) * inverse_temperature, at least SMALLEST_LOG.
log_weights = define(F32X16, [I32X16, types.float32, types.float32], _emit_log_weights)
drop_smallest = define(F32X16, [F32X16, F32X16], _emit_drop_smallest)
larger, largest = define(I32X16, [I32X16] * 2, _emit_larger), define(types.int64, [I32X16], _emit_largest)
load_key = define(types.int64, [types.int64], lambda b, a: b.zext(load_value(b, a, I32), I64))


@inline
def key_of(value):  # type: ignore[no-untyped-def]
    """Key of a finite float32."""
    bits = np.int64(f32_bits(np.float32(value)))
    return (bits ^ ((bits >> 31) & _SIGN)) + _BIAS


@inline
def value_of(key):  # type: ignore[no-untyped-def]
    """The float32 of a key."""
    ordered = key - _BIAS
    return bits_to_f32(np.int32(ordered ^ ((ordered >> 31) & _SIGN)))


@inline
def smallest_key_at_least(bound):  # type: ignore[no-untyped-def]
    """Smallest key of a float32 that is not less than the float64 ``bound``."""
    rounded = np.float32(bound)
    return key_of(rounded) + (1 if np.float64(rounded) < bound else 0)


@inline
def weights_of(keys, best, inverse_temperature):  # type: ignore[no-untyped-def]
    """Probabilities of 16 logits relative to that of the logit ``best``."""
    logs = log_weights(keys, best, inverse_temperature)
    return drop_smallest(exp(logs), logs)
