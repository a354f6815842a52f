from __future__ import annotations

import random

import numpy as np
import pytest

from engine.config import KVType
from engine.kernels.backend import SequenceSlice
from engine.kernels.cpu import kv_bytes_per_block
from engine.kernels.definitions import round_q8_0
from tests.engine.kernels.cpu.attention_fuzz import check_case, draw_case
from tests.engine.kernels.cpu.attention_layer import NUM_BLOCKS, TOLERANCE, Layer, block_table
from tests.engine.kernels.cpu.support import fill, vector


@pytest.mark.parametrize(
    ("heads", "kv_heads", "key_dim", "value_dim"),
    [
        (9, 3, 64, 64),
        (4, 1, 256, 256),
        (4, 4, 32, 32),
        (8, 2, 20, 24),
        (10, 1, 17, 9),
        (6, 6, 8, 8),
        (5, 1, 80, 112),
    ],
)
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_prefill_then_decode(heads: int, kv_heads: int, key_dim: int, value_dim: int, kv_type: KVType) -> None:
    layer = Layer(heads, kv_heads, key_dim, value_dim, kv_type=kv_type)
    table = block_table(1, 8)
    layer.step([(0, 0, 37, table)])
    for position in range(37, 50):
        layer.step([(0, position, 1, table)])
    layer.step([(0, 50, 70, table)])
    layer.backend.close()


@pytest.mark.parametrize("num_threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("window", "kv_type"), [(None, "f16"), (None, "q8_0"), (5, "f16"), (128, "q8_0"), (128, "f16"), (300, "f16")]
)
def test_deep_context_is_split_and_merged(num_threads: int, window: int | None, kv_type: KVType) -> None:
    layer = Layer(6, 2, 64, 64, num_threads, kv_type, window=window)
    table = block_table(2, NUM_BLOCKS)
    layer.step([(0, 0, 1200, table)])
    for position in range(1200, 1204):
        layer.step([(0, position, 1, table)])
    layer.step([(0, 1204, 3, table)])
    layer.step([(0, 1207, 1, table)])
    layer.backend.close()


def test_sequences_of_one_batch_do_not_mix() -> None:
    layer = Layer(9, 3, 64, 64)
    blocks = block_table(3, NUM_BLOCKS)
    tables = [blocks[:70], blocks[70:80], blocks[80:150]]
    layer.step([(0, 0, 700, tables[0]), (1, 0, 5, tables[1]), (2, 0, 1000, tables[2])])
    layer.step([(0, 700, 1, tables[0]), (1, 5, 9, tables[1]), (2, 1000, 1, tables[2])])
    layer.step([(2, 1001, 1, tables[2]), (0, 701, 2, tables[0])])
    layer.backend.close()


def test_soft_cap_and_sinks() -> None:
    sinks = vector(np.array([3.0, -2.0, 0.0, 8.0, 1.0, -30.0], np.float32))
    layer = Layer(6, 2, 64, 32, soft_cap=2.5, sinks=sinks)
    table = block_table(4, 60)
    layer.step([(0, 0, 700, table)])
    layer.step([(0, 700, 1, table)])
    layer.backend.close()


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_what_others_left_in_a_block_is_never_read(kv_type: KVType) -> None:
    layer = Layer(2, 1, 16, 16, kv_type=kv_type)
    for array in (*layer.backend._kv_store.keys, *layer.backend._kv_store.values):
        array.view(np.float16)[:] = np.nan
    table = block_table(5, 4)
    layer.step([(0, 0, 21, table)])
    layer.step([(0, 21, 1, table)])
    layer.backend.close()


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_copied_block_serves_as_well(kv_type: KVType) -> None:
    layer = Layer(6, 2, 64, 64, kv_type=kv_type)
    table = np.array([3, 4], np.int32)
    layer.step([(0, 0, 20, table)])
    layer.backend.copy_block(4, 7)
    layer.step([(0, 20, 2, np.array([3, 7], np.int32))])
    layer.keys[0], layer.values[0] = layer.keys[0][:20], layer.values[0][:20]
    layer.step([(0, 20, 1, table)])
    layer.backend.close()


