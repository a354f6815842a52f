"""States on the tree's nodes, against a naive list of every state that was kept."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from engine.cache.kv_cache import BlockTable, KVCache
from tests.engine.cache.slots import Slots, make_cache

STATE_BYTES = 8


def _state(token_ids: Sequence[int]) -> npt.NDArray[np.uint8]:
    """Depends on every token, as a recurrent layer's does."""
    return np.frombuffer(np.uint64(zlib.crc32(bytes(token_ids))).tobytes(), np.uint8)


def _make(num_blocks: int = 64, max_states: int = 1000) -> tuple[KVCache, Slots]:
    return make_cache(num_blocks, needs_checkpoints=True, max_checkpoint_bytes=max_states * STATE_BYTES)


def _run(cache: KVCache, slots: Slots, token_ids: list[int], states_at: Sequence[int]) -> int:
    """Run a sequence to its end, keeping states after so many tokens; returns what was reused."""
    table = cache.acquire(token_ids)
    reused = table.num_reused_tokens
    _assert_state_fits(slots, table, token_ids)
    assert cache.reserve(table, len(token_ids))
    slots.write(table, token_ids, reused, len(token_ids))
    for place in sorted(states_at):
        if place > reused:
            cache.commit(table, token_ids, place)
            cache.add_checkpoint(table, place, _state(token_ids[:place]))
    cache.release(table, token_ids, len(token_ids))
    cache.check_integrity()
    return reused


def _assert_state_fits(slots: Slots, table: BlockTable, token_ids: list[int]) -> None:
    reused = table.num_reused_tokens
    assert slots.read(table, reused) == token_ids[:reused]
    assert (table.checkpoint is None) == (reused == 0)
    if table.checkpoint is not None:
        assert table.checkpoint.num_tokens == reused
        assert table.checkpoint.state.tolist() == _state(token_ids[:reused]).tolist()


@pytest.mark.parametrize("place", [1, 15, 16, 17, 32, 40])
def test_reuse_goes_to_the_deepest_state(place: int) -> None:
    cache, slots = _make()
    tokens = list(range(40))
    assert _run(cache, slots, tokens, [place]) == 0
    assert _run(cache, slots, [*tokens, 99], []) == place
    assert _run(cache, slots, [*tokens[:place], 77], []) == place
    assert _run(cache, slots, [*tokens[: place - 1], 77, 78], []) == 0, "the state is that of another token"


def test_without_a_state_nothing_is_reused() -> None:
    cache, slots = _make()
    _run(cache, slots, list(range(40)), [])
    assert _run(cache, slots, list(range(41)), []) == 0


def test_a_state_moves_to_the_longer_block_and_goes_with_its_node() -> None:
    cache, slots = _make(num_blocks=4)
    tokens = list(range(20))
    _run(cache, slots, tokens[:18], [18])
    _run(cache, slots, tokens, [])
    assert _run(cache, slots, [*tokens[:18], 200], []) == 18
    _run(cache, slots, [99] * 64, [])
    assert len(cache._tree.checkpoints) == 0, "everything else was evicted"


def test_the_least_recently_used_state_gives_way() -> None:
    cache, slots = _make(max_states=2)
    chats = [[100 + n] * 20 for n in range(3)]
    _run(cache, slots, chats[0], [20])
    _run(cache, slots, chats[1], [20])
    assert _run(cache, slots, [*chats[0], 1], []) == 20
    _run(cache, slots, chats[2], [20])
    assert [cache.num_matching_tokens([*chat, 1]) for chat in chats] == [20, 0, 20]


def test_a_state_larger_than_all_room_is_not_kept() -> None:
    cache, slots = _make(max_states=0)
    _run(cache, slots, list(range(20)), [20])
    assert len(cache._tree.checkpoints) == 0


def test_a_discarded_sequence_leaves_no_state() -> None:
    cache, _ = _make()
    tokens = list(range(40))
    table = cache.acquire(tokens)
    cache.reserve(table, 40)
    cache.commit(table, tokens, 40)
    for place in (16, 35):
        cache.add_checkpoint(table, place, _state(tokens[:place]))
    cache.discard(table)
    cache.check_integrity()
    assert len(cache._tree.checkpoints) == 0


@pytest.mark.parametrize(
    ("seed", "num_blocks", "max_states"), [(1, 8, 4), (2, 14, 100), (3, 200, 6), (4, 2000, 9999)]
)
def test_random_use_never_pairs_a_state_with_other_tokens(seed: int, num_blocks: int, max_states: int) -> None:
    rng = random.Random(seed)
    cache, slots = _make(num_blocks, max_states)
    history: list[tuple[list[int], list[int]]] = []
    running: list[tuple[BlockTable, list[int], int]] = []
    for _ in range(400):
        if running and (rng.random() < 0.5 or len(running) == 3):
            table, tokens, computed = running.pop(rng.randrange(len(running)))
            cache.release(table, tokens, computed)
        else:
            base = rng.choice(history)[0][: rng.randrange(1, 70)] if history and rng.random() < 0.8 else []
            tokens = base + [rng.randrange(4) for _ in range(rng.randrange(1, 30))]
            table = cache.acquire(tokens)
            _assert_state_fits(slots, table, tokens)
            reused = computed = table.num_reused_tokens
            if num_blocks == 2000:
                assert reused == _longest_state(history, tokens)
            if cache.reserve(table, len(tokens)):
                computed = rng.randrange(reused, len(tokens) + 1)
                slots.write(table, tokens, reused, computed)
                places = sorted(
                    {rng.randrange(reused, computed) + 1 for _ in range(2)} if computed > reused else ()
                )
                for place in places:
                    cache.commit(table, tokens, place)
                    cache.add_checkpoint(table, place, _state(tokens[:place]))
                if num_blocks == 2000:  # nothing runs beside it, so that the naive list is exact
                    cache.release(table, tokens, computed)
                    history.append((tokens, places))
                    cache.check_integrity()
                    continue
                history.append((tokens, places))
            running.append((table, tokens, computed))
        cache.check_integrity()


def _longest_state(history: list[tuple[list[int], list[int]]], tokens: list[int]) -> int:
    fitting = [
        place
        for known, places in history
        for place in places
        if place < len(tokens) and known[:place] == tokens[:place]
    ]
    return max(fitting, default=0)
