from __future__ import annotations

import numpy as np

from engine.scheduler.prompt_lookup import LONGEST_MATCH, NGRAM, NOTHING, PromptLookup


def test_what_followed_last_time_is_proposed() -> None:
    lookup = PromptLookup()
    draft = lookup.propose([9, 1, 2, 3, 4, 5, 6, 8, 1, 2, 3], 3)
    assert draft.token_ids == (4, 5, 6)
    assert draft.num_matching == 3


def test_the_newest_place_counts_and_longer_matches_say_so() -> None:
    tokens = [1, 2, 3, 40, 7, 1, 2, 3, 50, 8, 7, 1, 2, 3]
    draft = PromptLookup().propose(tokens, 2)
    assert draft.token_ids == (50, 8)
    assert draft.num_matching == 4
    same = [*range(30), 99, *range(30)]
    assert PromptLookup().propose(same, 1).num_matching == LONGEST_MATCH


def test_a_repetition_goes_on() -> None:
    assert PromptLookup().propose([5, 5, 5, 5], 6).token_ids == (5,) * 6
    assert PromptLookup().propose([1, 2, 3, 1, 2, 3], 7).token_ids == (1, 2, 3, 1, 2, 3, 1)


def test_nothing_is_proposed_where_nothing_is_known() -> None:
    lookup = PromptLookup()
    for tokens in ([], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4, 5]):
        assert lookup.propose(tokens, 4) == NOTHING
    assert lookup.propose([1, 2, 3, 4, 5, 1, 2, 3], 0) == NOTHING


def test_a_growing_sequence_gives_what_a_fresh_index_gives() -> None:
    tokens = np.random.default_rng(4).integers(0, 2, 300).tolist()
    lookup = PromptLookup()
    for size in range(0, 300, 7):
        draft = lookup.propose(tokens[:size], 5)
        assert draft == PromptLookup().propose(tokens[:size], 5)
        if size > 100:
            assert draft.num_matching >= NGRAM
