"""Merges of a SentencePiece vocabulary, derived from its scores.

A SentencePiece file lists tokens and scores, not merges: while encoding, the adjacent pair whose joined text is
the token of the highest score is merged, leftmost first. What happens inside the span of a token does not depend
on what stands around it, so each token is only ever reached by one last merge: the one that its own text ends
with. These are found by encoding every token's text once, which a compiled loop does for 262,144 tokens in 40 ms;
listing all ways to split them instead takes 1.2 s and makes the merge table twice as large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.kernels.cpu.jit import KernelSource, load_kernels
from engine.kernels.cpu.kernel_call import run_kernel
from engine.tokenizer.texts import CodePoints

_EMPTY: Final = -1
_SCRATCH: Final = 3 * 129  # see ``last_merges``
_LAST_MERGES: Final = KernelSource("engine.tokenizer.merge_kernels", "last_merges")
_ALL_SPLITS: Final = KernelSource("engine.tokenizer.merge_kernels", "all_splits")


@dataclass(frozen=True, eq=False)
class Merges:
    """The merges of a vocabulary, first to last: ids (merges,) int32 of both parts and of what they make."""

    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    made: npt.NDArray[np.int32]


def derive_merges(texts: CodePoints, scores: npt.NDArray[np.float32], mergeable: npt.NDArray[np.bool_]) -> Merges:
    """The merges of a vocabulary.

    Args:
        texts: of all tokens.
        scores: (vocab_size,) float32, higher is merged first.
        mergeable: (vocab_size,) bool, tokens that merging may make or use.
    """
    count = texts.lengths.size
    table = np.full(1 << (2 * count).bit_length(), _EMPTY, np.int64)
    left = np.full(count, -1, np.int32)
    right = np.full(count, -1, np.int32)
    last_merges = load_kernels([_LAST_MERGES])[_LAST_MERGES]
    tokens = (texts.codes, texts.codes.size, texts.starts, texts.lengths, _as_ordered_integers(scores))
    usable = (mergeable & (texts.lengths > 0)).view(np.int8)
    # The kernels share their operands: what one writes to scratch, hashes and powers, the other reads.
    scratch = (np.empty(texts.codes.size + 1, np.int64), np.empty(_SCRATCH, np.int64))
    operands = (*tokens, usable, count, table, table.size - 1, *scratch)
    run_kernel(last_merges, *operands, left, right)
    order = np.argsort(-scores, kind="stable")
    order = order[(left[order] >= 0) & (right[order] >= 0)]
    tied = _tied(scores[order])
    if not tied.any():
        return Merges(left[order], right[order], order.astype(np.int32))
    # A merge table cannot say "leftmost first" among equals; with all splits of tokens that share their score
    # present, the outcome is the same for the vocabularies in use, whose ties are padding and rare words.
    room = int(np.where(tied, texts.lengths[order], 1).sum())
    columns = [np.empty(room, np.int32) for _ in range(3)]
    ordered = (np.ascontiguousarray(order), tied.view(np.int8), order.size)
    all_splits = load_kernels([_ALL_SPLITS])[_ALL_SPLITS]
    found = run_kernel(all_splits, *operands, left, right, *ordered, *columns)
    return Merges(*(column[:found].copy() for column in columns))


def _as_ordered_integers(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Integers in the same order, equal where the scores are: kernels have no infinities."""
    bits = (scores + np.float32(0)).view(np.int32)  # 0 is -0
    return np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)


def _tied(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Which of the descending ``scores`` equal a neighbour."""
    tied = np.zeros(scores.size, np.bool_)
    if scores.size > 1:
        equal = scores[1:] == scores[:-1]
        tied[1:] |= equal
        tied[:-1] |= equal
    return tied
