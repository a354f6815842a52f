"""The EMBED op: rows of a weight of any type to float32, by the token ids of the step.

Also the definition of what each type's bytes mean, for tests: a kernel computes what is dequantised here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.operands import (
    EMBED_IDS,
    EMBED_OUT,
    EMBED_ROW_BYTES,
    EMBED_SCALE,
    EMBED_WEIGHT,
    EMBED_WIDTH,
)
from engine.kernels.cpu.simd import (
    bits_to_f32,
    inline,
    load_f16,
    load_f32,
    load_i8x16_as_f32,
    load_i32,
    load_i64,
    load_u16,
    splat_f32x16,
    store_f32,
    store_f32x16,
)
from engine.kernels.cpu.step_state import NUM_TOKENS, SCRATCH, SCRATCH_BYTES
from engine.kernels.cpu.weight_types import weight_type

Kernel = Callable[[int, int, int, int], None]
_PIECE = 4096  # values unpacked at once
_SCALES = _PIECE  # offsets in the scratch
_OFFSETS = _SCALES + 4 * _PIECE // 16


@inline
def load_bf16(address: int) -> Any:
    """One bfloat16, widened."""
    return bits_to_f32(np.int32(np.uint32(load_u16(address)) << np.uint32(16)))


FLOAT_LOADS = {TensorType.F32: (load_f32, 4), TensorType.F16: (load_f16, 2), TensorType.BF16: (load_bf16, 2)}


def embed_kernel(tensor_type: TensorType) -> Kernel:
    """Kernel of EMBED for a weight type; the threads share out tokens."""
    row = _float_row(tensor_type) if tensor_type in FLOAT_LOADS else _quantised_row(tensor_type)

    def embed(op: int, step: int, thread: int, num_threads: int) -> None:
        weight, row_bytes = load_i64(op + 8 * EMBED_WEIGHT), load_i64(op + 8 * EMBED_ROW_BYTES)
        width, out = load_i64(op + 8 * EMBED_WIDTH), load_i64(op + 8 * EMBED_OUT)
        scale = load_f32(op + 8 * EMBED_SCALE)
        scratch = load_i64(step + 8 * SCRATCH) + thread * load_i64(step + 8 * SCRATCH_BYTES)
        num_tokens, ids = load_i64(step + 8 * NUM_TOKENS), load_i64(step + 8 * load_i64(op + 8 * EMBED_IDS))
        for token in range(num_tokens * thread // num_threads, num_tokens * (thread + 1) // num_threads):
            source = weight + row_bytes * np.int64(load_i32(ids + 4 * token))
            row(source, width, out + 4 * width * token, scale, scratch)

    embed.__name__ = f"embed_{tensor_type.name.lower()}"
    return embed


def _float_row(tensor_type: TensorType) -> Any:
    load_value, value_bytes = FLOAT_LOADS[tensor_type]

    @inline
    def row(source: int, width: int, out: int, scale: Any, scratch: int) -> None:
        for k in range(width):
            store_f32(out + 4 * k, load_value(source + value_bytes * k) * scale)

    return row


def _quantised_row(tensor_type: TensorType) -> Any:
    weight = weight_type(tensor_type)
    unpack, is_affine, values_per_scale = weight.unpack, weight.is_affine, weight.values_per_scale
    block_values, block_bytes = weight.block_values, weight.block_bytes

    @inline
    def row(source: int, width: int, out: int, scale: Any, scratch: int) -> None:
        for start in range(0, width, _PIECE):
            count = min(_PIECE, width - start)
            first_block = source + start // block_values * block_bytes
            unpack(first_block, count // block_values, scratch, scratch + _SCALES, scratch + _OFFSETS, 4)
            for k in range(0, count, 16):
                factor = load_f32(scratch + _SCALES + 4 * (k // values_per_scale))
                value = load_i8x16_as_f32(scratch + k) * splat_f32x16(factor)
                if is_affine:
                    value = value - splat_f32x16(load_f32(scratch + _OFFSETS + 4 * (k // values_per_scale)))
                store_f32x16(out + 4 * (start + k), value * splat_f32x16(scale))

    return row
