"""The int64 operand rows of the ops that read no weight matrices, and the sizes of attention's work.

As in ``operands``: slot i is the int64 at ``op + 8 * i``; a float32 lies in the low half of its slot. A buffer is
(rows, width) float32 without gaps. ``ROWS`` operands are ROWS_TOKENS or ROWS_LOGITS.

How keys and values lie in memory is told in ``kv_layout``.
"""

from __future__ import annotations

from typing import Final

from engine.kernels.cpu.isa import ISA, InstructionSet
from engine.kernels.cpu.kv_layout import padded

NORM_X: Final = 0
NORM_WEIGHT: Final = 1  # address of (width / groups,) float32, or of (width,); 0: none
NORM_OUT: Final = 2
NORM_WIDTH: Final = 3
NORM_GROUPS: Final = 4
NORM_EPS: Final = 5  # float32
NORM_ROWS: Final = 6
NORM_ACCUMULATE: Final = 7  # 1: add to what is in out
NORM_WEIGHT_GROUPS: Final = 8  # 1: all parts share the weight; groups: each has its own
NORM_BIAS: Final = 9  # address like the weight's, or 0

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
WRITE_KEY_BLOCK_BYTES: Final = 9  # from one block to the next
WRITE_VALUE_BLOCK_BYTES: Final = 10

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
ATTENTION_KEY_BLOCK_BYTES: Final = 17  # from one block to the next
ATTENTION_VALUE_BLOCK_BYTES: Final = 18
ATTENTION_SLOPES: Final = 19  # address of (heads,) float32, what a step of distance takes off a score; or 0
ATTENTION_RUN: Final = 20  # a row sees its own run of that many positions; 0: all

MAX_SPLIT_SLICES: Final = 16  # only a batch of few sequences lacks parallel work
MAX_SPLIT_ITEMS: Final = 64  # pieces of work one sequence is cut into, at most
CHUNK: Final = 128  # positions between two updates of the softmax: their scores and values stay in the caches
# Query rows of a register tile: rows x 16 sums, the 16 values they meet and a weight fill the registers.
TILE_ROWS: Final = 8 if ISA is InstructionSet.AVX512VNNI else 6
# Tiles of one piece of a prefill: they share what is made of the keys and values, which on AVX2 costs more.
PREFILL_TILES: Final = 16 if ISA is InstructionSet.AVX2 else 4
_STATE_FLOATS: Final = 64  # maxima, sums, factors and sums of a chunk, 16 rows each


def tile_bytes(rows: int, value_dim: int) -> int:
    """Bytes of a tile's result: weighted values of ``rows`` query rows, then maxima, sums and scratch of theirs."""
    return (rows * padded(value_dim) + _STATE_FLOATS) * 4


def attention_scratch_bytes(key_dim: int, value_dim: int) -> int:
    """Bytes of a thread's scratch, at most: queries, two sets of scores, results, keys and values of a chunk."""
    rows = TILE_ROWS * PREFILL_TILES
    panels = CHUNK * (key_dim + 1 + padded(value_dim)) * 4
    scores = 2 * TILE_ROWS * CHUNK * 4
    return rows * (key_dim + 1) * 4 + scores + PREFILL_TILES * tile_bytes(TILE_ROWS, value_dim) + panels


