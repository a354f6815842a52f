"""The vector words, each in a small kernel against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit, types

from engine.kernels.cpu import dot, dot_tiles, simd
from engine.kernels.cpu.compiler import FAST
from engine.kernels.cpu.exponential import exp
from engine.kernels.cpu.inline import inline

lookup = dot.lookup([-127, 104, -83, 65, 49, -35, 22, 10, 1, 13, 25, 38, 53, -69, 89, 113], 64)
transpose = dot_tiles.transpose_16(0)
spread_bits = simd.spread_bits(simd.U8X32, 5)
two_sums = dot_tiles.tile_zeros(simd.F32X16, 2)
add_products = dot_tiles.add_products(simd.F32X16, 2)
no_minus, store_sums = dot_tiles.tile_zeros(simd.F32X4, 2), dot_tiles.store_sums(simd.F32X4, 2)


@inline
def pair(x: int) -> tuple[object, object]:
    return simd.load_f32x16(x), simd.load_f32x16(x + 64)


@njit(types.void(types.int64, types.int64), error_model="numpy", fastmath=True)
def floats(x, out):
    a, b = pair(x)
    simd.store_f32x16(out, simd.fma(a, b, a - b))
    simd.store_f32x16(out + 64, a * b / (simd.absolute(b) + simd.splat_f32x16(1.0)))
    simd.store_f32x16(out + 128, exp(a))
    simd.store_f32x16(out + 192, simd.keep_lanes(simd.at_least(a, b), 5, -7.0))
    simd.store_f32x16(out + 256, simd.to_f32x16(simd.to_i32x16(simd.round_even(simd.at_most(a, b)))))
    simd.store_f32(out + 320, simd.reduce_add(a))
    simd.store_f32(out + 324, simd.reduce_max(a))
    simd.store_f32(out + 328, np.float32(simd.reduce_add_i32(simd.splat_i32x16(3))))
    simd.store_f32(out + 332, simd.bits_to_f32(simd.load_i32(x)))


@njit(types.void(types.int64, types.int64), error_model="numpy", fastmath=True)
def halves(x, out):
    value = simd.load_f32x16(x)
    simd.store_f16x16(out, value)
    simd.store_f32x16(out + 64, simd.load_f16x16(out))
    simd.store_f16(out + 32, simd.load_f32(x))
    simd.store_f32(out + 36, simd.load_f16(out + 32))
    simd.store_f32x16(out + 128, simd.load_bf16x16(x))
    simd.store_f32x16(out + 192, simd.load_i8x16_as_f32(x))


@njit(types.void(types.int64, types.int64), error_model="numpy", fastmath=True)
def bytes_(x, out):
    simd.store_u8x64(out, lookup(simd.load_u8x64(x)))
    simd.store_u8x32(out + 64, spread_bits(simd.load_u32(x)))
    transpose(x, 64, out + 96)


@njit(types.void(types.int64, types.int64), error_model="numpy", fastmath=True)
def tiles(x, out):
    sums = add_products(two_sums(), simd.load_f32x16(x), x, 64, 1)
    sums = add_products(sums, simd.load_f32x16(x), x, 64, 0)  # token 1 is absent: computed as token 0
    store_sums(sums, no_minus(), out)


@njit(types.int64(types.int64), error_model="numpy", fastmath=True)
def atomics(x):
    before = simd.atomic_add(x, 5)
    found = simd.compare_exchange(x, 12, 20)
    simd.pause()
    simd.prefetch(x)
    simd.atomic_store(x + 8, simd.atomic_load(x) * 2)
    return before * 1000 + found


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32) * 3


def test_float_arithmetic(x: np.ndarray) -> None:
    out = np.zeros(84, np.float32)
    floats(x.ctypes.data, out.ctypes.data)
    a, b = x[0], x[1]
    np.testing.assert_allclose(out[:16], a * b + a - b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(out[16:32], a * b / (np.abs(b) + 1), rtol=1e-5)
    np.testing.assert_allclose(out[32:48], np.exp(a), rtol=1e-6)
    np.testing.assert_array_equal(out[48:53], np.maximum(a, b)[:5])
    np.testing.assert_array_equal(out[53:64], np.full(11, -7, np.float32))
    np.testing.assert_array_equal(out[64:80], np.rint(np.minimum(a, b)))
    np.testing.assert_allclose(out[80:84], [a.sum(), a.max(), 48, a[0]], rtol=1e-5)


def test_exp_stays_finite_at_the_ends() -> None:
    x = np.tile(np.array([-1e30, -100, 0, 200], np.float32), 8)
    out = np.zeros(84, np.float32)
    floats(x.ctypes.data, out.ctypes.data)
    assert np.isfinite(out[32:48]).all()
    assert (out[32:34] == 0).all()
    assert out[34] == 1


@njit(types.void(types.int64, types.int64), error_model="numpy", fastmath=set(FAST))
def bounded(x, out):
    a, bound = simd.load_f32x16(x), simd.load_f32x16(x + 64)
    simd.store_f32x16(out, simd.at_least(a, bound))
    simd.store_f32x16(out + 64, simd.at_most(a, bound))
    simd.store_f32x16(out + 128, exp(a))


def test_a_nan_passes_every_bound_and_the_exponential() -> None:
    x = np.array([*[np.nan] * 8, *range(8), *[0.5] * 16], np.float32)
    out = np.zeros(48, np.float32)
    bounded(x.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out[:16], [*[np.nan] * 8, 0.5, *range(1, 8)])
    np.testing.assert_array_equal(out[16:32], [*[np.nan] * 8, 0, *[0.5] * 7])
    np.testing.assert_allclose(out[32:], np.exp(x[:16]), rtol=1e-6)


def test_narrow_floats(x: np.ndarray) -> None:
    out = np.zeros(64, np.float32)
    halves(x.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out[16:32], x[0].astype(np.float16).astype(np.float32))
    assert out[9] == np.float32(np.float16(x[0, 0]))
    bits = x.ravel()[:8].view(np.uint16).astype(np.uint32) << 16
    np.testing.assert_array_equal(out[32:48], bits.view(np.float32))
    np.testing.assert_array_equal(out[48:64], x.ravel()[:4].view(np.int8).astype(np.float32))


def test_bytes() -> None:
    x = np.random.default_rng(1).integers(0, 16, 1024, dtype=np.uint8)
    out = np.zeros(96 + 1024, np.int8)
    bytes_(x.ctypes.data, out.ctypes.data)
    table = np.array([-127, 104, -83, 65, 49, -35, 22, 10, 1, 13, 25, 38, 53, -69, 89, 113], np.int8)
    np.testing.assert_array_equal(out[:64], table[x[:64]])
    np.testing.assert_array_equal(out[64:96], np.unpackbits(x[:4], bitorder="little") * 5)
    expected = x.view(np.int32).reshape(16, 16).T
    np.testing.assert_array_equal(out[96:].view(np.int32).reshape(16, 16), expected)


def test_tiles_copy_the_last_token(x: np.ndarray) -> None:
    out = np.zeros(2, np.float32)
    tiles(x.ctypes.data, out.ctypes.data)
    first, second = (x[0] * x[0]).sum(), (x[0] * x[1]).sum()
    np.testing.assert_allclose(out, [2 * first, second + first], rtol=1e-5)


def test_atomics() -> None:
    x = np.array([7, 0], np.int64)
    assert atomics(x.ctypes.data) == 7 * 1000 + 12
    assert x.tolist() == [20, 40]
