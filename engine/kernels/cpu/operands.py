"""The int64 operand rows of the three ops that read weights, shared by the kernels and by what lowers the plan.

A row is ``op`` in ``kernel(op, step, thread, num_threads)``: slot i is the int64 at ``op + 8 * i``. All addresses
are byte addresses. ``ROWS_KIND`` says how many rows the op works on: the tokens of the step or its wanted logits.
"""

from __future__ import annotations

from typing import Final

ROWS_TOKENS: Final = 0
ROWS_LOGITS: Final = 1

# QUANTIZE: float32 rows to the activation format of a matmul.
QUANTIZE_X: Final = 0  # address of (rows, width) float32
QUANTIZE_ACTIVATION: Final = 1  # address of activation_bytes(format, width, max_tokens) bytes, 64-byte aligned
QUANTIZE_WIDTH: Final = 2
QUANTIZE_ROWS_KIND: Final = 3
QUANTIZE_SLOTS: Final = 4

# MATMUL: out = activation @ weight.T (+ bias) (+ out).
MATMUL_ACTIVATION: Final = 0  # as QUANTIZE_ACTIVATION
MATMUL_WEIGHT: Final = 1  # address of the mapped tensor
MATMUL_OUT: Final = 2  # address of float32, row t at out + 4 * stride * t
MATMUL_ROWS: Final = 3  # out features
MATMUL_WIDTH: Final = 4  # in features
MATMUL_ROW_BYTES: Final = 5  # bytes of one weight row
MATMUL_OUT_STRIDE: Final = 6  # float32 values from one token's row to the next
MATMUL_BIAS: Final = 7  # address of float32 (out features), or 0
MATMUL_ACCUMULATE: Final = 8  # 1: add to what is in out
MATMUL_ROWS_KIND: Final = 9
MATMUL_CAPACITY: Final = 10  # max_tokens of the activation
MATMUL_COUNTER: Final = 11  # address of an int64 that is 0 when the op starts; the threads share out rows with it
MATMUL_SLOTS: Final = 12

# EMBED: out = weight[token_ids] * scale; always on the tokens of the step.
EMBED_WEIGHT: Final = 0
EMBED_ROW_BYTES: Final = 1
EMBED_WIDTH: Final = 2
EMBED_OUT: Final = 3  # address of (tokens, width) float32
EMBED_SCALE: Final = 4  # bits of a float32, in the low half
EMBED_IDS: Final = 5  # slot of the step state that has the rows' numbers: TOKEN_IDS or POSITIONS
EMBED_SLOTS: Final = 6

# EXPERT_MATMUL: MATMUL for each expert that has pairs, its pairs against its matrix. The slots of MATMUL mean the
# same, for one expert; those that depend on the expert are filled in on the thread's stack.
EXPERT_BYTES: Final = 12  # from one expert's matrix to the next
EXPERT_TABLE: Final = 13  # address of the routing table
EXPERT_ROW_UNIT: Final = 14  # bytes of one quantised row, see formats.activation_row_bytes
EXPERT_BLOCK_ROWS: Final = 15  # rows of a matrix that a thread takes at once
EXPERT_SLOTS: Final = 16

# EXPERT_QUANTIZE: QUANTIZE of each expert's pairs; the slots of QUANTIZE, then:
EXPERT_QUANTIZE_TABLE: Final = 4
EXPERT_QUANTIZE_UNIT: Final = 5  # as EXPERT_ROW_UNIT

# HEAD_MATMUL: MATMUL for each head, whose slots are those of one head; ROWS_KIND is the tokens.
HEAD_X: Final = 12  # address of (tokens, X_ROW) float32
HEAD_X_ROW: Final = 13  # float32 values from one token to the next
HEAD_X_HEAD: Final = 14  # and from one head to the next
HEAD_OUT_HEAD: Final = 15  # float32 values from one head of out to the next
HEAD_HEADS: Final = 16
HEAD_BYTES: Final = 17  # from one head's matrix to the next
HEAD_ROW_UNIT: Final = 18  # as EXPERT_ROW_UNIT
HEAD_PIECE: Final = 19  # tokens that a thread takes at once, a multiple of TOKEN_TILE
