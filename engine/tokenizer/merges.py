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
from numba import njit

MAX_TOKEN_CHARACTERS: Final = 128  # longer ones are never made by merging; the longest in use has 32
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX: Final = np.uint64(0xD6E8FEB86659FD93)
_ID_BITS: Final = np.uint64(22)  # room for MAX_VOCAB_SIZE; the other 42 bits of a slot tell texts apart
_ID_MASK: Final = np.uint64((1 << 22) - 1)
_EMPTY: Final = np.uint64((1 << 22) - 1)


@njit(cache=True, nogil=True)
def _span_hash(prefix_hashes, powers, start, length):  # type: ignore[no-untyped-def]
    """Hash of a span of the joined text, in constant time, mixed so that all bits depend on all characters."""
    value = prefix_hashes[start + length] - prefix_hashes[start] * powers[length]
    value = (value ^ (value >> np.uint64(32))) * _MIX
    return value ^ (value >> np.uint64(29))


@njit(cache=True, nogil=True)
def _find(table, span_hash):  # type: ignore[no-untyped-def]
    """Id of the token whose text has this hash, or -1.

    Texts are not compared here. A false match is a chance of 1 in 10^6 for a whole vocabulary; a file made for it
    loses merges, no more, because the two parts of each merge are compared with the token in the end.
    """
    mask = np.uint64(table.size - 1)
    tag = span_hash >> _ID_BITS
    slot = span_hash & mask
    while table[slot] != _EMPTY:
        if table[slot] >> _ID_BITS == tag:
            return np.int64(table[slot] & _ID_MASK)
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _reads_same(codes, starts, lengths, token_id, first, second):  # type: ignore[no-untyped-def]
    """Whether the texts of two tokens (or -1), one after the other, are that of a third."""
    if first < 0 or second < 0 or lengths[first] + lengths[second] != lengths[token_id]:
        return False
    for position in range(lengths[token_id]):
        part, offset = first, position
        if position >= lengths[first]:
            part, offset = second, position - lengths[first]
        if codes[starts[part] + offset] != codes[starts[token_id] + position]:
            return False
    return True


@njit(cache=True, nogil=True)
def _last_merges(codes, starts, lengths, scores, mergeable, table):  # type: ignore[no-untyped-def]
    """Left and right part of each token's last merge, (vocab_size,) int32 each; -1 where no merge makes it.

    ``codes`` are the code points of all tokens, joined; ``table`` is an open-addressing hash table, (a power of
    two,) uint64 filled with ``_EMPTY``, each slot a tag and a token id.
    """
    num_tokens = starts.size
    prefix_hashes = np.empty(codes.size + 1, np.uint64)
    prefix_hashes[0] = 0
    for position in range(codes.size):
        prefix_hashes[position + 1] = prefix_hashes[position] * _BASE + np.uint64(codes[position]) + np.uint64(1)
    powers = np.empty(MAX_TOKEN_CHARACTERS + 1, np.uint64)
    powers[0] = 1
    for exponent in range(MAX_TOKEN_CHARACTERS):
        powers[exponent + 1] = powers[exponent] * _BASE
    mask = np.uint64(table.size - 1)
    for token_id in range(num_tokens):
        if mergeable[token_id] and lengths[token_id] <= MAX_TOKEN_CHARACTERS:
            span_hash = _span_hash(prefix_hashes, powers, starts[token_id], lengths[token_id])
            slot = span_hash & mask
            while table[slot] != _EMPTY:
                slot = (slot + np.uint64(1)) & mask
            table[slot] = (span_hash >> _ID_BITS << _ID_BITS) | np.uint64(token_id)

    left = np.full(num_tokens, -1, np.int32)
    right = np.full(num_tokens, -1, np.int32)
    symbol_start = np.empty(MAX_TOKEN_CHARACTERS, np.int64)
    symbol_length = np.empty(MAX_TOKEN_CHARACTERS, np.int64)
    pair_score = np.empty(MAX_TOKEN_CHARACTERS, np.float32)
    pair_exists = np.empty(MAX_TOKEN_CHARACTERS, np.bool_)
    for token_id in range(num_tokens):
        count = lengths[token_id]
        if not mergeable[token_id] or count < 2 or count > MAX_TOKEN_CHARACTERS:
            continue
        for k in range(count):
            symbol_start[k] = starts[token_id] + k
            symbol_length[k] = 1
        for k in range(count - 1):
            found = _find(table, _span_hash(prefix_hashes, powers, symbol_start[k], 2))
            pair_exists[k] = found >= 0
            if found >= 0:
                pair_score[k] = scores[found]
        while count > 2:
            best = -1
            for k in range(count - 1):
                if pair_exists[k] and (best < 0 or pair_score[k] > pair_score[best]):
                    best = k
            if best < 0:
                break
            symbol_length[best] += symbol_length[best + 1]
            for k in range(best + 1, count - 1):
                symbol_start[k] = symbol_start[k + 1]
                symbol_length[k] = symbol_length[k + 1]
            for k in range(best + 1, count - 2):
                pair_exists[k] = pair_exists[k + 1]
                pair_score[k] = pair_score[k + 1]
            count -= 1
            for k in range(max(best - 1, 0), min(best + 1, count - 1)):
                length = symbol_length[k] + symbol_length[k + 1]
                found = _find(table, _span_hash(prefix_hashes, powers, symbol_start[k], length))
                pair_exists[k] = found >= 0
                if found >= 0:
                    pair_score[k] = scores[found]
        if count == 2 and pair_exists[0]:
            first = _find(table, _span_hash(prefix_hashes, powers, symbol_start[0], symbol_length[0]))
            second = _find(table, _span_hash(prefix_hashes, powers, symbol_start[1], symbol_length[1]))
            if _reads_same(codes, starts, lengths, token_id, first, second):
                left[token_id], right[token_id] = first, second
    return left, right


