"""The step state: the int64 slots that tell every kernel what this step computes.

A kernel gets the address of slot 0. Addresses are plain integers; arrays behind them live as long as the step.
Owned by the executor, which fills the slots before the threads start; kernels only read them.
"""

from __future__ import annotations

NUM_TOKENS = 0  # tokens of the batch, all sequences together
NUM_LOGIT_ROWS = 1  # rows of buffers with rows="logits"
TOKEN_IDS = 2  # address, (tokens,) int32
POSITIONS = 3  # address, (tokens,) int32: position of each token in its sequence
SCRATCH = 4  # address of the threads' scratch, 64-byte aligned
SCRATCH_BYTES = 5  # bytes of one thread's scratch, a multiple of 64, at least 1 MiB
KV_SLOTS = 6  # address, (tokens,) int32: block * 16 + slot in which a token's keys and values go
LOGIT_ROWS = 7  # address, (logit rows,) int32: token of the batch whose row is wanted
NUM_SLICES = 8  # sequences in the batch
SLICES = 9  # address, (slices, SLICE_SLOTS) int64, see below
NUM_PAIRS = 10  # pairs of a token and one of its experts
READS_PROMPT = 11  # 1 where no row goes to the kernels for few, which round otherwise
NUM_SLOTS = 16  # slots in all, the rest in reserve

# One row of the slices: the tokens of one sequence, which are neighbours in the batch.
SLICE_FIRST_TOKEN = 0  # index of its first token in the batch
SLICE_NUM_TOKENS = 1
SLICE_START = 2  # position of its first token
SLICE_BLOCK_TABLE = 3  # address, int32 block ids: position p is in block table[p // 16]
SLICE_STATE = 4  # slot of its recurrent state
SLICE_SLOTS = 5

ROWS_TOKENS = 0  # rows-kind operand: an op has NUM_TOKENS rows
ROWS_LOGITS = 1  # or NUM_LOGIT_ROWS: the kind is the index of the slot that holds the count
ROWS_PAIRS = NUM_PAIRS

MIN_SCRATCH_BYTES = 2 << 20  # the second half is for matmuls of many small matrices