def decode_rows(group: int) -> int:
    """Rows of a tile for one token whose KV head serves ``group`` query heads: all, or equal parts of them."""
    tiles = -(-group // TILE_ROWS)
    return -(-group // tiles)


GATED_GATE: Final = 0
GATED_UP: Final = 1
GATED_OUT: Final = 2
GATED_WIDTH: Final = 3  # of up and out
GATED_ROWS: Final = 4
GATED_RUN: Final = 5  # values of up that one value of the gate serves
GATED_LIMIT: Final = 6  # float32, 0: none
GATED_IS_EARLY: Final = 7  # 1: the gate is limited before its activation
GATED_OFFSET: Final = 8  # float32, added to up

ACTIVATE_X: Final = 0
ACTIVATE_OUT: Final = 1
ACTIVATE_WIDTH: Final = 2
ACTIVATE_ROWS: Final = 3
ACTIVATE_PARAMETERS: Final = 4  # four float32 in as many slots

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

SCALE_X: Final = 0
SCALE_OUT: Final = 1
SCALE_WIDTH: Final = 2
SCALE_ROWS: Final = 3
SCALE_FACTOR: Final = 4  # float32
SCALE_TABLE: Final = 4  # address of (positions,) float32, a factor for each

COPY_X: Final = 0
COPY_OUT: Final = 1
COPY_ROWS: Final = 2
COPY_HEADS: Final = 3
COPY_COUNT: Final = 4
COPY_X_ROW: Final = 5  # float32 values from one row to the next
COPY_X_HEAD: Final = 6  # and from one head to the next
COPY_OUT_ROW: Final = 7
COPY_OUT_HEAD: Final = 8

MIX_X: Final = 0
MIX_WEIGHTS: Final = 1  # address of (rows, outputs * inputs) float32
MIX_OUT: Final = 2
MIX_WIDTH: Final = 3  # of one stream
MIX_INPUTS: Final = 4
MIX_OUTPUTS: Final = 5
MIX_ROWS: Final = 6

LENGTH_X: Final = 0
LENGTH_LIKE: Final = 1
LENGTH_OUT: Final = 2
LENGTH_WIDTH: Final = 3  # of like and of one part of x
LENGTH_GROUPS: Final = 4
LENGTH_ROWS: Final = 5

COLUMNS_X: Final = 0
COLUMNS_OUT: Final = 1
COLUMNS_WIDTH: Final = 2
COLUMNS_ROWS: Final = 3
COLUMNS_WEIGHT: Final = 4  # address of (width,) float32

KEEP_X: Final = 0
KEEP_OUT: Final = 1
KEEP_WIDTH: Final = 2
KEEP_ROWS: Final = 3
KEEP_FACTOR: Final = 4  # float32

SELECT_X: Final = 0
SELECT_OUT: Final = 1
SELECT_WIDTH: Final = 2

ROUTE_LOGITS: Final = 0  # address of (tokens, experts) float32
ROUTE_EXPERTS: Final = 1
ROUTE_USED: Final = 2
ROUTE_BIAS: Final = 3  # address of (experts,) float32, or 0
ROUTE_GROUPS: Final = 4
ROUTE_USED_GROUPS: Final = 5
ROUTE_NORMALIZED: Final = 6
ROUTE_SCALE: Final = 7  # float32
ROUTE_DIVISOR: Final = 8
ROUTE_TABLE: Final = 9  # address of the routing table

# The routing table, int32 and float32 arrays one after the other; pairs are numbered token * used + rank. Sorted
# pairs lie by expert; the runs of the experts begin at multiples of TOKEN_TILE in quantised rows.
TABLE_IDS: Final = 0  # slots of the head hold the arrays' addresses: expert of each pair, int32
TABLE_WEIGHTS: Final = 1  # weight of each pair, float32
TABLE_ORDER: Final = 2  # pair at each sorted place, int32
TABLE_PLACES: Final = 3  # sorted place of each pair, int32
TABLE_ACTIVE: Final = 4  # the experts that have pairs, int32
TABLE_COUNTS: Final = 5  # pairs of each expert, int32
TABLE_STARTS: Final = 6  # first sorted place of each expert, int32
TABLE_TILE_STARTS: Final = 7  # first quantised row of each expert, int32
TABLE_NUM_ACTIVE: Final = 8  # the number itself
TABLE_SLOTS: Final = 16

PAIRS_X: Final = 0
PAIRS_OUT: Final = 1
PAIRS_WIDTH: Final = 2
PAIRS_USED: Final = 3
PAIRS_IS_WEIGHTED: Final = 4
PAIRS_TABLE: Final = 5

# The states of a sequence lie one after the other in its slot; a slice names its slot.
STATE_BASE: Final = 0  # address of this state in slot 0
STATE_SLOT_BYTES: Final = 1  # from one slot to the next
RECUR_X: Final = 2
RECUR_OUT: Final = 3
RECUR_X_ROW: Final = 4  # float32 values from one token to the next
RECUR_OUT_ROW: Final = 5

CONV_WEIGHT: Final = 6  # address of (taps, channels) float32
CONV_BIAS: Final = 7  # address of (channels,) float32, or 0
CONV_TAPS: Final = 8

SCAN_STEP: Final = 6  # address of (tokens, heads) float32
SCAN_DECAY: Final = 7  # address of (heads,) float32
SCAN_HEADS: Final = 8
SCAN_GROUPS: Final = 9  # of a delta net the key heads
SCAN_HEAD_DIM: Final = 10
SCAN_STATE_DIM: Final = 11
SCAN_SKIP: Final = 12  # address of (heads,) float32
DELTA_RATE: Final = 12  # address of (tokens, heads) float32
DELTA_EPS: Final = 13  # float32
DELTA_IS_GROUPED: Final = 14
