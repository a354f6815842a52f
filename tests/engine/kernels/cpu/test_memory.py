"""The arrays behind a program."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt
import pytest

from engine.kernels.cpu.memory import FINE_POSITIONS, Memory
from engine.model.plan import Buffer, RopeTable

PAIRS = 5
NUM_BLOCKS = 563
MAX_POSITIONS = 16 * NUM_BLOCKS
TABLE = RopeTable(1e4 ** (-np.arange(PAIRS) / PAIRS), 1.25, False)


def make_memory() -> Memory:
    return Memory(max_batch_tokens=4, max_logit_rows=2, num_blocks=NUM_BLOCKS, num_counters=1)


def coarse_angles(memory: Memory, num_rows: int) -> npt.NDArray[np.float64]:
    address, _ = memory.angle_tables(TABLE)
    content = ctypes.string_at(address, num_rows * PAIRS * 2 * 8)
    return np.frombuffer(content, np.float64).reshape(num_rows, PAIRS, 2)


@pytest.mark.parametrize("steps", [[MAX_POSITIONS], [1, 2_048, 2_049, 6_000, 5, MAX_POSITIONS]])
def test_angles_are_there_for_the_positions_of_a_step(steps: list[int]) -> None:
    memory = make_memory()
    for num_positions in steps:
        address = memory.angle_tables(TABLE)
        memory.prepare_positions(num_positions)
        assert memory.angle_tables(TABLE) == address
        num_rows = -(-num_positions // FINE_POSITIONS)
        angles = np.arange(num_rows)[:, None] * FINE_POSITIONS * TABLE.inv_freq
        found = coarse_angles(memory, num_rows)
        np.testing.assert_allclose(found[..., 0], 1.25 * np.cos(angles), rtol=0, atol=1e-12)
        np.testing.assert_allclose(found[..., 1], 1.25 * np.sin(angles), rtol=0, atol=1e-12)


def test_angles_do_not_depend_on_when_they_were_made() -> None:
    at_once, in_steps = make_memory(), make_memory()
    for memory, steps in ((at_once, [MAX_POSITIONS]), (in_steps, [3, 2_100, 4_000, MAX_POSITIONS])):
        memory.angle_tables(TABLE)
        for num_positions in steps:
            memory.prepare_positions(num_positions)
    num_rows = -(-MAX_POSITIONS // FINE_POSITIONS)
    np.testing.assert_array_equal(coarse_angles(at_once, num_rows), coarse_angles(in_steps, num_rows))


def test_an_address_stays_until_there_is_more_room() -> None:
    memory = make_memory()
    tokens, logits = Buffer("x", 8), Buffer("logits", 8, "logits")
    before = memory.buffer(tokens), memory.buffer(logits)
    assert (memory.buffer(tokens), memory.buffer(logits)) == before
    assert memory.rows(logits, 2).ctypes.data == before[1]
    memory.set_logit_rows(4_000)
    assert memory.buffer(tokens) == before[0]
    assert memory.rows(logits, 4_000).ctypes.data == memory.buffer(logits)
    assert memory.rows(logits, 4_000).shape == (4_000, 8)
