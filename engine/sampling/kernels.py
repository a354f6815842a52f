"""The compiled loops of sampling, as kernels that ``engine.kernels.cpu.jit`` compiles once and keeps.

``reference`` defines what they compute; ``choice`` calls them. Imported only where a kernel has to be compiled.

Logits are compared as keys (see ``engine.kernels.cpu.keys``). One vector pass over the row takes the maximum of
each group of 64 keys; whatever is looked for afterwards, the likeliest tokens or those above a bound, skips the
groups that cannot hold any. A set of tokens is a list in ascending order of ids. Exact thresholds come from a radix
selection of four passes, so that nothing is ever sorted and a flat distribution costs no more than linear time.
With 262,144 tokens a choice takes 0.1 to 0.4 ms.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from llvmlite import ir
from numba import types

from engine.kernels.cpu.keys import (
    LOWEST,
    NOT_FINITE,
    SMALLEST_LOG,
    allow,
    larger,
    largest,
    load_key,
    load_keys,
    load_part_keys,
    smallest_key_at_least,
    value_of,
    weights_of,
)
from engine.kernels.cpu.simd import (
    define,
    inline,
    load_f32,
    load_i32,
    load_i32x16,
    load_i64,
    load_value,
    pointer,
    reduce_add,
    splat_i32x16,
    store_f32,
    store_f32x16,
    store_i32,
    store_i32x16,
    store_i64,
    zeros_f32x16,
)

GROUP: Final = 64  # keys under one maximum: fewer cost more maxima, more cost more keys looked at in vain
_LARGEST_LOGIT: Final = float(np.finfo(np.float32).max) / 4
_EXPONENT: Final = 0x7F800000

INVALID: Final = -1  # a logit is NaN or +inf
NOTHING_LEFT: Final = -2  # no token may be chosen

# Slots of ``op``. Addresses of arrays of the workspace come first; see ``choice.Workspace``.
LOGITS, VOCAB_SIZE, MASK, RECENT, NUM_RECENT, TOP_K, SETTINGS = range(7)
COUNTS, MAXIMA, IDS, KEYS, WEIGHTS, HISTOGRAM = range(7, 13)
RESULT: Final = 13

# Float64 settings of ``choose``; ``rank`` writes its total to the first.
REPEAT, PRESENCE, FREQUENCY, TOP_P, LOG_MIN_P, INVERSE_TEMPERATURE, RANDOM = range(7)

load_f64 = define(types.float64, [types.int64], lambda b, a: load_value(b, a, ir.DoubleType()))
store_f64 = define(
    types.void, [types.int64, types.float64], lambda b, a, v: b.store(v, pointer(b, a, ir.DoubleType()), align=1)
)


@inline
def _keys_at(logits, mask, position, vocab_size):  # type: ignore[no-untyped-def]
    """Keys of 16 tokens from ``position``; LOWEST where there is none or the mask forbids it."""
    if vocab_size - position >= 16:
        keys = load_keys(logits + position * 4)
    else:
        keys = load_part_keys(logits + position * 4, vocab_size - position)
    if mask != 0:
        keys = allow(keys, mask + (position >> 3))
    return keys


# --------------------------------------------------------------------------------------------------- whole rows


@inline
def _scan(op, logits):  # type: ignore[no-untyped-def]
    """Write the maxima of groups; returns the largest key, NOT_FINITE or above where any logit is invalid."""
    vocab_size, mask, maxima = load_i64(op + VOCAB_SIZE * 8), load_i64(op + MASK * 8), load_i64(op + MAXIMA * 8)
    num_whole = vocab_size // GROUP
    everything = splat_i32x16(np.int32(LOWEST))  # the mask hides no invalid logit
    best = np.int64(LOWEST)
    for group in range(num_whole):
        place = logits + group * GROUP * 4
        a, b, c, d = load_keys(place), load_keys(place + 64), load_keys(place + 128), load_keys(place + 192)
        if mask != 0:
            everything = larger(everything, larger(larger(a, b), larger(c, d)))
            bits = mask + group * (GROUP // 8)
            a, b, c, d = allow(a, bits), allow(b, bits + 2), allow(c, bits + 4), allow(d, bits + 6)
        key = largest(larger(larger(a, b), larger(c, d)))
        store_i32(maxima + group * 4, key)
        best = max(best, key)
    key = np.int64(LOWEST)
    for position in range(num_whole * GROUP, vocab_size, 16):
        everything = larger(everything, load_part_keys(logits + position * 4, vocab_size - position))
        key = max(key, largest(_keys_at(logits, mask, position, vocab_size)))
    if num_whole * GROUP < vocab_size:
        store_i32(maxima + num_whole * 4, key)
    best = max(best, key)
    return max(best, largest(everything)) if largest(everything) >= NOT_FINITE else best


@inline
def _first_of(op, logits, best):  # type: ignore[no-untyped-def]
    """Lowest id whose key is ``best``."""
    vocab_size, mask, maxima = load_i64(op + VOCAB_SIZE * 8), load_i64(op + MASK * 8), load_i64(op + MAXIMA * 8)
    keys = load_i64(op + KEYS * 8)
    group = np.int64(0)
    while load_key(maxima + group * 4) != best:
        group += 1
    position = group * GROUP
    while True:
        store_i32x16(keys, _keys_at(logits, mask, position, vocab_size))
        for lane in range(16):
            if load_key(keys + lane * 4) == best:
                return position + lane
        position += 16


@inline
def _weigh_row(op, logits, best, inverse_temperature):  # type: ignore[no-untyped-def]
    """Write the weight of each group of tokens to WEIGHTS; returns the total."""
    vocab_size, mask, weights = load_i64(op + VOCAB_SIZE * 8), load_i64(op + MASK * 8), load_i64(op + WEIGHTS * 8)
    total = np.float64(0)
    for group in range((vocab_size + GROUP - 1) // GROUP):
        mass = zeros_f32x16()
        for position in range(group * GROUP, min(group * GROUP + GROUP, vocab_size), 16):
            keys = _keys_at(logits, mask, position, vocab_size)
            mass = mass + weights_of(keys, best, inverse_temperature)
        group_mass = reduce_add(mass)
        store_f32(weights + group * 4, group_mass)
        total += np.float64(group_mass)
    return total


@inline
def _draw_from_row(op, logits, best, inverse_temperature, random):  # type: ignore[no-untyped-def]
    """One of all tokens, by weight."""
    vocab_size, mask, weights = load_i64(op + VOCAB_SIZE * 8), load_i64(op + MASK * 8), load_i64(op + WEIGHTS * 8)
    target = _weigh_row(op, logits, best, inverse_temperature) * random
    passed, last = np.float64(0), np.int64(0)
    for candidate in range((vocab_size + GROUP - 1) // GROUP):
        mass = np.float64(load_f32(weights + candidate * 4))
        if mass > 0:
            last = np.int64(candidate)
            if passed + mass > target:
                break
            passed += mass
    chosen = np.int64(-1)
    for position in range(last * GROUP, min(last * GROUP + GROUP, vocab_size), 16):
        keys = _keys_at(logits, mask, position, vocab_size)
        store_f32x16(weights, weights_of(keys, best, inverse_temperature))
        for lane in range(16):
            weight = np.float64(load_f32(weights + lane * 4))
            if weight > 0:
                chosen = np.int64(position + lane)
                passed += weight
                if passed > target:
                    return chosen
    return chosen


@inline
def _collect(op, logits, bound):  # type: ignore[no-untyped-def]
    """Write ids and keys of the tokens with at least the key ``bound``, ids ascending; returns their number."""
    vocab_size, mask, maxima = load_i64(op + VOCAB_SIZE * 8), load_i64(op + MASK * 8), load_i64(op + MAXIMA * 8)
    ids, keys = load_i64(op + IDS * 8), load_i64(op + KEYS * 8)
    count = np.int64(0)
    for group in range((vocab_size + GROUP - 1) // GROUP):
        if load_key(maxima + group * 4) < bound:
            continue
        for position in range(group * GROUP, min(group * GROUP + GROUP, vocab_size), 16):
            found = _keys_at(logits, mask, position, vocab_size)
            if largest(found) < bound:
                continue
            # The 16 keys lie behind the list for a moment; those that count move down.
            store_i32x16(keys + count * 4, found)
            start = count
            for lane in range(16):
                key = load_key(keys + (start + lane) * 4)
                store_i32(keys + count * 4, key)
                store_i32(ids + count * 4, position + lane)
                count += key >= bound
    return count


# -------------------------------------------------------------------------------------------------------- lists


@inline
def _weigh(op, count, best, inverse_temperature):  # type: ignore[no-untyped-def]
    """Write the weights of a list; returns their sum."""
    keys, weights = load_i64(op + KEYS * 8), load_i64(op + WEIGHTS * 8)
    total = np.float64(0)
    for index in range(0, count, 16):
        found = load_i32x16(keys + index * 4)
        store_f32x16(weights + index * 4, weights_of(found, best, inverse_temperature))
    for index in range(count):
        total += np.float64(load_f32(weights + index * 4))
    return total


@inline
def _select(keys, weights, count, wanted, histogram):  # type: ignore[no-untyped-def]
    """Largest key such that the elements with it or above weigh ``wanted``; each weighs 1 where ``weights`` is 0.

    Behind the histogram it leaves the weight that has to come from elements with just that key.
    """
    prefix, above = np.int64(0), np.float64(0)
    for shift in range(24, -1, -8):
        for digit in range(256):
            store_f64(histogram + digit * 8, 0.0)
        for index in range(count):
            key = load_key(keys + index * 4)
            if key >> (shift + 8) == prefix:
                cell = histogram + ((key >> shift) & 255) * 8
                weight = np.float64(1)
                if weights != 0:
                    weight = np.float64(load_f32(weights + index * 4))
                store_f64(cell, load_f64(cell) + weight)
        chosen, passed = np.int64(0), above
        for digit in range(255, -1, -1):
            weight = load_f64(histogram + digit * 8)
            if weight > 0:
                chosen, above = np.int64(digit), passed
                passed += weight
                if passed >= wanted:
                    break
        prefix = (prefix << 8) | chosen
    store_f64(histogram + 256 * 8, wanted - above)
    return prefix


@inline
def _keep(op, count, bound, has_weights, missing):  # type: ignore[no-untyped-def]
    """Keep of a list what lies above ``bound``, and of what equals it the first until ``missing`` is there."""
    ids, keys, weights = load_i64(op + IDS * 8), load_i64(op + KEYS * 8), load_i64(op + WEIGHTS * 8)
    kept = np.int64(0)
    for index in range(count):
        key = load_key(keys + index * 4)
        is_kept = key > bound
        if key == bound and missing > 0:
            missing -= np.float64(load_f32(weights + index * 4)) if has_weights else np.float64(1)
            is_kept = True
        if is_kept:
            store_i32(keys + kept * 4, key)
            store_i32(ids + kept * 4, load_i32(ids + index * 4))
            kept += 1
    return kept


@inline
def _keep_likeliest(op, logits, wanted):  # type: ignore[no-untyped-def]
    """Collect the ``wanted`` likeliest tokens, equal ones by lowest id; returns how many there are."""
    vocab_size, maxima = load_i64(op + VOCAB_SIZE * 8), load_i64(op + MAXIMA * 8)
    histogram, num_groups = load_i64(op + HISTOGRAM * 8), (vocab_size + GROUP - 1) // GROUP
    bound = np.int64(LOWEST + 1)
    if wanted < num_groups:  # so many groups have a key at least as large as this
        bound = max(bound, _select(maxima, np.int64(0), num_groups, np.float64(wanted), histogram))
    count = _collect(op, logits, bound)
    if count <= wanted:
        return count
    threshold = _select(load_i64(op + KEYS * 8), np.int64(0), count, np.float64(wanted), histogram)
    return _keep(op, count, threshold, False, load_f64(histogram + 256 * 8))


@inline
def _keep_nucleus(op, count, wanted):  # type: ignore[no-untyped-def]
    """Keep of a list, whose weights are written, the fewest likeliest tokens that weigh ``wanted``."""
    histogram = load_i64(op + HISTOGRAM * 8)
    threshold = _select(load_i64(op + KEYS * 8), load_i64(op + WEIGHTS * 8), count, wanted, histogram)
    missing = max(load_f64(histogram + 256 * 8), np.float64(1e-300))  # at least one token
    return _keep(op, count, threshold, True, missing)


@inline
def _collect_nucleus(op, logits, best, top_p):  # type: ignore[no-untyped-def]
    """Collect the nucleus of the whole row: ever more of the distribution until the mass is there."""
    wanted = _weigh_row(op, logits, best, np.float32(1)) * top_p
    log_bound = np.float64(-3)
    while True:
        bound = max(smallest_key_at_least(np.float64(best) + log_bound), np.int64(LOWEST + 1))
        count = _collect(op, logits, bound)
        if _weigh(op, count, best, np.float32(1)) >= wanted or log_bound < SMALLEST_LOG:
            return _keep_nucleus(op, count, wanted)
        log_bound *= 2


# ------------------------------------------------------------------------------------------------------ kernels


@inline
def _penalise(op):  # type: ignore[no-untyped-def]
    """Lower the logits of recent tokens, in place; ids that are none are passed over."""
    logits, vocab_size = load_i64(op + LOGITS * 8), load_i64(op + VOCAB_SIZE * 8)
    recent, num_recent, counts = load_i64(op + RECENT * 8), load_i64(op + NUM_RECENT * 8), load_i64(op + COUNTS * 8)
    settings = load_i64(op + SETTINGS * 8)
    repeat, presence = load_f64(settings + REPEAT * 8), load_f64(settings + PRESENCE * 8)
    for index in range(num_recent):
        token_id = np.int64(load_i32(recent + index * 4))
        if 0 <= token_id < vocab_size:
            store_i32(counts + token_id * 4, load_i32(counts + token_id * 4) + 1)
    for index in range(num_recent):
        token_id = np.int64(load_i32(recent + index * 4))
        count = np.int64(load_i32(counts + token_id * 4)) if 0 <= token_id < vocab_size else np.int64(0)
        if count == 0:
            continue
        store_i32(counts + token_id * 4, 0)
        if (load_i32(logits + token_id * 4) & _EXPONENT) != _EXPONENT:  # it is finite
            value = np.float64(load_f32(logits + token_id * 4))
            value = value / repeat if value > 0 else value * repeat
            value -= presence + load_f64(settings + FREQUENCY * 8) * count
            store_f32(logits + token_id * 4, np.float32(min(max(value, -_LARGEST_LOGIT), _LARGEST_LOGIT)))


@inline
def _draw_from_list(op, count, best, inverse_temperature, random):  # type: ignore[no-untyped-def]
    ids, weights = load_i64(op + IDS * 8), load_i64(op + WEIGHTS * 8)
    target = _weigh(op, count, best, inverse_temperature) * random
    passed, chosen = np.float64(0), np.int64(0)
    for index in range(count):
        weight = np.float64(load_f32(weights + index * 4))
        if weight > 0:
            chosen = np.int64(load_i32(ids + index * 4))
            passed += weight
            if passed > target:
                break
    return chosen


@inline
def _choose(op):  # type: ignore[no-untyped-def]
    """The next token, or INVALID or NOTHING_LEFT."""
    logits, settings = load_i64(op + LOGITS * 8), load_i64(op + SETTINGS * 8)
    best_key = _scan(op, logits)
    if best_key >= NOT_FINITE:
        return np.int64(INVALID)
    if best_key == LOWEST:
        return np.int64(NOTHING_LEFT)
    inverse_temperature = np.float32(load_f64(settings + INVERSE_TEMPERATURE * 8))
    if inverse_temperature == 0:
        return _first_of(op, logits, best_key)
    best, top_k, top_p = value_of(best_key), load_i64(op + TOP_K * 8), load_f64(settings + TOP_P * 8)
    log_min_p, random = load_f64(settings + LOG_MIN_P * 8), load_f64(settings + RANDOM * 8)
    bound = np.int64(LOWEST + 1)
    if log_min_p <= 0:
        bound = max(bound, smallest_key_at_least(np.float64(best) + log_min_p))
    if top_k > 0:
        count = _keep_likeliest(op, logits, top_k)
        if top_p < 1:
            wanted = _weigh(op, count, best, np.float32(1)) * top_p
            count = _keep_nucleus(op, count, wanted)
    elif top_p < 1:
        count = _collect_nucleus(op, logits, best, top_p)
    elif log_min_p <= 0:
        count = _collect(op, logits, bound)
    else:
        return _draw_from_row(op, logits, best, inverse_temperature, random)
    count = _keep(op, count, bound - 1, False, np.float64(0))
    return _draw_from_list(op, count, best, inverse_temperature, random)


def choose(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: the next token, or INVALID or NOTHING_LEFT, to the slot RESULT; see ``reference.choose``.

    MASK is 0 or an address, NUM_RECENT 0 where there are no penalties, TOP_K 0 where off; LOG_MIN_P above 0 is off
    and an INVERSE_TEMPERATURE of 0 is greedy. The logits of recent tokens change.
    """
    _penalise(op)
    store_i64(op + RESULT * 8, _choose(op))


def rank(op: int, step: int, thread: int, num_threads: int) -> None:
    """Kernel: the TOP_K likeliest tokens to IDS, ids ascending, their number or INVALID or NOTHING_LEFT to RESULT.

    The largest logit and the total of all weights relative to it go to the settings 0 and 1.
    """
    logits = load_i64(op + LOGITS * 8)
    best_key = _scan(op, logits)
    if best_key >= NOT_FINITE or best_key == LOWEST:
        store_i64(op + RESULT * 8, INVALID if best_key >= NOT_FINITE else NOTHING_LEFT)
        return
    settings, best = load_i64(op + SETTINGS * 8), value_of(best_key)
    store_f64(settings, np.float64(best))
    store_f64(settings + 8, _weigh_row(op, logits, best, np.float32(1)))
    store_i64(op + RESULT * 8, _keep_likeliest(op, logits, load_i64(op + TOP_K * 8)))
