"""How what a person looks for may be spelled: in any case, ß as ss, a ligature as its letters, i with any dot.

The same both ways: "strasse" finds "Straße", and "straße" finds "STRASSE". Single letters follow Unicode's case
folding (CaseFolding.txt, C and F); beside it the four i of Turkish are one, as nobody can type all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product

MAX_SPELLINGS = 16
_DOTS = str.maketrans({"İ": "i", "ı": "i"})
_I = ("i", "İ", "ı")
_MOST_LETTERS = 3  # that one character stands for


def folded(text: str) -> str:
    """``text`` as it is compared with others."""
    return text.casefold() if text.isascii() else text.translate(_DOTS).casefold()


@lru_cache(maxsize=256)
def pattern_of(text: str) -> re.Pattern[str]:
    """Matches ``text`` however it is spelled."""
    return any_pattern((text,))


def any_pattern(texts: Iterable[str]) -> re.Pattern[str]:
    """Matches each of ``texts`` however it is spelled."""
    return re.compile("|".join(map(expression, texts)), re.IGNORECASE)


def expression(text: str) -> str:
    """The regular expression of ``text`` however it is spelled, to be compiled with ``re.IGNORECASE``."""
    return "".join(  # one letter alone, an i as well, Python takes for the others by itself
        re.escape(part[0]) if len(part[0]) == 1 else f"(?:{'|'.join(map(re.escape, part))})"
        for part in _parts(text)
    )


def spellings(text: str) -> list[str]:
    """How ``text`` may be spelled, at most so many ways as a database is asked for; letters in small."""
    parts = [tuple(way for way in part if way == way.lower() or way in _I) for part in _parts(text)]
    num_ways = 1
    allowed: set[int] = set()
    for index in sorted(range(len(parts)), key=lambda index: parts[index] == _I):  # an i with another dot is rare
        if len(parts[index]) > 1 and num_ways * len(parts[index]) <= MAX_SPELLINGS:
            num_ways *= len(parts[index])
            allowed.add(index)
    ways = (part if index in allowed else part[:1] for index, part in enumerate(parts))
    return ["".join(way) for way in product(*ways)]


def _parts(text: str) -> Iterator[tuple[str, ...]]:
    """``text`` from its start on in letters and groups of them, each with all of its spellings, folded first."""
    left = folded(text)
    while left:
        group = next((left[:size] for size in range(_MOST_LETTERS, 1, -1) if left[:size] in _expanding()), left[0])
        yield _I if group == "i" else (group, *_ways(group))
        left = left[len(group) :]


@lru_cache(maxsize=1024)
def _ways(group: str) -> tuple[str, ...]:
    """What else a group of letters may be written as."""
    if len(group) == 1:
        return ()
    of = _expanding()
    begun = [way + group[size:] for size in range(2, len(group)) for way in of.get(group[:size], ())]
    ended = [group[:size] + way for size in range(1, len(group) - 1) for way in of.get(group[size:], ())]
    return (*of.get(group, ()), *begun, *ended)


@lru_cache(maxsize=1)
def _expanding() -> dict[str, tuple[str, ...]]:
    """The characters that fold to several letters, by these."""
    found: dict[str, tuple[str, ...]] = {}
    for code in range(0xDF, 0xFB18):  # ß is the first one, the Armenian ligatures are the last ones
        if len(letters := chr(code).casefold()) > 1 and not 0xD800 <= code < 0xE000:
            found[letters] = (*found.get(letters, ()), chr(code))
    return found
