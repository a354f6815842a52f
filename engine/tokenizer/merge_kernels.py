"""The compiled loops of byte-pair encoding, as kernels that ``engine.kernels.cpu.jit`` compiles once and keeps.

Owns the loops over plain arrays; does not know files or texts. Each kernel reads its operands, addresses and
numbers, from a row of int64 at ``op`` in the order of its docstring, and may write results to slots of the row.
Imported only where a kernel has to be compiled. All arithmetic is int64 and wraps.

A text table has one int64 a slot: an id in the low bits and above it a tag, which tells texts apart.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.cpu.simd import (
    inline,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    store_i8,
    store_i32,
    store_i64,
)
from engine.tokenizer.pair_kernels import EMPTY, merge_run

MAX_TOKEN_CHARACTERS: Final = 128  # longer tokens are never made by merging; the longest in use has 32
LINE_BREAK: Final = 10
_BASE: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX: Final = 0xD6E8FEB86659FD93 - (1 << 64)
_LOW: Final = 0xFFFFFFFF
_ID_BITS: Final = 22  # room for MAX_VOCAB_SIZE; the other 42 bits of a slot tell texts apart
_ID_MASK: Final = (1 << 22) - 1


# --------------------------------------------------------------------------------------------------- encoding


@inline
def _utf8_length(code):  # type: ignore[no-untyped-def]
    return np.int64(1) + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)


@inline
def _utf8_byte(code, length, index):  # type: ignore[no-untyped-def]
    """Byte ``index`` of a code point of ``length`` bytes."""
    bits = code >> (6 * (length - 1 - index))
    if index > 0:
        return np.int64(0x80 | (bits & 0x3F))
    return np.int64(bits if length == 1 else ((0xF00 >> length) & 0xFF) | bits)


def make_symbols(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: the ids of a text before any merge, and which may not be merged with the one before.

    A character without a token becomes its bytes where all have tokens, else part of one unknown token, else
    nothing.

    0 code points (characters,) uint32, 1 number of them, 2 id by code point int32 or -1, 3 id by byte int32 or -1,
    4 unknown id or -1, 5 whether runs of line breaks stand apart, 6 result: ids (4 * characters,) int32,
    7 result: 1 where apart (4 * characters,) int8, filled with 0, 8 result: number of ids.
    """
    codes, character_ids, byte_ids = load_i64(op), load_i64(op + 16), load_i64(op + 24)
    unknown_id, breaks_apart, ids, apart = (
        load_i64(op + 32),
        load_i64(op + 40),
        load_i64(op + 48),
        load_i64(op + 56),
    )
    count, before, after_unknown = np.int64(0), np.int64(-1), np.int64(0)
    for position in range(load_i64(op + 8)):
        code = np.int64(load_u32(codes + position * 4))
        if breaks_apart != 0 and before >= 0 and (code == LINE_BREAK) != (before == LINE_BREAK):
            store_i8(apart + count, 1)
        before = code
        token_id = np.int64(load_i32(character_ids + code * 4))
        if token_id >= 0:
            store_i32(ids + count * 4, token_id)
            count += 1
            after_unknown = np.int64(0)
            continue
        length = _utf8_length(code)
        num_known = np.int64(0)
        for index in range(length):
            byte_id = load_i32(byte_ids + _utf8_byte(code, length, index) * 4)
            store_i32(ids + (count + index) * 4, byte_id)
            num_known += byte_id >= 0
        if num_known == length:
            count += length
            after_unknown = np.int64(0)
        elif unknown_id >= 0 and after_unknown == 0:
            store_i32(ids + count * 4, unknown_id)
            count += 1
            after_unknown = np.int64(1)
    store_i64(op + 64, count)


