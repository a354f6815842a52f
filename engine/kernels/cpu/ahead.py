"""How a step is followed by that of the next token without Python (machine code; its owner is ``run_ahead``).

Between two steps the weights that were read have driven everything else out of the caches, and what Python does
then takes 0.3 to 0.6 ms, a tenth of the time of a token on 135M parameters. Here the token is chosen and the step
state changed in some 30 microseconds.
"""

from __future__ import annotations

from engine.kernels.cpu.control import (
    AHEAD_CHOOSE,
    AHEAD_COUNTERS,
    AHEAD_END_IDS,
    AHEAD_GOES_ON,
    AHEAD_NUM_CHOSEN,
    AHEAD_NUM_COUNTERS,
    AHEAD_NUM_END_IDS,
    AHEAD_NUM_WANTED,
    AHEAD_OPERANDS,
    AHEAD_RANDOM,
    AHEAD_RANDOMS,
    AHEAD_RESULT,
    AHEAD_TOKEN_IDS,
)
from engine.kernels.cpu.executor import call_kernel
from engine.kernels.cpu.simd import inline, load_i32, load_i64, store_i32, store_i64
from engine.kernels.cpu.step_state import (
    KV_SLOTS,
    POSITIONS,
    SLICE_BLOCK_TABLE,
    SLICE_START,
    SLICES,
    TOKEN_IDS,
)
from engine.model.plan import BLOCK_SIZE


@inline
def is_among(token_id: int, ids: int, count: int) -> bool:
    """Whether the token is one of ``count`` int32 at the address ``ids``."""
    found = False
    for index in range(count):
        found |= load_i32(ids + index * 4) == token_id
    return found


@inline
def place_next(step: int, token_id: int) -> None:
    """Make the state of a step over one token that of the token after it."""
    part, positions = load_i64(step + SLICES * 8), load_i64(step + POSITIONS * 8)
    position = load_i64(part + SLICE_START * 8) + 1
    block = load_i32(load_i64(part + SLICE_BLOCK_TABLE * 8) + position // BLOCK_SIZE * 4)
    store_i64(part + SLICE_START * 8, position)
    store_i32(positions, position)
    store_i32(load_i64(step + TOKEN_IDS * 8), token_id)
    store_i32(load_i64(step + KV_SLOTS * 8), block * BLOCK_SIZE + position % BLOCK_SIZE)


def go_ahead(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: choose the token after a step's and let it be the next step's; GOES_ON tells whether there is one."""
    store_i64(op + AHEAD_GOES_ON * 8, 0)
    num_chosen = load_i64(op + AHEAD_NUM_CHOSEN * 8)
    if num_chosen >= load_i64(op + AHEAD_NUM_WANTED * 8):
        return
    bits = load_i64(load_i64(op + AHEAD_RANDOMS * 8) + num_chosen * 8)
    store_i64(load_i64(op + AHEAD_RANDOM * 8), bits)
    call_kernel(load_i64(op + AHEAD_CHOOSE * 8), load_i64(op + AHEAD_OPERANDS * 8), 0, 0, 1)
    token_id = load_i64(load_i64(op + AHEAD_RESULT * 8))
    if token_id < 0 or is_among(token_id, load_i64(op + AHEAD_END_IDS * 8), load_i64(op + AHEAD_NUM_END_IDS * 8)):
        return
    store_i32(load_i64(op + AHEAD_TOKEN_IDS * 8) + num_chosen * 4, token_id)
    store_i64(op + AHEAD_NUM_CHOSEN * 8, num_chosen + 1)
    place_next(step, token_id)
    counters = load_i64(op + AHEAD_COUNTERS * 8)
    for index in range(load_i64(op + AHEAD_NUM_COUNTERS * 8)):
        store_i64(counters + index * 8, 0)
    store_i64(op + AHEAD_GOES_ON * 8, 1)
