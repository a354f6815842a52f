"""The cache against a naive one: a list of every token sequence that was released, nothing evicted."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from engine.cache.kv_cache import BlockTable, KVCache
from engine.model.plan import BLOCK_SIZE
from tests.engine.cache.slots import Slots, make_cache


def _compute(cache: KVCache, slots: Slots, token_ids: Sequence[int]) -> int:
    """Run a sequence from its match to its end; returns the number of tokens that were reused."""
    table = cache.acquire(token_ids)
    reused = table.num_reused_tokens
    assert slots.read(table, reused) == list(token_ids[:reused])
    assert cache.reserve(table, len(token_ids))
    slots.write(table, token_ids, reused, len(token_ids))
    assert slots.read(table, len(token_ids)) == list(token_ids)
    cache.release(table, token_ids, len(token_ids))
    cache.check_integrity()
    return reused


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 33, 100])
def test_the_next_turn_reuses_everything_that_was_computed(length: int) -> None:
    cache, slots = make_cache(64)
    tokens = list(range(length))
    assert _compute(cache, slots, tokens) == 0
    assert _compute(cache, slots, [*tokens, 900, 901]) == length


def test_one_token_is_always_left_to_compute() -> None:
    cache, slots = make_cache(64)
    tokens = list(range(32))
    _compute(cache, slots, tokens)
    assert _compute(cache, slots, tokens) == 31
    assert _compute(cache, slots, tokens[:16]) == 15


@pytest.mark.parametrize("shared", [0, 1, 7, 16, 23, 40])
def test_a_divergence_is_exact_to_the_token(shared: int) -> None:
    cache, slots = make_cache(64)
    _compute(cache, slots, list(range(48)))
    branch = list(range(shared)) + list(range(500, 530))
    assert _compute(cache, slots, branch) == shared
    assert slots.num_copies == (shared % BLOCK_SIZE != 0)
    assert _compute(cache, slots, [*range(48), 700]) == 48, "the first branch is as it was"


def test_branches_share_the_blocks_of_their_prefix() -> None:
    cache, slots = make_cache(64)
    prefix = list(range(160))
    for branch in range(4):
        _compute(cache, slots, [*prefix, 1000 + branch])
    assert cache.num_cached_blocks == 10 + 4


def test_sequences_that_run_together_share_full_blocks() -> None:
    cache, slots = make_cache(64)
    tokens = list(range(40))
    first, second = cache.acquire(tokens), cache.acquire(tokens)
    for table in (first, second):
        assert cache.reserve(table, 40)
        slots.write(table, tokens, 0, 40)
        cache.commit(table, tokens, 40)
        cache.check_integrity()
    assert first.block_ids[:2] == second.block_ids[:2]
    assert cache.num_active_blocks == 4
    third = cache.acquire(tokens)
    assert third.num_reused_tokens == 32, "while the first two still run"
    for table in (first, second, third):
        cache.release(table, tokens, table.num_reused_tokens if table is third else 40)
    cache.check_integrity()
    assert cache.num_active_blocks == 0


def test_a_longer_tail_replaces_the_shorter_one() -> None:
    cache, slots = make_cache(16)
    for length in range(1, 17):
        _compute(cache, slots, list(range(length)))
    assert cache.num_cached_blocks == 1


def test_the_least_recently_used_prefix_goes_first_and_locked_ones_stay() -> None:
    cache, slots = make_cache(8)
    old, recent = list(range(0, 48)), list(range(100, 148))
    _compute(cache, slots, old)
    _compute(cache, slots, recent)
    held = cache.acquire([*recent, 1])
    big = cache.acquire(list(range(200, 280)))
    assert cache.reserve(big, 80)
    cache.check_integrity()
    assert cache.num_matching_tokens([*old, 1]) == 0
    assert not cache.reserve(big, 16 * 8), "the blocks of a running sequence are not taken"
    assert cache.num_matching_tokens([*recent, 2]) == 48
    cache.release(held, recent, 48)
    cache.release(big, list(range(200, 280)), 0)
    cache.check_integrity()


def test_eviction_takes_the_end_of_a_conversation_first() -> None:
    cache, slots = make_cache(8)
    chat = list(range(96))
    _compute(cache, slots, chat)
    other = cache.acquire([500] * 64)
    assert cache.reserve(other, 64)
    assert cache.num_matching_tokens([*chat, 1]) == 64
    cache.release(other, [500] * 64, 0)


def test_a_discarded_sequence_leaves_nothing_behind() -> None:
    cache, slots = make_cache(16)
    _compute(cache, slots, [1] * 16)
    tokens = [1] * 16 + [2] * 40
    kept = cache.acquire([*[1] * 16, 3])
    table = cache.acquire(tokens)
    assert cache.reserve(table, len(tokens))
    cache.commit(table, tokens, 48)
    cache.discard(table)
    cache.check_integrity()
    assert cache.num_matching_tokens(tokens) == 16, "what another sequence holds stays"
    cache.release(kept, [*[1] * 16, 3], 16)


def test_without_room_for_a_copy_the_shared_slots_are_computed_again() -> None:
    cache, slots = make_cache(2)
    tokens = list(range(20))
    first = cache.acquire(tokens)
    assert cache.reserve(first, 20)
    slots.write(first, tokens, 0, 20)
    cache.commit(first, tokens, 20)
    branch = cache.acquire([*range(10), 99, 98])
    assert branch.num_reused_tokens == 0
    assert not cache.reserve(branch, 12)
    cache.release(branch, [*range(10), 99, 98], 0)
    cache.release(first, tokens, 20)
    cache.check_integrity()


@pytest.mark.parametrize(("seed", "num_blocks"), [(1, 6), (2, 12), (3, 40), (4, 400)])
def test_random_use_equals_a_naivemake_cache(seed: int, num_blocks: int) -> None:
    """Contents are always right; with room for everything the match is the naive longest one, too."""
    rng = random.Random(seed)
    cache, slots = make_cache(num_blocks)
    history: list[list[int]] = []
    running: list[tuple[BlockTable, list[int], int]] = []
    for _ in range(600):
        if running and (rng.random() < 0.45 or len(running) == 3):
            table, tokens, computed = running.pop(rng.randrange(len(running)))
            if rng.random() < 0.1:
                cache.discard(table)
            else:
                cache.release(table, tokens, computed)
                history.append(tokens[:computed])
        else:
            base = rng.choice(history)[: rng.randrange(1, 80)] if history and rng.random() < 0.8 else []
            tokens = base + [rng.randrange(4) for _ in range(rng.randrange(1, 30))]
            table = cache.acquire(tokens)
            reused = table.num_reused_tokens
            assert reused < len(tokens)
            assert slots.read(table, reused) == tokens[:reused]
            computed = rng.randrange(reused, len(tokens) + 1)
            if cache.reserve(table, computed):
                slots.write(table, tokens, reused, computed)
                cache.commit(table, tokens, computed)
                assert slots.read(table, computed) == tokens[:computed]
            else:
                computed = reused
            running.append((table, tokens, computed))
        for table, tokens, computed in running:
            assert slots.read(table, computed) == tokens[:computed], "no other sequence writes into its blocks"
        cache.check_integrity()


def test_with_room_for_everything_the_match_is_the_longest_there_is() -> None:
    rng = random.Random(5)
    cache, slots = make_cache(2000)
    history: list[list[int]] = []
    for _ in range(150):
        base = rng.choice(history)[: rng.randrange(1, 80)] if history and rng.random() < 0.8 else []
        tokens = base + [rng.randrange(3) for _ in range(rng.randrange(1, 40))]
        longest = max((_common(tokens[:-1], known) for known in history), default=0)
        assert _compute(cache, slots, tokens) == longest
        history.append(tokens)


def _common(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def test_a_large_tree_is_evicted_in_order_without_looking_at_all_of_it() -> None:
    """The queue of leaves keeps up with use: what was used again outlives what was not."""
    cache, slots = make_cache(64)
    chats = [[100 * n + i for i in range(32)] for n in range(32)]
    for chat in chats:
        _compute(cache, slots, chat)
    for chat in chats[:16]:
        assert cache.acquire([*chat, 1]).num_reused_tokens == 32
    for table in list(cache._tables):
        cache.release(table, [], 0)
    for n in range(16):
        _compute(cache, slots, [9000 + 100 * n + i for i in range(32)])
    assert [cache.num_matching_tokens([*chat, 1]) for chat in chats] == [32] * 16 + [0] * 16
