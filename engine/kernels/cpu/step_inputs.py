"""What a step computes, in the arrays that the step state points to: tokens, positions, slots, block tables.

They are filled between two steps, when the weights that were read have driven everything else out of the caches: a
first call of a NumPy function then takes 15 to 100 microseconds, many times what plain arrays take.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from engine.kernels.backend import Integers, SequenceSlice, check_block_table, check_slice
from engine.kernels.cpu import step_state as state
from engine.model.plan import BLOCK_SIZE, Plan


class StepInputs:
    """Room for steps of ``max_batch_tokens`` tokens of sequences with blocks below ``num_blocks``.

    Attributes:
        state: (NUM_SLOTS,) int64, the step state.
        num_positions: the positions of the step are below.
    """

    def __init__(self, plan: Plan, max_batch_tokens: int, num_blocks: int, num_states: int) -> None:
        self.num_positions = 0
        self._plan = plan
        self._max_batch_tokens = max_batch_tokens
        self._num_blocks = num_blocks
        self._num_states = num_states
        self._slots = array("q", bytes(8 * state.NUM_SLOTS))
        self.state = np.frombuffer(self._slots, np.int64)
        self._token_ids, self._positions, self._kv_slots, self._logit_rows = (
            array("i", bytes(4 * max_batch_tokens)) for _ in range(4)
        )
        self._slices = array("q", bytes(8 * state.SLICE_SLOTS * max_batch_tokens))
        for slot, values in (
            (state.TOKEN_IDS, self._token_ids),
            (state.POSITIONS, self._positions),
            (state.KV_SLOTS, self._kv_slots),
            (state.LOGIT_ROWS, self._logit_rows),
            (state.SLICES, self._slices),
        ):
            self._slots[slot] = values.buffer_info()[0]
        self._tables: list[array[int]] = []  # of the step

    def place(self, slices: Sequence[SequenceSlice]) -> int:
        """Take up what the next step computes; returns the number of logit rows that it gives.

        Raises ValueError for what would read or write outside the buffers.
        """
        num_tokens = sum(len(part.token_ids) for part in slices)
        if not 0 < num_tokens <= self._max_batch_tokens:
            raise ValueError(f"{num_tokens} tokens in a step of 1 to {self._max_batch_tokens}")
        self._tables.clear()
        self.num_positions = 0
        row = num_logit_rows = 0
        known: Integers | None = None
        for index, part in enumerate(slices):
            check_slice(part, self._plan, self._num_states)
            if part.block_table is not known:  # proposed tokens have that of their sequence
                known = part.block_table
                check_block_table(known, self._num_blocks)
                table = array("i", known)
                self._tables.append(table)
            end = row + len(part.token_ids)
            positions = range(part.start, part.start + end - row)
            self.num_positions = max(self.num_positions, positions.stop)
            self._token_ids[row:end] = array("i", part.token_ids)
            self._positions[row:end] = array("i", positions)
            self._kv_slots[row:end] = array(
                "i", [table[at // BLOCK_SIZE] * BLOCK_SIZE + at % BLOCK_SIZE for at in positions]
            )
            place = index * state.SLICE_SLOTS
            self._slices[place : place + state.SLICE_SLOTS] = array(
                "q", (row, end - row, part.start, table.buffer_info()[0], part.state)
            )
            first = {"none": end, "last": end - 1, "all": row}[part.logits]
            self._logit_rows[num_logit_rows : num_logit_rows + end - first] = array("i", range(first, end))
            num_logit_rows += end - first
            row = end
        slots = self._slots
        slots[state.NUM_TOKENS] = num_tokens
        slots[state.READS_PROMPT] = slices[0].is_prompt
        slots[state.NUM_LOGIT_ROWS] = num_logit_rows
        slots[state.NUM_SLICES] = len(slices)
        slots[state.NUM_PAIRS] = num_tokens * self._plan.num_experts_used
        return num_logit_rows
