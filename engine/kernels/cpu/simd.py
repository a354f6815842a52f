"""LLVM vectors as numba values over int64 addresses: the words in which all CPU kernels are written.

Owns vector types, loads and stores, arithmetic, conversions, reductions and atomics. The code it emits is
plain vector IR that LLVM fits to any processor (a vector wider than a register becomes several); what needs an
instruction set of its own, the int8 dot products, is in ``dot.py``. Knows nothing of tensors or models.

A vector lives in registers only: a local variable or an argument of an ``inline`` function, never an array
element. Addresses are int64 byte addresses and need no alignment unless said otherwise. All float arithmetic is
"fast": the order of sums is free, and zeros have no sign. NaN and infinity keep their meaning: weights of a damaged
file must show in the logits.
"""

from __future__ import annotations

import operator
import platform
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, register_model

from engine.kernels.cpu.compiler import FAST as FAST
from engine.kernels.cpu.emulation import emulation
from engine.kernels.cpu.inline import inline as inline
from engine.kernels.cpu.inline import with_arity

Emit = Callable[..., Any]  # (IRBuilder, *LLVM values) -> LLVM value, or None for a procedure

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F16, F32 = ir.HalfType(), ir.FloatType()
_ELEMENTS = {"i8": I8, "i16": I16, "i32": I32, "i64": I64, "f16": F16, "f32": F32}


class Vector(types.Type):
    """The numba type of an LLVM vector.

    Attributes:
        element: "i8", "i16", "i32", "i64", "f16" or "f32"; integers have no sign of their own.
        lanes: number of elements.
    """

    def __init__(self, element: str, lanes: int) -> None:
        self.element = element
        self.lanes = lanes
        super().__init__(name=f"Vector({element} x {lanes})")

    @property
    def llvm(self) -> Any:
        """The LLVM type."""
        return ir.VectorType(_ELEMENTS[self.element], self.lanes)


class VectorModel(PrimitiveModel):
    """A vector is passed and stored as the LLVM vector itself."""

    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)


register_model(Vector)(VectorModel)

U8X16, U8X32, U8X64 = (Vector("i8", lanes) for lanes in (16, 32, 64))
I16X8, I16X16, I16X32 = (Vector("i16", lanes) for lanes in (8, 16, 32))
I32X4, I32X8, I32X16 = (Vector("i32", lanes) for lanes in (4, 8, 16))
F16X16 = Vector("f16", 16)
F32X4, F32X8, F32X16 = (Vector("f32", lanes) for lanes in (4, 8, 16))


def generic(resolve: Callable[..., tuple[Any, tuple[Any, ...], Emit] | None], arity: int) -> Any:
    """A function for kernels whose code depends on its argument types.

    ``resolve`` gets the numba types of the arguments and returns (result type, argument types, emit).
    """

    def typing(*given: Any) -> Any:
        resolved = resolve(*given)
        if resolved is None:
            return None
        result, arguments, emit = resolved

        def generate(context: Any, builder: Any, _signature: Any, values: Sequence[Any]) -> Any:
            value = emit(builder, *values)
            return context.get_dummy_value() if value is None else value

        return signature(result, *arguments), generate

    return intrinsic(with_arity(lambda _context, *given: typing(*given), arity))


def define(result: Any, arguments: Sequence[Any], emit: Emit) -> Any:
    """A function for kernels with fixed types, whose code ``emit(builder, *values)`` writes."""
    return generic(lambda *_: (result, tuple(arguments), emit), len(arguments))


# Words for emitters: they take a builder and LLVM values.


def pointer(builder: Any, address: Any, target: Any) -> Any:
    """``address`` as a pointer to the LLVM type ``target``."""
    return builder.inttoptr(address, target.as_pointer())


def load_value(builder: Any, address: Any, target: Any, offset: int = 0) -> Any:
    """An unaligned load of the LLVM type ``target`` at ``address + offset``."""
    if offset:
        address = builder.add(address, I64(offset))
    return builder.load(pointer(builder, address, target), align=1)


def constant(vector: Any, value: Any) -> Any:
    """A constant of the LLVM vector type ``vector``: one value for all lanes, or a list."""
    values = list(value) if isinstance(value, Sequence) else [value] * vector.count
    return ir.Constant(vector, values)


