"""The compiled loops of byte-level BPE: tokens and merges read where they lie in the file, and bytes to ids.

Written like ``merge_kernels``, which says how kernels read their operands. Texts are arrays of the file: 8 bytes of
length and the bytes, one after the other. A token is found by a hash of its bytes, of 64 bits, and not compared: a
false match in a whole vocabulary is a chance of 1 in 10^8, and costs one odd merge.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.cpu.simd import inline, load_i16, load_i32, load_i64, load_u8, store_i32, store_i64
from engine.tokenizer.pair_kernels import EMPTY, merge_run

NOT_FOUND: Final = -1
_BASE: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX: Final = 0xD6E8FEB86659FD93 - (1 << 64)
_LOW: Final = 0xFFFFFFFF
_NUM_CHARACTERS: Final = 0x144  # the alphabet ends here
_SPACE: Final = 0x20


# ------------------------------------------------------------------------------------------------- token table


@inline
def _key_of(hashed):  # type: ignore[no-untyped-def]
    mixed = (hashed ^ ((hashed >> 32) & _LOW)) * _MIX
    mixed = mixed ^ ((mixed >> 29) & ((1 << 35) - 1))
    return mixed if mixed != EMPTY else np.int64(0)


@inline
def _find(keys, ids, mask, hashed):  # type: ignore[no-untyped-def]
    """Id of the token with this hash, or NOT_FOUND."""
    key = _key_of(hashed)
    slot = key & mask
    while load_i64(keys + slot * 8) != EMPTY:
        if load_i64(keys + slot * 8) == key:
            return np.int64(load_i32(ids + slot * 4))
        slot = (slot + 1) & mask
    return np.int64(NOT_FOUND)


@inline
def _next_byte(text, position, end, alphabet):  # type: ignore[no-untyped-def]
    """The byte that stands at ``position``, above it in bits 8 and up how many the file writes it with; -1 if none.

    With an alphabet a character of the file stands for a byte; without one (0) each byte stands for itself.
    """
    first = np.int64(load_u8(text + position))
    if alphabet == 0:
        return first | 256
    if first < 0x80:
        byte = np.int64(load_i16(alphabet + first * 2))
        return byte | 256 if byte >= 0 else np.int64(-1)
    if first < 0xC2 or first > 0xC5 or position + 1 >= end:
        return np.int64(-1)
    code = ((first & 0x1F) << 6) | (np.int64(load_u8(text + position + 1)) & 0x3F)
    byte = np.int64(load_i16(alphabet + code * 2)) if code < _NUM_CHARACTERS else np.int64(-1)
    return byte | 512 if byte >= 0 else np.int64(-1)


def index_tokens(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: enter the usable tokens in the table, and tell which tokens are single bytes.

    0 tokens, as the file has them, 1 their bytes, 2 number of tokens, 3 usable (tokens,) int8, 4 byte by character
    int16 or -1, or 0 where bytes stand for themselves, 5 keys int64 filled with EMPTY, 6 ids int32, 7 slots - 1,
    8 result: id by byte (256,) int32, filled with NOT_FOUND.
    """
    text, end, alphabet = load_i64(op), load_i64(op + 8), load_i64(op + 32)
    keys, ids, mask = load_i64(op + 40), load_i64(op + 48), load_i64(op + 56)
    position = np.int64(0)
    for token_id in range(load_i64(op + 16)):
        if position + 8 > end:
            break
        length = load_i64(text + position)
        position += 8
        if length < 0 or length > end - position:
            break
        after = position + length
        hashed, count, byte = np.int64(0), np.int64(0), np.int64(-1)
        is_known = length > 0 and load_u8(load_i64(op + 24) + token_id) != 0
        while is_known and position < after:
            found = _next_byte(text, position, after, alphabet)
            is_known = found >= 0
            position += found >> 8
            byte = found & 255
            hashed = hashed * _BASE + byte + 1
            count += 1
        position = after
        if is_known:
            key = _key_of(hashed)
            slot = key & mask
            while load_i64(keys + slot * 8) != EMPTY and load_i64(keys + slot * 8) != key:
                slot = (slot + 1) & mask
            store_i64(keys + slot * 8, key)
            store_i32(ids + slot * 4, token_id)
            if count == 1:
                store_i32(load_i64(op + 64) + byte * 4, token_id)


