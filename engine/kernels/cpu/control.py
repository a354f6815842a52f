"""Layouts that the executor's loop and its owner share: rows of a program and the control block, in int64 slots."""

from __future__ import annotations

# One row of a program, an op.
ROW_KERNEL = 0  # address of the kernel
ROW_WAITS = 1  # 1 when all threads must have finished all earlier ops
ROW_OPERANDS = 2  # the kernel's operands from here on
ROW_SLOTS = 32
ROW_BYTES = ROW_SLOTS * 8
NUM_OPERANDS = ROW_SLOTS - ROW_OPERANDS

# The control block. What several threads write has a cache line (8 slots) of its own.
GENERATION = 0  # number of steps begun; negative ends the workers
ARRIVED = 8  # threads at the barrier
BARRIER_GENERATION = 16  # number of barriers passed
ROW = 17  # address of the row behind the last of them, or of the first row
NUM_ASLEEP = 24  # threads asleep or about to be
TEAM = 28  # GENERATION * TEAM_FACTOR + threads that take part from here on; changes at a barrier only
IS_INTERRUPTED = 29  # 1: the step is to end at the next barrier; set by any thread
LATE_NS = 30  # that threads slept at barriers since the owner began to count, or the team shrank
SINCE_NS = 31  # the time then
PROGRAM = 32  # address of the program
NUM_OPS = 33
STEP = 34  # address of the step state
BARRIER_SPINS = 35  # looks at a barrier before sleeping
IDLE_SPINS = 36  # looks for the next step before sleeping
PATIENCE_NS = 37  # that threads may sleep for one that is late before it is left out
IS_CORE_WANTED = 38  # 1: a thread outside the team is to have a core for itself; set by any thread
PARKED = 39  # GENERATION * TEAM_FACTOR + the thread that has left its core to that one; 0 for none
CALL_LOCK = 40  # from here on a sleep.SleepCalls
CALL_UNLOCK = 41
CALL_WAIT = 42
CALL_WAKE_ALL = 43
CALL_TIME = 44
WAIT_TIMEOUT = 45
AHEAD = 46  # address of the block below, where a step may be followed by others; else 0
AHEAD_KERNEL = 47  # address of ``ahead.go_ahead``
MUTEX = 48  # 64 bytes each
CONDITION = 56
CONTROL_SLOTS = 64
TEAM_FACTOR = 1 << 10  # above any number of threads

# The block of the tokens ahead, see ``ahead``. Slots of the choice are a ``NativeChoice``.
AHEAD_GOES_ON = 0  # 1: the step state is that of the next token, which is to be computed
AHEAD_NUM_WANTED = 1  # tokens at most
AHEAD_NUM_CHOSEN = 2
AHEAD_TOKEN_IDS = 3  # address, (tokens wanted,) int32, that get the chosen ones
AHEAD_RANDOMS = 4  # address, (tokens wanted,) float64
AHEAD_END_IDS = 5  # address, int32
AHEAD_NUM_END_IDS = 6
AHEAD_COUNTERS = 7  # address of the program's counters, int64
AHEAD_NUM_COUNTERS = 8
AHEAD_CHOOSE = 9  # address of the kernel that chooses
AHEAD_OPERANDS = 10  # address of its operands
AHEAD_RANDOM = 11  # address of the slot that it takes a random number from
AHEAD_RESULT = 12  # address of the slot that it puts the token in
AHEAD_SLOTS = 13
