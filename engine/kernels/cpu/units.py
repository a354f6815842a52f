"""How ``matvec`` reads weights: a *unit* of four or eight blocks of 32 at a time, unpacked in registers.

Owns what all types share. A unit's weights are vectors of 64 bytes, two for each four blocks: the 4 x 16 first
halves of the blocks, then the 4 x 16 second halves. ``units_legacy`` and ``units_k`` say how those of a type come
about; ``generic_unit`` makes them for any type by way of its unpacker: right for all, fast for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from engine.kernels.cpu.dot_tiles import Tile
from engine.kernels.cpu.formats import SIGNED_BIAS
from engine.kernels.cpu.simd import (
    F32X4,
    F32X8,
    F32X16,
    I64,
    U8X16,
    U8X64,
    Vector,
    define,
    inline,
    load,
    load_value,
    shuffle_value,
    splat,
)
from engine.kernels.cpu.weight_types import WeightType

GROUP_VALUES = 128  # of four blocks


@dataclass(frozen=True)
class Unit:
    """A type's weights as ``matvec`` takes them.

    Attributes:
        load: inlined ``f(source) -> (weights, scales, offsets)``: a tile of two or four U8X64, and for each block,
            or half block, in order, its scale and what is subtracted for each unit of the activations' sum.
        num_blocks: 4 or 8.
        num_bytes: bytes of them, all of which are read; a row may end within its last unit.
        largest: magnitude that a weight may have.
        is_signed: weights are -128..127, else 0..63.
        values_per_scale: 32 or 16.
    """

    load: Any
    num_blocks: int
    num_bytes: int
    largest: int
    is_signed: bool = False
    values_per_scale: int = 32

    @property
    def num_values(self) -> int:
        """Weights of a unit."""
        return 32 * self.num_blocks

    @property
    def num_vectors(self) -> int:
        """Vectors of 64 weights."""
        return self.num_blocks // 2

    @property
    def scales(self) -> Vector:
        """Vector type of the scales and of the offsets."""
        return {4: F32X4, 8: F32X8, 16: F32X16}[self.num_values // self.values_per_scale]


def _emit_load_4x16(b: Any, address: Any, stride: Any) -> Any:
    parts = [load_value(b, b.add(address, b.mul(stride, stride.type(index))), U8X16.llvm) for index in range(4)]
    pairs = [shuffle_value(b, parts[index], range(32), parts[index + 1]) for index in (0, 2)]
    return shuffle_value(b, pairs[0], range(64), pairs[1])


def _weights(count: int) -> Any:
    tile = Tile(U8X64, count)

    def emit(b: Any, *vectors: Any) -> Any:
        value = ir.Constant(tile.llvm, ir.Undefined)
        for index, vector in enumerate(vectors):
            value = b.insert_value(value, vector, index)
        return value

    return define(tile, [U8X64] * count, emit)


def _emit_stack_bytes(b: Any) -> Any:
    with b.goto_entry_block():
        space = b.alloca(U8X64.llvm, 6)
    return b.ptrtoint(space, I64)


# load_4x16(address, stride): 4 x 16 bytes, ``stride`` apart, as one vector.
load_4x16 = define(U8X64, [types.int64, types.int64], _emit_load_4x16)
weights_2, weights_4 = _weights(2), _weights(4)  # (vector, ...): a unit's weights
stack_bytes = define(types.int64, [], _emit_stack_bytes)  # 384 bytes that live as long as the function


def generic_unit(weight: WeightType) -> Unit:
    """Unpacks one block (or four of 32) to scratch memory first."""
    blocks = max(1, GROUP_VALUES // weight.block_values)
    unpack, is_affine = weight.unpack, weight.is_affine
    unit = Unit(
        load=None,
        num_blocks=blocks * weight.block_values // 32,
        num_bytes=blocks * weight.block_bytes,
        largest=max(-weight.lowest, weight.highest),
        is_signed=not is_affine,
        values_per_scale=weight.values_per_scale,
    )
    load_scales, spread, bias = load(unit.scales), splat(unit.scales), np.float32(SIGNED_BIAS)
    is_double = unit.num_blocks == 8

    @inline
    def load_vectors(space: int) -> Any:
        low, high = load_4x16(space, 32), load_4x16(space + 16, 32)
        if is_double:
            return weights_4(low, high, load_4x16(space + 128, 32), load_4x16(space + 144, 32))
        return weights_2(low, high)

    @inline
    def load_unit(source: int) -> Any:
        space = stack_bytes()
        unpack(source, blocks, space, space + 256, space + 320, 4)
        scales = load_scales(space + 256)
        offsets = load_scales(space + 320) if is_affine else scales * spread(bias)
        return load_vectors(space), scales, offsets

    return Unit(**{**vars(unit), "load": load_unit})
