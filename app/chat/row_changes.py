"""The few changes that turn one order of rows into another: what left, what moved, what came. Knows no row."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from engine.plain_data import dataclass


@dataclass(frozen=True)
class Removal:
    """``count`` neighbours from the row ``first`` on leave."""

    first: int
    count: int


@dataclass(frozen=True)
class Move:
    """The row ``source`` goes before the row ``destination``, both counted before it goes."""

    source: int
    destination: int


@dataclass(frozen=True)
class Insertion:
    """Rows with these keys come; the first of them is the row ``first`` then."""

    first: int
    keys: tuple[str, ...]


RowChange = Removal | Move | Insertion


def row_changes(old: Sequence[str], new: Sequence[str]) -> list[RowChange]:
    """What to do to rows with the keys ``old``, one after the other, so that they are ``new``; no key comes twice.

    As few rows move as can be: all others are a longest increasing subsequence of the old places.
    """
    start, old_end, new_end = 0, len(old), len(new)
    while start < old_end and start < new_end and old[start] == new[start]:
        start += 1
    while old_end > start and new_end > start and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    places = {key: place for place, key in enumerate(old[start:old_end])}
    wanted = new[start:new_end]
    left = places.keys() - set(wanted)
    changes: list[RowChange] = list(_removals(sorted(places[key] + start for key in left)))
    rows = [key for key in old[start:old_end] if key not in left]
    kept = [key for key in wanted if key in places]
    staying = {kept[at] for at in _increasing([places[key] for key in kept])}
    before: str | None = None  # the wanted row that is placed already and that this one follows
    for key in wanted:
        if key not in staying:
            at = rows.index(before) + 1 if before is not None else 0
            if key not in places:
                changes.append(Insertion(at + start, (key,)))
                rows.insert(at, key)
            elif (source := rows.index(key)) != at:
                changes.append(Move(source + start, at + start))
                rows.insert(at - (source < at), rows.pop(source))
        before = key
    return _joined(changes)


def _removals(places: Sequence[int]) -> list[Removal]:
    """Runs of neighbours, the last first, so that the places of the others stay."""
    runs: list[Removal] = []
    for place in reversed(places):
        if runs and runs[-1].first == place + 1:
            runs[-1] = Removal(place, runs[-1].count + 1)
        else:
            runs.append(Removal(place, 1))
    return runs


def _joined(changes: Sequence[RowChange]) -> list[RowChange]:
    """Insertions one behind the other as one."""
    joined: list[RowChange] = []
    for change in changes:
        last = joined[-1] if joined else None
        if (
            isinstance(change, Insertion)
            and isinstance(last, Insertion)
            and change.first == last.first + len(last.keys)
        ):
            joined[-1] = Insertion(last.first, last.keys + change.keys)
        else:
            joined.append(change)
    return joined


def _increasing(values: Sequence[int]) -> list[int]:
    """The indices of a longest increasing subsequence (patience sorting)."""
    tails: list[int] = []  # of the best subsequence of each length, its last value and where that is
    ends: list[int] = []
    before: list[int] = []
    for index, value in enumerate(values):
        length = bisect_left(tails, value)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            ends.append(index)
        else:
            tails[length], ends[length] = value, index
    found: list[int] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        found.append(index)
        index = before[index]
    return found[::-1]
