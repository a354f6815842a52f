"""The compiled loops over a vocabulary's texts as they lie in the file; written like ``merge_kernels``.

An array of texts is, for each, 8 bytes of length and the bytes. The index is an open-addressing table: int32 ids,
or EMPTY, by the hash of the bytes; texts are compared.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from engine.kernels.cpu.simd import (
    inline,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    store_i8,
    store_i32,
    store_i64,
)
from engine.tokenizer.kinds_for_kernels import ALPHABET, AS_IT_IS, BYTE, BYTE_SHIFT, MARKED, SPACED

EMPTY: Final = -1
_BASE: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_LOW: Final = 0xFFFFFFFF
_NO_CODE: Final = -1
_NUM_CHARACTERS: Final = 0x144  # of the alphabet of byte-level BPE


@inline
def _slot_of(text, length, data, starts, lengths, index, mask):  # type: ignore[no-untyped-def]
    """Slot of a text in the index: the one that holds it, or the empty one where it would go."""
    hashed = np.int64(length)
    for place in range(length):
        hashed = (hashed ^ load_u8(text + place)) * _BASE
        hashed = hashed ^ ((hashed >> 32) & _LOW)
    slot = hashed & mask
    while True:
        token_id = np.int64(load_i32(index + slot * 4))
        if token_id == EMPTY:
            return slot
        if load_i64(lengths + token_id * 8) == length:
            other, num_equal = data + load_i64(starts + token_id * 8), np.int64(0)
            while num_equal < length and load_u8(text + num_equal) == load_u8(other + num_equal):
                num_equal += 1
            if num_equal == length:
                return slot
        slot = (slot + 1) & mask


def index_texts(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: where each text lies, and the index of those that are not empty.

    0 texts, 1 their bytes, 2 number of texts, 3 index int32 filled with EMPTY, 4 slots - 1, 5 result: starts
    (texts,) int64, 6 result: lengths in bytes int64, 7 result: id of the first text that stood before, or -1.
    """
    data, end, index, mask = load_i64(op), load_i64(op + 8), load_i64(op + 24), load_i64(op + 32)
    starts, lengths = load_i64(op + 40), load_i64(op + 48)
    position, repeated = np.int64(0), np.int64(-1)
    for token_id in range(load_i64(op + 16)):
        length = load_i64(data + position) if position + 8 <= end else np.int64(0)
        start = min(position + 8, end)
        length = min(max(length, np.int64(0)), end - start)
        position = start + length
        store_i64(starts + token_id * 8, start)
        store_i64(lengths + token_id * 8, length)
        if length > 0:
            slot = _slot_of(data + start, length, data, starts, lengths, index, mask)
            if load_i32(index + slot * 4) == EMPTY:
                store_i32(index + slot * 4, token_id)
            elif repeated < 0:
                repeated = np.int64(token_id)
    store_i64(op + 56, repeated)