def test_a_tiny_cache_keeps_zeros_and_tiny_values() -> None:
    """A scale that float16 cannot hold is 0, and so are its values: no division by it."""
    x = np.array([[[0.0] * 32 + [1e-9] * 32 + [1e-3] * 6]], np.float32)
    kept = round_q8_0(x)
    assert (kept[..., :64] == 0).all()
    np.testing.assert_allclose(kept[..., 64:], 1e-3, rtol=5e-3)
    layer = Layer(1, 1, 70, 70, kv_type="q8_0")
    fill(layer.backend, {layer.query: x[0] * 0, layer.key: x[0], layer.value: x[0]})
    result = layer.backend.run([SequenceSlice(np.zeros(1, np.int32), 0, block_table(6, 1), "all")])
    np.testing.assert_allclose(result, kept[0], rtol=1e-6, atol=0)
    layer.backend.close()


@pytest.mark.parametrize("magnitude", [1e-3, 7e-4, 3e-4, 1e-4, 3e-5, 6e-6])
def test_values_whose_scale_has_few_bits_keep_their_sign(magnitude: float) -> None:
    """The largest of a group by a scale that was rounded down would not fit into 8 bits."""
    rows = np.random.default_rng(3).standard_normal((20, 70), np.float32)
    key, value = rows * np.float32(magnitude), rows[::-1] * np.float32(magnitude)
    assert (round_q8_0(value) * value >= 0).all()
    assert np.abs(round_q8_0(value) - value).max() < 2**-25 * 127 + np.abs(value).max() / 200
    layer = Layer(1, 1, 70, 70, kv_type="q8_0")
    query, table = rows / np.float32(magnitude), block_table(6, 2)
    expected = layer.expect(0, 0, query, key, value)
    read = layer.run(query, key, value, [(0, 0, 20, table)], is_prompt=True).copy()
    single = layer.run(query[19:], key[19:], value[19:], [(0, 19, 1, table)])
    np.testing.assert_allclose(read, expected, rtol=TOLERANCE, atol=TOLERANCE * magnitude)
    np.testing.assert_allclose(single[0], expected[19], rtol=TOLERANCE, atol=TOLERANCE * magnitude)
    layer.backend.close()


@pytest.mark.parametrize("is_prompt", [False, True])
def test_equal_weights_lose_nothing_of_their_sum(is_prompt: bool) -> None:
    """As integers all are rounded the same way: their sum would be up to 0.2 % off, and so would the result."""
    layer, length = Layer(6, 2, 64, 64), 300
    query = np.zeros((length, layer.query.width), np.float32)
    key = np.ones((length, layer.key.width), np.float32)
    value = np.tile(np.linspace(0.5, 2.0, layer.value.width, dtype=np.float16).astype(np.float32), (length, 1))
    out = layer.run(query, key, value, [(0, 0, length, block_table(1, 20))], is_prompt)
    np.testing.assert_allclose(out, layer.expect(0, 0, query, key, value), rtol=5e-5)
    layer.backend.close()


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_a_cache_takes_the_bytes_it_says(kv_type: KVType) -> None:
    layer = Layer(6, 2, 64, 40, kv_type=kv_type)
    plan = layer.backend._plan
    assert layer.backend.kv_bytes == NUM_BLOCKS * kv_bytes_per_block(plan, kv_type)
    values = 2 * (64 + 48) * 16
    assert kv_bytes_per_block(plan, kv_type) == (2 * values if kv_type == "f16" else values + 2 * (2 + 2) * 32)
    layer.backend.close()


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
@pytest.mark.parametrize("options", [{"slopes": True}, {"chunk": 24}, {"chunk": 40, "window": 30}, {"chunk": 300}])
def test_a_bias_by_distance_and_runs_of_positions(options: dict[str, object], kv_type: KVType) -> None:
    if "slopes" in options:
        options = {"slopes": vector(np.array([0.5, 0.25, 0.06, 0.015], np.float32), "slopes")}
    layer = Layer(4, 2, 32, 32, kv_type=kv_type, **options)
    table = block_table(7, 50)
    layer.step([(0, 0, 61, table)])
    for position in range(61, 75):
        layer.step([(0, position, 1, table)])
    layer.step([(0, 75, 600, table)])
    for position in range(675, 679):
        layer.step([(0, position, 1, table)])
    layer.backend.close()


def test_random_layers() -> None:
    """A long run of more: ``python -m tests.engine.kernels.cpu.attention_fuzz``."""
    rng = random.Random(20)
    for _ in range(20):
        check_case(draw_case(rng, (1, 3, 4, 5, 8, 9, 10)))  # of kernels that the tests above have compiled
