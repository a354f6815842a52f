"""Prompt lookup: what followed the last time the same few tokens came.

Answers quote: names, code, the text to be corrected, the file to be changed. A draft that costs nothing is to look
where the newest tokens stood before and to propose what came after them there (A. Saxena, "Prompt Lookup Decoding",
2023). It knows token ids only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NGRAM = 3  # tokens that must agree for a place to be looked at
LONGEST_MATCH = 16  # agreeing more than this makes a place no more credible


@dataclass(frozen=True)
class Draft:
    """Tokens that may follow, and how many tokens before them agree with the sequence's newest."""

    token_ids: tuple[int, ...]
    num_matching: int


NOTHING = Draft((), 0)


class PromptLookup:
    """The places of all n-grams of one growing sequence."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # n-gram: where its newest place ends, the current one apart
        self._num_indexed = NGRAM - 1  # ends up to here are in it

    def propose(self, token_ids: Sequence[int], count: int) -> Draft:
        """At most ``count`` tokens that followed the newest earlier place of the last ``NGRAM`` tokens.

        ``token_ids`` are those of the call before, or begin with them. The time is linear in what is new.
        """
        size = len(token_ids)
        for end in range(self._num_indexed + 1, size):
            self._ends[tuple(token_ids[end - NGRAM : end])] = end
        self._num_indexed = max(self._num_indexed, size - 1)
        place = self._ends.get(tuple(token_ids[size - NGRAM :])) if size >= NGRAM else None
        if place is None or count <= 0:
            return NOTHING
        return Draft(tuple(_following(token_ids, place, count)), _num_matching(token_ids, place))


def _num_matching(token_ids: Sequence[int], place: int) -> int:
    """Tokens before ``place`` that agree with the newest ones; the n-gram does."""
    longest = min(LONGEST_MATCH, place)
    return next((n for n in range(NGRAM, longest) if token_ids[place - n - 1] != token_ids[-n - 1]), longest)


def _following(token_ids: Sequence[int], place: int, count: int) -> list[int]:
    """``count`` tokens from ``place`` on; where they run into the end they repeat, as the sequence does."""
    tokens = list(token_ids[place : place + count])
    period = len(tokens)
    while len(tokens) < count:
        tokens.append(tokens[-period])
    return tokens