def find_text(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: the id of a text, or EMPTY.

    0 text, 1 its bytes, 2 texts, 3 starts, 4 lengths, 5 index, 6 slots - 1, 7 result.
    """
    slot = _slot_of(
        load_i64(op),
        load_i64(op + 8),
        load_i64(op + 16),
        load_i64(op + 24),
        load_i64(op + 32),
        load_i64(op + 40),
        load_i64(op + 48),
    )
    store_i64(op + 56, load_i32(load_i64(op + 40) + slot * 4))


@inline
def _continuation(text, place, end):  # type: ignore[no-untyped-def]
    """The six bits of a byte that continues a character, or _NO_CODE."""
    if place >= end:
        return np.int64(_NO_CODE)
    byte = np.int64(load_u8(text + place))
    return byte & 0x3F if byte & 0xC0 == 0x80 else np.int64(_NO_CODE)


def decode_texts(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: the code points of all texts, joined; a text that is no UTF-8 has none.

    0 texts, 1 starts, 2 lengths, 3 number of texts, 4 result: code points (bytes,) uint32, 5 result: number of code
    points of each (texts,) int64, 6 result: number of all.
    """
    data, starts, lengths = load_i64(op), load_i64(op + 8), load_i64(op + 16)
    codes, counts, total = load_i64(op + 32), load_i64(op + 40), np.int64(0)
    for token_id in range(load_i64(op + 24)):
        text, end = data + load_i64(starts + token_id * 8), load_i64(lengths + token_id * 8)
        place, count = np.int64(0), np.int64(0)
        while place < end:
            first = np.int64(load_u8(text + place))
            place += 1
            following = np.int64(0)
            code = first
            if first >= 0xF0:
                following, code = np.int64(3), first & 7
            elif first >= 0xE0:
                following, code = np.int64(2), first & 15
            elif first >= 0xC0:
                following, code = np.int64(1), first & 31
            is_valid = first < 0x80 or following > 0
            for _ in range(following):
                bits = _continuation(text, place, end)
                is_valid = is_valid and bits >= 0
                code = (code << 6) | (bits & 0x3F)
                place += 1
            if not is_valid or code >= 0x110000:
                count = np.int64(0)
                break
            store_i32(codes + (total + count) * 4, code)
            count += 1
        store_i64(counts + token_id * 8, count)
        total += count
    store_i64(op + 48, total)


@inline
def _write_as_it_is(text, length, out):  # type: ignore[no-untyped-def]
    for place in range(length):
        store_i8(out + place, np.int8(load_u8(text + place)))
    return length


@inline
def _write_spaced(text, length, out):  # type: ignore[no-untyped-def]
    """A text with a space for each U+2581; returns its length."""
    place, written = np.int64(0), np.int64(0)
    while place < length:
        byte = load_u8(text + place)
        is_whole = byte == 0xE2 and place + 2 < length
        if is_whole and load_u8(text + place + 1) == 0x96 and load_u8(text + place + 2) == 0x81:
            byte, place = np.uint8(0x20), place + 2
        store_i8(out + written, np.int8(byte))
        place += 1
        written += 1
    return written


@inline
def _write_alphabet(text, length, alphabet, out):  # type: ignore[no-untyped-def]
    """The bytes that a text of the alphabet stands for, or the text itself where it holds another character."""
    place, written = np.int64(0), np.int64(0)
    while place < length:
        code = np.int64(load_u8(text + place))
        place += 1
        if code >= 0xC0:
            bits = _continuation(text, place, length)
            code = ((code & 31) << 6) | bits if code < 0xE0 and bits >= 0 else np.int64(_NUM_CHARACTERS)
            place += 1
        byte = np.int64(_NO_CODE)
        if code < _NUM_CHARACTERS:
            byte = np.int64(load_i16(alphabet + code * 2))
        if byte < 0:
            return _write_as_it_is(text, length, out)
        store_i8(out + written, np.int8(byte))
        written += 1
    return written


def write_token_bytes(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: the bytes that tokens stand for, joined.

    0 texts, 1 starts, 2 lengths, 3 number of texts, 4 kinds (texts,) int32, 5 alphabet (0x144,) int16, 6 result:
    bytes, room for one more than each text has, 7 result: how many each token has (texts,) int32, 8 result: how
    many all have.
    """
    data, starts, lengths, kinds = load_i64(op), load_i64(op + 8), load_i64(op + 16), load_i64(op + 32)
    alphabet, out, counts, total = load_i64(op + 40), load_i64(op + 48), load_i64(op + 56), np.int64(0)
    for token_id in range(load_i64(op + 24)):
        text, length = data + load_i64(starts + token_id * 8), load_i64(lengths + token_id * 8)
        kind, first = np.int64(load_i32(kinds + token_id * 4)), total
        if kind & MARKED:
            store_i8(out + total, np.int8(-1))
            total += 1
        what = kind & (MARKED - 1)
        if what == BYTE:
            store_i8(out + total, np.int8(kind >> BYTE_SHIFT))
            total += 1
        elif what == ALPHABET:
            total += _write_alphabet(text, length, alphabet, out + total)
        elif what == SPACED:
            total += _write_spaced(text, length, out + total)
        elif what == AS_IT_IS:
            total += _write_as_it_is(text, length, out + total)
        store_i32(counts + token_id * 4, total - first)
    store_i64(op + 64, total)
