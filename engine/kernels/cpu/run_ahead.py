"""The block that ``ahead`` works with: which tokens may follow a step, how they are chosen, and which were."""

from __future__ import annotations

import ctypes
from array import array

from engine.kernels.backend import RunAhead
from engine.kernels.cpu import control

MAX_AHEAD_TOKENS = 15


class RunAheadInputs:
    """Room for MAX_AHEAD_TOKENS tokens after a step of a program with these counters.

    Attributes:
        address: of the block.
    """

    def __init__(self, counters: int, num_counters: int) -> None:
        self._slots = array("q", bytes(8 * control.AHEAD_SLOTS))
        self._token_ids = array("i", bytes(4 * MAX_AHEAD_TOKENS))
        self._randoms = array("d", bytes(8 * MAX_AHEAD_TOKENS))
        self._end_ids = array("i")
        self.address = self._slots.buffer_info()[0]
        self._slots[control.AHEAD_TOKEN_IDS] = self._token_ids.buffer_info()[0]
        self._slots[control.AHEAD_RANDOMS] = self._randoms.buffer_info()[0]
        self._slots[control.AHEAD_COUNTERS] = counters
        self._slots[control.AHEAD_NUM_COUNTERS] = num_counters

    def begin(self, ahead: RunAhead, logits: int) -> None:
        """Take up what may follow the next step, whose row of logits will be at that address."""
        slots, choice, count = self._slots, ahead.choice, len(ahead.randoms)
        if count > MAX_AHEAD_TOKENS:
            raise ValueError(f"{count} tokens ahead, of {MAX_AHEAD_TOKENS} at most")
        self._randoms[:count] = array("d", ahead.randoms)
        self._end_ids = array("i", ahead.end_token_ids)
        slots[control.AHEAD_NUM_WANTED], slots[control.AHEAD_NUM_CHOSEN] = count, 0
        slots[control.AHEAD_END_IDS], slots[control.AHEAD_NUM_END_IDS] = self._end_ids.buffer_info()
        slots[control.AHEAD_CHOOSE] = choice.kernel
        slots[control.AHEAD_OPERANDS] = choice.operands
        slots[control.AHEAD_RANDOM] = choice.random
        slots[control.AHEAD_RESULT] = choice.result
        ctypes.c_int64.from_address(choice.logits).value = logits

    def end(self, ahead: RunAhead) -> None:
        """Tell which tokens were chosen and computed."""
        ahead.token_ids += self._token_ids[: self._slots[control.AHEAD_NUM_CHOSEN]]