def shuffle_value(builder: Any, a: Any, lanes: Sequence[int], b: Any = None) -> Any:
    """The chosen lanes of ``a`` (and, from len(a) on, of ``b``)."""
    b = ir.Constant(a.type, ir.Undefined) if b is None else b
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def splat_value(builder: Any, scalar: Any, lanes: int) -> Any:
    """``scalar`` in all lanes of a vector."""
    one = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
    return shuffle_value(builder, builder.insert_element(one, scalar, I32(0)), [0] * lanes)


def call_llvm(builder: Any, name: str, result: Any, values: Sequence[Any], flags: Sequence[str] = ()) -> Any:
    """A call of an LLVM intrinsic or C function by its full name."""
    if (emulated := emulation(name)) is not None:
        return emulated(builder, *values)
    function_type = ir.FunctionType(result, [value.type for value in values])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    return builder.call(function, values, fastmath=flags)


def fma_value(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c on f32 vectors."""
    return call_llvm(builder, f"llvm.fma.v{a.type.count}f32", a.type, [a, b, c], FAST)


def hold_value(b: Any, x: Any, bound: Any, comparison: str) -> Any:
    """``bound`` where it compares so with ``x``, else ``x``: one instruction on x86, which keeps a NaN of ``x``."""
    return b.select(b.fcmp_ordered(comparison, bound, x), bound, x)


def keep_order_value(builder: Any, value: Any) -> Any:
    """The same f32 vector, but what it is multiplied or added with is not computed with its operands first.

    Fast arithmetic may regroup factors, and does so differently for one token and for several.
    """
    return call_llvm(builder, f"llvm.arithmetic.fence.v{value.type.count}f32", value.type, [value])


# Loads and stores.


def load(vector: Vector) -> Any:
    """Makes ``f(address) -> vector``."""
    return define(vector, [types.int64], lambda b, address: load_value(b, address, vector.llvm))


def store(vector: Vector) -> Any:
    """Makes ``f(address, vector)``."""

    def emit(b: Any, address: Any, value: Any) -> None:
        b.store(value, pointer(b, address, vector.llvm), align=1)

    return define(types.void, [types.int64, vector], emit)


def _load_scalar(element: Any, result: Any) -> Any:
    def emit(b: Any, address: Any) -> Any:
        value = load_value(b, address, element)
        return b.fpext(value, F32) if element is F16 else value

    return define(result, [types.int64], emit)


def _store_scalar(element: Any, given: Any) -> Any:
    def emit(b: Any, address: Any, value: Any) -> None:
        value = b.fptrunc(value, F16) if element is F16 else value
        b.store(value, pointer(b, address, element), align=1)

    return define(types.void, [types.int64, given], emit)


load_u8, load_i8 = _load_scalar(I8, types.uint8), _load_scalar(I8, types.int8)
load_u16, load_i16 = _load_scalar(I16, types.uint16), _load_scalar(I16, types.int16)
load_u32, load_i32 = _load_scalar(I32, types.uint32), _load_scalar(I32, types.int32)
load_u64, load_i64 = _load_scalar(I64, types.uint64), _load_scalar(I64, types.int64)
load_f16 = _load_scalar(F16, types.float32)  # widened
load_f32 = _load_scalar(F32, types.float32)
store_i8, store_i16 = _store_scalar(I8, types.int8), _store_scalar(I16, types.int16)
store_i32, store_i64 = _store_scalar(I32, types.int32), _store_scalar(I64, types.int64)
store_f16 = _store_scalar(F16, types.float32)  # rounded to nearest even
store_f32 = _store_scalar(F32, types.float32)

load_u8x16, load_u8x32, load_u8x64 = load(U8X16), load(U8X32), load(U8X64)
store_u8x16, store_u8x32, store_u8x64 = store(U8X16), store(U8X32), store(U8X64)
load_i32x16, store_i32x16 = load(I32X16), store(I32X16)
load_f32x4, load_f32x8, load_f32x16 = load(F32X4), load(F32X8), load(F32X16)
store_f32x8, store_f32x16 = store(F32X8), store(F32X16)
load_f16x16 = define(F32X16, [types.int64], lambda b, a: b.fpext(load_value(b, a, F16X16.llvm), F32X16.llvm))
load_i8x16_as_f32 = define(F32X16, [types.int64], lambda b, a: b.sitofp(load_value(b, a, U8X16.llvm), F32X16.llvm))


def _emit_load_bf16x16(b: Any, address: Any) -> Any:
    bits = b.zext(load_value(b, address, I16X16.llvm), I32X16.llvm)
    return b.bitcast(b.shl(bits, constant(I32X16.llvm, 16)), F32X16.llvm)


def _emit_store_f16x16(b: Any, address: Any, value: Any) -> None:
    b.store(b.fptrunc(value, F16X16.llvm), pointer(b, address, F16X16.llvm), align=1)


load_bf16x16 = define(F32X16, [types.int64], _emit_load_bf16x16)
store_f16x16 = define(types.void, [types.int64, F32X16], _emit_store_f16x16)
bits_to_f32 = define(types.float32, [types.int32], lambda b, bits: b.bitcast(bits, F32))

# Constants, lanes and conversions.


def zeros(vector: Vector) -> Any:
    """Makes ``f() -> vector`` of zeros."""
    return define(vector, [], lambda _b: ir.Constant(vector.llvm, None))


def splat(vector: Vector) -> Any:
    """Makes ``f(scalar) -> vector``."""
    scalar = {"f32": types.float32, "i32": types.int32, "i16": types.int16, "i8": types.int8}[vector.element]
    return define(vector, [scalar], lambda b, value: splat_value(b, value, vector.lanes))


def shuffle(vector: Vector, lanes: Sequence[int], both: bool = False) -> Any:
    """Makes ``f(a)``, or with ``both`` ``f(a, b)``, that gives the chosen lanes of ``a`` followed by ``b``."""
    result = Vector(vector.element, len(lanes))
    if both:
        return define(result, [vector, vector], lambda b, x, y: shuffle_value(b, x, lanes, y))
    return define(result, [vector], lambda b, x: shuffle_value(b, x, lanes))


def convert(source: Vector, target: Vector, instruction: str) -> Any:
    """Makes ``f(a) -> target`` from an IRBuilder conversion: "sitofp", "bitcast", "zext" and so on."""
    return define(target, [source], lambda b, value: getattr(b, instruction)(value, target.llvm))


def with_constant(vector: Vector, instruction: str, value: int) -> Any:
    """Makes ``f(a) -> a`` from an IRBuilder operation with a constant: "and_", "or_", "add", "lshr", "shl"."""
    return define(vector, [vector], lambda b, x: getattr(b, instruction)(x, constant(vector.llvm, value)))


def spread_bits(vector: Vector, value: int) -> Any:
    """Makes ``f(uint32) -> vector`` of bytes: ``value`` where bit i is set, else 0; 32 lanes."""
    mask = ir.VectorType(I1, 32)

    def emit(b: Any, bits: Any) -> Any:
        return b.select(b.bitcast(bits, mask), constant(vector.llvm, value), constant(vector.llvm, 0))

    return define(vector, [types.uint32], emit)


zeros_f32x4, zeros_f32x8, zeros_f32x16 = zeros(F32X4), zeros(F32X8), zeros(F32X16)
zeros_i32x16 = zeros(I32X16)
splat_f32x4, splat_f32x8, splat_f32x16 = splat(F32X4), splat(F32X8), splat(F32X16)
splat_i32x16, splat_u8x64 = splat(I32X16), splat(U8X64)
to_f32x16 = convert(I32X16, F32X16, "sitofp")
to_i32x16 = convert(F32X16, I32X16, "fptosi")  # towards zero
to_u8x16 = convert(I32X16, U8X16, "trunc")

# Arithmetic. The operators + - * & | ^ take two vectors of one type, + - * / on floats.

_INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and_": "and_", "or_": "or_", "xor": "xor"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "truediv": "fdiv"}


def _register_operator(name: str) -> None:
    key = getattr(operator, name)

    class Typing(AbstractTemplate):
        def generic(self, args: Any, _keywords: Any) -> Any:
            table = _FLOAT if isinstance(args[0], Vector) and args[0].element[0] == "f" else _INTEGER
            is_pair = len(args) == 2 and isinstance(args[0], Vector) and args[0] == args[1]
            return signature(args[0], *args) if is_pair and name in table else None

    def lower(_context: Any, builder: Any, operation: Any, values: Any) -> Any:
        if operation.return_type.element[0] == "f":
            return getattr(builder, _FLOAT[name])(*values, flags=FAST)
        return getattr(builder, _INTEGER[name])(*values)

    infer_global(key)(Typing)
    lower_builtin(key, Vector, Vector)(lower)


for _name in sorted({*_INTEGER, *_FLOAT}):
    _register_operator(_name)


def _llvm_on_floats(name: str, arity: int) -> Any:
    def resolve(*given: Any) -> Any:
        if not isinstance(given[0], Vector):
            return None
        full_name = f"llvm.{name}.v{given[0].lanes}f32"
        return given[0], given, lambda b, *values: call_llvm(b, full_name, values[0].type, values, FAST)

    return generic(resolve, arity)


fma = _llvm_on_floats("fma", 3)  # a * b + c
absolute, round_even, square_root = (_llvm_on_floats(name, 1) for name in ("fabs", "rint", "sqrt"))


def _two_floats(emit: Emit) -> Any:
    def resolve(x: Any, y: Any) -> Any:
        return (x, (x, y), emit) if isinstance(x, Vector) and x == y and x.element == "f32" else None

    return generic(resolve, 2)


# at_least(x, bound), at_most(x, bound): x, or the bound where x lies beyond it. A NaN of x stays one.
at_least = _two_floats(lambda b, x, bound: hold_value(b, x, bound, ">"))
at_most = _two_floats(lambda b, x, bound: hold_value(b, x, bound, "<"))


# keep_order(sum): the same, but nothing added to it is added to something else first, as fast arithmetic may.
keep_order = define(F32X16, [F32X16], keep_order_value)


def _reduce(name: str, element: str, start: bool = False) -> Any:
    def resolve(vector: Any) -> Any:
        if not isinstance(vector, Vector) or vector.element != element:
            return None
        scalar, result = (F32, types.float32) if element == "f32" else (I32, types.int32)
        full_name = f"llvm.vector.reduce.{name}.v{vector.lanes}{element}"
        first = [F32(0.0)] if start else []
        return result, (vector,), lambda b, v: call_llvm(b, full_name, scalar, [*first, v], FAST if start else ())

    return generic(resolve, 1)


reduce_add = _reduce("fadd", "f32", start=True)
reduce_max = _reduce("fmax", "f32")  # a NaN is passed over
reduce_add_i32 = _reduce("add", "i32")


def _emit_keep_lanes(b: Any, vector: Any, count: Any, other: Any) -> Any:
    lanes = constant(I32X16.llvm, list(range(16)))
    keep = b.icmp_signed("<", lanes, splat_value(b, b.trunc(count, I32), 16))
    return b.select(keep, vector, splat_value(b, other, 16))


# keep_lanes(vector, count, other): the first ``count`` lanes, and ``other`` in the rest.
keep_lanes = define(F32X16, [F32X16, types.int64, types.float32], _emit_keep_lanes)

# Memory and threads. Atomics work on aligned int64.


def _emit_prefetch(b: Any, address: Any) -> None:
    arguments = [pointer(b, address, I8), I32(0), I32(3), I32(1)]  # read, keep in all levels, data
    call_llvm(b, "llvm.prefetch.p0", ir.VoidType(), arguments)


def _emit_pause(b: Any) -> None:
    machine = platform.machine().lower()
    if machine in {"x86_64", "amd64"}:
        call_llvm(b, "llvm.x86.sse2.pause", ir.VoidType(), [])
    elif machine in {"arm64", "aarch64"}:
        call_llvm(b, "llvm.aarch64.hint", ir.VoidType(), [I32(1)])  # yield


def _emit_atomic_store(b: Any, address: Any, value: Any) -> None:
    b.store_atomic(value, pointer(b, address, I64), "release", 8)


def _emit_compare_exchange(b: Any, address: Any, expected: Any, new: Any) -> Any:
    pair = b.cmpxchg(pointer(b, address, I64), expected, new, "seq_cst", "seq_cst")
    return b.extract_value(pair, 0)


prefetch = define(types.void, [types.int64], _emit_prefetch)
pause = define(types.void, [], _emit_pause)
atomic_add = define(  # returns the value before
    types.int64, [types.int64] * 2, lambda b, a, v: b.atomic_rmw("add", pointer(b, a, I64), v, "seq_cst")
)
atomic_load = define(types.int64, [types.int64], lambda b, a: b.load_atomic(pointer(b, a, I64), "acquire", 8))
atomic_store = define(types.void, [types.int64] * 2, _emit_atomic_store)
compare_exchange = define(types.int64, [types.int64] * 3, _emit_compare_exchange)  # returns the value before
