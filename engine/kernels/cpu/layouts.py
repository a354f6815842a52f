"""The int64 operand rows of the ops that read no weight matrices, and how keys and values lie in memory.

As in ``operands``: slot i is the int64 at ``op + 8 * i``; a float32 lies in the low half of its slot. A buffer is
(rows, width) float32 without gaps. ``ROWS`` operands are ROWS_TOKENS or ROWS_LOGITS.

Keys of a layer are (kv heads, blocks, key_dim, 16) float16, so that one load gives a value of 16 tokens; values
are (kv heads, blocks, 16, padded value_dim) float16, padded to a multiple of 16 so that one load gives 16 values
of a token.
"""

from __future__ import annotations

from typing import Final

NORM_X: Final = 0
NORM_WEIGHT: Final = 1  # address of (width / groups,) float32
NORM_OUT: Final = 2
NORM_WIDTH: Final = 3
NORM_GROUPS: Final = 4
NORM_EPS: Final = 5  # float32
NORM_ROWS: Final = 6
NORM_ACCUMULATE: Final = 7  # 1: add to what is in out

ANGLES_COARSE: Final = 0  # address of (positions / 64, pairs, 2) float64: cos, sin of 64 p times frequency
ANGLES_FINE: Final = 1  # address of (64, pairs, 2) float64: of p times frequency
ANGLES_OUT: Final = 2  # halves: (tokens, 2, pairs) float32; pairs: (tokens, 2, 2 pairs), see ``rope``
ANGLES_PAIRS: Final = 3

ROPE_X: Final = 0
ROPE_HEADS: Final = 1
ROPE_HEAD_DIM: Final = 2
ROPE_PAIRS: Final = 3
ROPE_ANGLES: Final = 4  # as ANGLES_OUT

WRITE_KEY: Final = 0  # address of (tokens, kv heads * key_dim) float32
WRITE_VALUE: Final = 1
WRITE_KEYS: Final = 2  # address of the layer's keys
WRITE_VALUES: Final = 3
WRITE_KEY_HEAD_BYTES: Final = 4  # from one head's keys to the next
WRITE_VALUE_HEAD_BYTES: Final = 5
WRITE_HEADS: Final = 6
WRITE_KEY_DIM: Final = 7
WRITE_VALUE_DIM: Final = 8

ATTENTION_QUERY: Final = 0  # address of (tokens, heads * key_dim) float32
ATTENTION_OUT: Final = 1  # address of (tokens, heads * value_dim) float32
ATTENTION_KEYS: Final = 2
ATTENTION_VALUES: Final = 3
ATTENTION_KEY_HEAD_BYTES: Final = 4
ATTENTION_VALUE_HEAD_BYTES: Final = 5
ATTENTION_KV_HEADS: Final = 6
ATTENTION_GROUP: Final = 7  # query heads of one KV head
ATTENTION_KEY_DIM: Final = 8
ATTENTION_VALUE_DIM: Final = 9
ATTENTION_SCALE: Final = 10  # float32
ATTENTION_WINDOW: Final = 11  # 0: none
ATTENTION_SOFT_CAP: Final = 12  # float32, 0: none
ATTENTION_SINKS: Final = 13  # address of (heads,) float32, or 0
ATTENTION_COUNTER: Final = 14  # address of an int64 that is 0 when the op starts
ATTENTION_PARTIALS: Final = 15  # address of MAX_SPLIT_SLICES * MAX_SPLIT_ITEMS results of parts of a context
ATTENTION_ARRIVALS: Final = 16  # address of as many int64, 0 before and after

MAX_SPLIT_SLICES: Final = 16  # only a batch of few sequences lacks parallel work
MAX_SPLIT_ITEMS: Final = 64  # pieces of work one sequence is cut into, at most
PREFILL_ROWS: Final = 8  # query rows of one attention tile


def padded(dim: int) -> int:
    """``dim`` up to a multiple of 16."""
    return (dim + 15) // 16 * 16


def partial_bytes(rows: int, value_dim: int) -> int:
    """Bytes of the result of one part of a context: weighted values, maxima and sums of ``rows`` query rows."""
    return (rows * padded(value_dim) + 32) * 4


GATED_GATE: Final = 0
GATED_UP: Final = 1
GATED_OUT: Final = 2
GATED_WIDTH: Final = 3
GATED_ROWS: Final = 4

ADD_X: Final = 0
ADD_Y: Final = 1
ADD_OUT: Final = 2
ADD_WIDTH: Final = 3
ADD_ROWS: Final = 4

CAP_X: Final = 0
CAP_OUT: Final = 1
CAP_WIDTH: Final = 2
CAP_ROWS: Final = 3
CAP_CAP: Final = 4  # float32

SELECT_X: Final = 0
SELECT_OUT: Final = 1
SELECT_WIDTH: Final = 2