def merge_symbols(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: merge neighbours, each run of symbols for itself; see ``pair_kernels.merge_run``.

    0 ids (symbols,) int32, replaced by those that remain, 1 apart (symbols,) int8: 1 where a run begins, 2 number
    of symbols, 3 keys, 4 ranks, 5 slots - 1, 6 made (merges,) int32, 7 scratch (6 * symbols,) int64, 8 result:
    number of ids.
    """
    ids, apart, count = load_i64(op), load_i64(op + 8), load_i64(op + 16)
    keys, ranks, mask, made = load_i64(op + 24), load_i64(op + 32), load_i64(op + 40), load_i64(op + 48)
    num_ids, start = np.int64(0), np.int64(0)
    while start < count:
        end = start + 1
        while end < count and load_u8(apart + end) == 0:
            end += 1
        kept = merge_run(ids + start * 4, end - start, keys, ranks, mask, made, load_i64(op + 56))
        for index in range(kept):
            store_i32(ids + (num_ids + index) * 4, load_i32(ids + (start + index) * 4))
        num_ids += kept
        start = end
    store_i64(op + 64, num_ids)


# ------------------------------------------------------------------------------------------- merges from scores


@inline
def _span_hash(prefix_hashes, powers, start, length):  # type: ignore[no-untyped-def]
    """Hash of a span of the joined text, in constant time, mixed so that all bits depend on all characters."""
    hashed = load_i64(prefix_hashes + (start + length) * 8)
    hashed -= load_i64(prefix_hashes + start * 8) * load_i64(powers + length * 8)
    hashed = (hashed ^ ((hashed >> 32) & _LOW)) * _MIX
    return hashed ^ ((hashed >> 29) & ((1 << 35) - 1))


@inline
def _find(table, mask, span_hash):  # type: ignore[no-untyped-def]
    """Id of the token whose text has this hash, or -1.

    Texts are not compared here. A false match is a chance of 1 in 10^6 for a whole vocabulary; a file made for it
    loses merges, no more, because the two parts of each merge are compared with the token in the end.
    """
    slot = span_hash & mask
    entry = load_i64(table + slot * 8)
    while entry != EMPTY and (entry ^ span_hash) >> _ID_BITS != 0:
        slot = (slot + 1) & mask
        entry = load_i64(table + slot * 8)
    return entry & _ID_MASK if entry != EMPTY else np.int64(-1)


@inline
def _fill_texts(op, prefix_hashes, powers):  # type: ignore[no-untyped-def]
    """Hash all texts and enter the mergeable tokens in the text table."""
    codes, starts, lengths, mergeable = load_i64(op), load_i64(op + 16), load_i64(op + 24), load_i64(op + 40)
    table, mask = load_i64(op + 56), load_i64(op + 64)
    store_i64(prefix_hashes, 0)
    for position in range(load_i64(op + 8)):
        hashed = load_i64(prefix_hashes + position * 8) * _BASE + np.int64(load_u32(codes + position * 4)) + 1
        store_i64(prefix_hashes + position * 8 + 8, hashed)
    store_i64(powers, 1)
    for exponent in range(MAX_TOKEN_CHARACTERS):
        store_i64(powers + exponent * 8 + 8, load_i64(powers + exponent * 8) * _BASE)
    for token_id in range(load_i64(op + 48)):
        length = load_i64(lengths + token_id * 8)
        if load_u8(mergeable + token_id) != 0 and length <= MAX_TOKEN_CHARACTERS:
            span_hash = _span_hash(prefix_hashes, powers, load_i64(starts + token_id * 8), length)
            slot = span_hash & mask
            while load_i64(table + slot * 8) != EMPTY:
                slot = (slot + 1) & mask
            store_i64(table + slot * 8, (span_hash >> _ID_BITS << _ID_BITS) | token_id)


@inline
def _reads_same(op, token_id, first, second):  # type: ignore[no-untyped-def]
    """Whether the texts of two tokens (or -1), one after the other, are that of a third."""
    codes, starts, lengths = load_i64(op), load_i64(op + 16), load_i64(op + 24)
    if first < 0 or second < 0:
        return False
    cut, length = load_i64(lengths + first * 8), load_i64(lengths + token_id * 8)
    if cut + load_i64(lengths + second * 8) != length:
        return False
    same = True
    for position in range(length):
        place = load_i64(starts + first * 8) + position
        if position >= cut:
            place = load_i64(starts + second * 8) + position - cut
        same &= load_u32(codes + place * 4) == load_u32(codes + (load_i64(starts + token_id * 8) + position) * 4)
    return same


@inline
def _score_of(op, prefix_hashes, powers, start, length):  # type: ignore[no-untyped-def]
    """Score of the token that a span reads, or the lowest int64 where it is none."""
    found = _find(load_i64(op + 56), load_i64(op + 64), _span_hash(prefix_hashes, powers, start, length))
    return np.int64(load_i32(load_i64(op + 32) + found * 4)) if found >= 0 else np.int64(-(1 << 63))


def last_merges(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: left and right part of each token's last merge, -1 where no merge makes it.

    0 code points of all tokens, joined, uint32, 1 number of them, 2 starts (tokens,) int64, 3 lengths int64,
    4 scores int32, 5 mergeable int8, 6 number of tokens, 7 text table filled with EMPTY, 8 slots - 1,
    9 scratch (code points + 1,) int64, 10 scratch (3 * (MAX_TOKEN_CHARACTERS + 1),) int64,
    11 result: left (tokens,) int32, filled with -1, 12 result: right.
    """
    starts, lengths, mergeable = load_i64(op + 16), load_i64(op + 24), load_i64(op + 40)
    table, mask, prefix_hashes, powers = load_i64(op + 56), load_i64(op + 64), load_i64(op + 72), load_i64(op + 80)
    symbols = powers + (MAX_TOKEN_CHARACTERS + 1) * 8  # start of each, then the end of the last
    pairs = symbols + (MAX_TOKEN_CHARACTERS + 1) * 8  # score of each symbol and the next
    none = np.int64(-(1 << 63))
    _fill_texts(op, prefix_hashes, powers)
    for token_id in range(load_i64(op + 48)):
        count = load_i64(lengths + token_id * 8)
        if load_u8(mergeable + token_id) == 0 or count < 2 or count > MAX_TOKEN_CHARACTERS:
            continue
        start = load_i64(starts + token_id * 8)
        for k in range(count + 1):
            store_i64(symbols + k * 8, start + k)
        for k in range(count - 1):
            store_i64(pairs + k * 8, _score_of(op, prefix_hashes, powers, start + k, 2))
        while count > 2:
            best, best_score = np.int64(-1), none
            for k in range(count - 1):
                if load_i64(pairs + k * 8) > best_score:
                    best, best_score = np.int64(k), load_i64(pairs + k * 8)
            if best < 0:
                break
            for k in range(best + 1, count):
                store_i64(symbols + k * 8, load_i64(symbols + k * 8 + 8))
            for k in range(best + 1, count - 2):
                store_i64(pairs + k * 8, load_i64(pairs + k * 8 + 8))
            count -= 1
            for k in range(best - 1 if best > 0 else best, best + 1 if best + 1 < count else best):
                first = load_i64(symbols + k * 8)
                span = load_i64(symbols + k * 8 + 16) - first
                store_i64(pairs + k * 8, _score_of(op, prefix_hashes, powers, first, span))
        if count == 2 and load_i64(pairs) != none:
            cut, end = load_i64(symbols + 8), load_i64(symbols + 16)
            left = _find(table, mask, _span_hash(prefix_hashes, powers, start, cut - start))
            right = _find(table, mask, _span_hash(prefix_hashes, powers, cut, end - cut))
            if _reads_same(op, token_id, left, right):
                store_i32(load_i64(op + 88) + token_id * 4, left)
                store_i32(load_i64(op + 96) + token_id * 4, right)


def all_splits(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: the merges in order, of tied tokens every split into two tokens.

    0 to 12 as ``last_merges`` took and left them, 13 tokens in order of their merges int64, 14 1 where tied int8,
    15 number of them, 16 result: left int32, 17 right, 18 made, 19 result: number of merges.
    """
    starts, lengths, table, mask = load_i64(op + 16), load_i64(op + 24), load_i64(op + 56), load_i64(op + 64)
    prefix_hashes, powers = load_i64(op + 72), load_i64(op + 80)
    firsts, seconds, made = load_i64(op + 128), load_i64(op + 136), load_i64(op + 144)
    count = np.int64(0)
    for index in range(load_i64(op + 120)):
        token_id = load_i64(load_i64(op + 104) + index * 8)
        start, length = load_i64(starts + token_id * 8), load_i64(lengths + token_id * 8)
        if load_u8(load_i64(op + 112) + index) == 0:
            store_i32(firsts + count * 4, load_i32(load_i64(op + 88) + token_id * 4))
            store_i32(seconds + count * 4, load_i32(load_i64(op + 96) + token_id * 4))
            store_i32(made + count * 4, token_id)
            count += 1
            continue
        for cut in range(1, length):
            left = _find(table, mask, _span_hash(prefix_hashes, powers, start, cut))
            right = _find(table, mask, _span_hash(prefix_hashes, powers, start + cut, length - cut))
            if _reads_same(op, token_id, left, right):
                store_i32(firsts + count * 4, left)
                store_i32(seconds + count * 4, right)
                store_i32(made + count * 4, token_id)
                count += 1
    store_i64(op + 152, count)