@dataclass(frozen=True, eq=False)
class Merges:
    """The merges of a vocabulary, first to last: ids (merges,) int32 of both parts and of what they make."""

    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    made: npt.NDArray[np.int32]


def derive_merges(tokens: list[str], scores: npt.NDArray[np.float32], mergeable: npt.NDArray[np.bool_]) -> Merges:
    """The merges of a vocabulary.

    Args:
        tokens: texts by id.
        scores: (vocab_size,) float32, higher is merged first.
        mergeable: (vocab_size,) bool, tokens that merging may make or use.
    """
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    starts = np.cumsum(lengths) - lengths
    codes = np.frombuffer("".join(tokens).encode("utf-32-le", "surrogatepass"), np.uint32)
    table = np.full(1 << (2 * len(tokens)).bit_length(), _EMPTY, np.uint64)
    left, right = _last_merges(codes, starts, lengths, scores, mergeable & (lengths > 0), table)
    order = np.argsort(-scores, kind="stable")
    order = order[(left[order] >= 0) & (right[order] >= 0)]
    tied = _tied(scores[order])
    if not tied.any():
        return Merges(left[order], right[order], order.astype(np.int32))
    return _merges_with_ties(tokens, order, left, right, tied, mergeable)


def _tied(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Which of the descending ``scores`` equal a neighbour."""
    tied = np.zeros(scores.size, np.bool_)
    if scores.size > 1:
        equal = scores[1:] == scores[:-1]
        tied[1:] |= equal
        tied[:-1] |= equal
    return tied


def _merges_with_ties(
    tokens: list[str],
    order: npt.NDArray[np.int64],
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    tied: npt.NDArray[np.bool_],
    mergeable: npt.NDArray[np.bool_],
) -> Merges:
    """Like the plain merges, with every split of a token whose score another token has too.

    A merge table cannot say "leftmost first" among equals; with all splits present the outcome is the same for
    the vocabularies in use, whose ties are padding and rare words.
    """
    usable = {tokens[token_id]: token_id for token_id in np.flatnonzero(mergeable).tolist()}
    merges: list[tuple[int, int, int]] = []
    for token_id, is_tied in zip(order.tolist(), tied.tolist()):
        if not is_tied:
            merges.append((left[token_id], right[token_id], token_id))
            continue
        token = tokens[token_id]
        for cut in range(1, len(token)):
            first, second = usable.get(token[:cut]), usable.get(token[cut:])
            if first is not None and second is not None:
                merges.append((first, second, token_id))
    columns = np.array(merges, np.int32).reshape(-1, 3).T
    return Merges(*np.ascontiguousarray(columns))