def read_merges(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: the merges whose two parts and whose result are tokens; the others have no effect.

    Each is a pair separated by the first space after its first byte.

    0 merges, as the file has them, 1 their bytes, 2 number of merges, 3 byte by character or 0, 4 keys, 5 ids,
    6 slots - 1, 7 result: left (merges,) int32, 8 right, 9 made, 10 result: (1,) int64, index of a merge that is no
    pair, or -1, 11 result: number of merges found.
    """
    text, end, alphabet = load_i64(op), load_i64(op + 8), load_i64(op + 24)
    keys, ids, mask = load_i64(op + 32), load_i64(op + 40), load_i64(op + 48)
    position, count = np.int64(0), np.int64(0)
    broken = load_i64(op + 80)
    store_i64(broken, -1)
    for index in range(load_i64(op + 16)):
        if position + 8 > end:
            break
        length = load_i64(text + position)
        position += 8
        if length < 0 or length > end - position:
            break
        after = position + length
        cut = position + 1
        while cut < after and load_u8(text + cut) != _SPACE:
            cut += 1
        if cut >= after - 1:
            store_i64(broken, index)
            break
        first, second, power, is_known = np.int64(0), np.int64(0), np.int64(1), True
        while is_known and position < cut:
            found = _next_byte(text, position, cut, alphabet)
            is_known = found >= 0
            position += found >> 8
            first = first * _BASE + (found & 255) + 1
        position = cut + 1
        while is_known and position < after:
            found = _next_byte(text, position, after, alphabet)
            is_known = found >= 0
            position += found >> 8
            second = second * _BASE + (found & 255) + 1
            power *= _BASE
        position = after
        if is_known:
            left, right = _find(keys, ids, mask, first), _find(keys, ids, mask, second)
            made = _find(keys, ids, mask, first * power + second)
            if left >= 0 and right >= 0 and made >= 0:
                store_i32(load_i64(op + 56) + count * 4, left)
                store_i32(load_i64(op + 64) + count * 4, right)
                store_i32(load_i64(op + 72) + count * 4, made)
                count += 1
    store_i64(op + 88, count)


# --------------------------------------------------------------------------------------------------- encoding


def encode_pieces(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: ids of a text whose pieces are merged each for itself; bytes that are no token vanish.

    0 UTF-8 of the text, 1 its bytes, 2 starts of the pieces (pieces,) int64, in characters, ascending from 0,
    3 number of pieces, 4 id by byte (256,) int32, 5 keys of the tokens, or 0 where a piece that is a token is not
    taken whole, 6 ids, 7 slots - 1, 8 keys of the pairs, 9 ranks, 10 slots - 1, 11 made (merges,) int32, 12 scratch
    (6 * bytes of the longest piece,) int64, 13 result: ids (bytes,) int32, 14 result: number of ids.
    """
    text, end, starts, num_pieces = load_i64(op), load_i64(op + 8), load_i64(op + 16), load_i64(op + 24)
    by_byte, words, word_ids, word_mask = (
        load_i64(op + 32),
        load_i64(op + 40),
        load_i64(op + 48),
        load_i64(op + 56),
    )
    pairs, ranks, mask, made = load_i64(op + 64), load_i64(op + 72), load_i64(op + 80), load_i64(op + 88)
    scratch, ids = load_i64(op + 96), load_i64(op + 104)
    position, character, count = np.int64(0), np.int64(0), np.int64(0)
    for piece in range(num_pieces):
        stop = load_i64(starts + piece * 8 + 8) if piece + 1 < num_pieces else np.int64(1 << 62)
        place = ids + count * 4
        symbols, hashed = np.int64(0), np.int64(0)
        while position < end:
            byte = np.int64(load_u8(text + position))
            if byte & 0xC0 != 0x80:
                if character == stop:
                    break
                character += 1
            position += 1
            hashed = hashed * _BASE + byte + 1
            token_id = load_i32(by_byte + byte * 4)
            store_i32(place + symbols * 4, token_id)
            symbols += token_id >= 0
        whole = _find(words, word_ids, word_mask, hashed) if words != 0 else np.int64(NOT_FOUND)
        if whole >= 0:
            store_i32(place, whole)
            count += 1
        else:
            count += merge_run(place, symbols, pairs, ranks, mask, made, scratch)
    store_i64(op + 112, count)
