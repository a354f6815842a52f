"""The public face of the kernels that read weights: MATMUL and EMBED for every type, QUANTIZE for their input.

A kernel here is a plain function of (op, step, thread, num_threads); the operands are those of ``operands``.
Kernels are made on demand, so a model compiles only the types it holds. ``formats`` has what is needed to lay out
buffers without importing numba.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.dequantize import FLOAT_LOADS, embed_kernel
from engine.kernels.cpu.formats import (
    ActivationFormat,
    activation_bytes,
    activation_format,
)
from engine.kernels.cpu.gemm import Gemm, make_gemm
from engine.kernels.cpu.matmul_float import make_float_gemm, make_float_matvec
from engine.kernels.cpu.matvec import Matvec, make_matvec
from engine.kernels.cpu.operands import MATMUL_ROWS_KIND
from engine.kernels.cpu.quantize import few_rows, quantize_float32, quantize_int8
from engine.kernels.cpu.simd import load_i64
from engine.kernels.cpu.step_state import SCRATCH, SCRATCH_BYTES
from engine.kernels.cpu.units import Unit, generic_unit
from engine.kernels.cpu.units_k import K_UNITS
from engine.kernels.cpu.units_legacy import LEGACY_TYPES, legacy_unit
from engine.kernels.cpu.weight_types import weight_type

__all__ = [
    "ActivationFormat",
    "activation_bytes",
    "activation_format",
    "embed_kernel",
    "matmul_functions",
    "matmul_kernel",
    "quantize_kernel",
]

Kernel = Callable[[int, int, int, int], None]


def quantize_kernel(activation: ActivationFormat) -> Kernel:
    """Kernel of QUANTIZE to a format."""
    return quantize_int8 if activation is ActivationFormat.INT8 else quantize_float32


def matmul_kernel(tensor_type: TensorType) -> Kernel:
    """Kernel of MATMUL for a weight type of ``formats.MATMUL_TYPES``; KeyError for another.

    Any number of rows and tokens; the width is a multiple of the type's block. Uses less than 1 MiB of scratch.
    """
    matvec, gemm = matmul_functions(tensor_type)

    def matmul(op: int, step: int, thread: int, num_threads: int) -> None:
        kind = load_i64(op + 8 * MATMUL_ROWS_KIND)
        num_tokens, few = load_i64(step + 8 * kind), few_rows(step, kind)
        scratch = load_i64(step + 8 * SCRATCH) + thread * load_i64(step + 8 * SCRATCH_BYTES)
        if num_tokens <= few:
            matvec(op, scratch, num_tokens, thread, num_threads)
        else:
            gemm(op, scratch, num_tokens, thread, num_threads)

    matmul.__name__ = f"matmul_{tensor_type.name.lower()}"
    return matmul


def matmul_functions(tensor_type: TensorType) -> tuple[Matvec, Gemm]:
    """A thread's share of a MATMUL of few and of many rows, to be inlined into kernels."""
    if tensor_type in FLOAT_LOADS:
        return make_float_matvec(tensor_type), make_float_gemm(tensor_type)
    return make_matvec(_unit(tensor_type), tensor_type), make_gemm(weight_type(tensor_type))


def _unit(tensor_type: TensorType) -> Unit:
    if tensor_type in LEGACY_TYPES:
        return legacy_unit(tensor_type)
    if tensor_type in K_UNITS:
        return K_UNITS[tensor_type]
    return generic_unit(weight_type(tensor_type))
