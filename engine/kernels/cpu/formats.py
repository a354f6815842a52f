"""Layouts of quantised activations: what the quantise kernels write and the matmul kernels read.

Light on purpose (no numba): whoever lays out buffers imports this without waiting for a compiler.

INT8, a row of K values in blocks of 32, K padded with zeros to ``padded`` values, a multiple of GROUP:

    value = scale[block] * q                       q in -127..127, scale float32
    up to MATVEC_TOKENS rows: one row after the other, each
        q       padded bytes; each group of 4 blocks as 4 x 16 first halves, then 4 x 16 second halves
        scale   padded / 32 float32
        sum32   padded / 32 float32, scale * sum of the block's q
        sum16   padded / 16 float32, scale * sum of the half block's q
    on AVX2 units of 8 blocks instead, of which one of each row lie together; the blocks in UNIT_ORDER, each
        q       [8][8 blocks][4] bytes; of a row that is alone as above: [2][2 halves][4 blocks, in order][16] bytes
        scale, sum32 [8 blocks] float32, sum16 [2 halves][8 blocks] float32
    more rows: tiles of TOKEN_TILE rows, the last one filled with zeros, each (blocks beyond K hold anything)
        q       [padded / 4][TOKEN_TILE][4] bytes
        scale, sum32 [padded / 32][TOKEN_TILE] float32, sum16 [padded / 16][TOKEN_TILE] float32
        bias32, bias16 like sum32 and sum16, int32, -SIGNED_BIAS * sum of q: where a signed weight is stored plus
                SIGNED_BIAS because the processor multiplies unsigned by signed, the dot product starts here;
                on AVX2 two int16, the negated sum of the first two of each four q and that of the last two

FLOAT32: up to MATVEC_TOKENS rows one after the other, padded with zeros to a multiple of 16; more rows as tiles
[padded][TOKEN_TILE].
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu.isa import ISA, InstructionSet

HAS_UNITS: Final = ISA is InstructionSet.AVX2  # whether rows of few are units of 8 blocks
MATVEC_TOKENS: Final = 16 if HAS_UNITS else 8  # up to here, but of prompts, one pass over the weights as they lie
TOKEN_TILE: Final = 8 if ISA is InstructionSet.AVX512VNNI else 4  # 16 x tile accumulators fill the registers
SIGNED_BIAS: Final = 128 if ISA is InstructionSet.AVX512VNNI else 0
GROUP: Final = 256 if HAS_UNITS else 128  # values that matvec takes at once
UNIT_ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)  # as blocks lie in registers that hold two of them, once transposed
UNIT_SCALES: Final = 256  # bytes before the scales of a unit
UNIT_SUMS32: Final = 288
UNIT_SUMS16: Final = 320
UNIT_BYTES: Final = 384
MATVEC_BLOCK_BYTES: Final = 32 + 16
TILE_BLOCK_BYTES: Final = 32 + 16 + 12  # the same and the biases


class ActivationFormat(Enum):
    """How a matmul wants its input."""

    INT8 = "int8"
    FLOAT32 = "float32"


_FLOATS = {TensorType.F32, TensorType.F16, TensorType.BF16}
MATMUL_TYPES: Final = frozenset(
    {
        *_FLOATS,
        *(TensorType.Q4_0, TensorType.Q4_1, TensorType.Q5_0, TensorType.Q5_1, TensorType.Q8_0),
        *(TensorType.Q2_K, TensorType.Q3_K, TensorType.Q4_K, TensorType.Q5_K, TensorType.Q6_K),
        *(TensorType.IQ4_NL, TensorType.IQ4_XS, TensorType.MXFP4, TensorType.NVFP4, TensorType.Q1_0),
        *(TensorType.IQ1_S, TensorType.IQ1_M, TensorType.IQ2_XXS, TensorType.IQ2_XS, TensorType.IQ2_S),
        *(TensorType.IQ3_XXS, TensorType.IQ3_S, TensorType.TQ1_0, TensorType.TQ2_0),
    }
)


def activation_format(weight_type: TensorType) -> ActivationFormat:
    """The format that matmuls with this weight type read."""
    return ActivationFormat.FLOAT32 if weight_type in _FLOATS else ActivationFormat.INT8


def padded_width(width: int, activation: ActivationFormat) -> int:
    """Values of a row with its padding."""
    multiple = GROUP if activation is ActivationFormat.INT8 else 16
    return -(-width // multiple) * multiple


def activation_bytes(activation: ActivationFormat, width: int, max_tokens: int) -> int:
    """Bytes of the buffer for up to ``max_tokens`` rows of ``width`` values."""
    padded = padded_width(width, activation)
    tiles = -(-max_tokens // TOKEN_TILE) * TOKEN_TILE
    if activation is ActivationFormat.FLOAT32:
        return 4 * padded * max(tiles, MATVEC_TOKENS)
    blocks = padded // 32
    return blocks * max(tiles * TILE_BLOCK_BYTES, MATVEC_TOKENS * MATVEC_BLOCK_BYTES)


def activation_row_bytes(activation: ActivationFormat, width: int) -> int:
    """Bytes for each row in either layout; a buffer of whole tiles of rows is a multiple of 64."""
    padded = padded_width(width, activation)
    return 4 * padded if activation is ActivationFormat.FLOAT32 else padded // 32 * TILE_BLOCK_BYTES
