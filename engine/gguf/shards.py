"""Names of model files: shard sets (``name-00002-of-00003.gguf``) and raw byte splits (``name.gguf.part1of2``).

Knows names and which files exist beside a path. Does not open any file.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from engine.errors import MissingShardsError
from engine.plain_data import dataclass

# As written by llama.cpp's splitter; \d would also accept digits of other scripts.
_SHARD = re.compile(r"(?P<prefix>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})(?P<suffix>\.gguf)", re.I | re.S)
_RAW_PART = re.compile(
    r"""(?P<whole>.+?)
    (?: [.\-_]part[.\-_]?(?P<number>[0-9]{1,5})[.\-_]?of[.\-_]?(?P<count>[0-9]{1,5}) (?:\.gguf)?
      | (?<=\.gguf) (?: [.\-_](?:part|split)[.\-_]?(?P<label>[0-9]{1,5}|[a-z]{1,2}) | \.(?P<digits>[0-9]{2,4}) )
    )""",
    re.I | re.S | re.X,
)
# How programs call what they have not finished writing.
UNFINISHED = re.compile(r"\.(part|partial|tmp|temp|download|downloading|incomplete|crdownload|aria2)\b", re.I)


@dataclass(frozen=True)
class ShardName:
    """The name of one shard taken apart.

    Attributes:
        prefix: what all shards of the set share, without folder.
        number: 1 to ``count``.
        count: shards of the whole set.
        suffix: ``.gguf`` as this set spells it.
    """

    prefix: str
    number: int
    count: int
    suffix: str = ".gguf"

    def at(self, number: int) -> ShardName:
        """Shard ``number`` of this set."""
        return ShardName(self.prefix, number, self.count, self.suffix)

    def name_of(self, number: int) -> str:
        """File name of shard ``number`` of this set."""
        return f"{self.prefix}-{number:05d}-of-{self.count:05d}{self.suffix}"


@dataclass(frozen=True)
class RawPart:
    """The name of one part of a file that was cut into pieces byte by byte.

    Attributes:
        whole: name of the file that the joined parts make.
        label: which part, such as ``1`` or ``a``.
        count: number of parts where the name tells it.
    """

    whole: str
    label: str
    count: int | None


def shard_of(name: str) -> ShardName | None:
    """What a file name says about a shard set; None for a name of a single file, look-alikes included."""
    match = _SHARD.fullmatch(name)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    if not 1 <= number <= count:
        return None
    return ShardName(match["prefix"], number, count, match["suffix"])


def raw_part_of(name: str) -> RawPart | None:
    """What a file name says about a raw byte split; None for any other name."""
    match = _RAW_PART.fullmatch(name)
    if match is None:
        return None
    whole = match["whole"] if match["whole"].lower().endswith(".gguf") else match["whole"] + ".gguf"
    if match["number"] is None:
        return RawPart(whole, match["label"] or match["digits"], None)
    number, count = int(match["number"]), int(match["count"])
    return RawPart(whole, str(number), count) if count > 1 and number <= count else None


def is_model_file(name: str) -> bool:
    """Whether a file of this name may be a model or a shard of one; parts and the shadow files of macOS are not."""
    return name.lower().endswith(".gguf") and not name.startswith("._") and raw_part_of(name) is None


def is_listed_name(name: str) -> bool:
    """Whether a file of this name is shown among the models; hidden and unfinished ones are passed over."""
    return is_model_file(name) and not name.startswith(".") and UNFINISHED.search(name) is None


def present_shards(shard: ShardName, names: Iterable[str]) -> tuple[int, ...]:
    """Numbers of the shards of this set that are among ``names``, ascending.

    Takes as long as there are names: the count that a name claims may be anything.
    """
    start = f"{shard.prefix}-"
    found = (shard_of(name) for name in names if name.startswith(start))
    return tuple(sorted({each.number for each in found if each is not None and each == shard.at(each.number)}))


def shard_paths(path: Path) -> tuple[Path, ...]:
    """All files of the model that ``path`` belongs to, in order: the shard set, or ``path`` alone.

    Raises:
        MissingShardsError: files of the set are absent; the message lists their numbers.
    """
    shard = shard_of(path.name)
    if shard is None:
        return (path,)
    present = {
        number
        for number in _listed_numbers(shard, path.parent)
        if os.path.exists(os.path.join(path.parent, shard.name_of(number)))
    }
    missing = [number for number in range(1, shard.count + 1) if number not in present]
    if missing:
        noun, verb = ("shard", "is") if len(missing) == 1 else ("shards", "are")
        raise MissingShardsError(
            path,
            f"{noun} {_ranges(missing)} of {shard.count} {verb} missing from its folder; "
            f"download {'it' if len(missing) == 1 else 'them'} and put all shards side by side",
        )
    return tuple(path.with_name(shard.name_of(number)) for number in range(1, shard.count + 1))


def _listed_numbers(shard: ShardName, folder: Path) -> Iterable[int]:
    """The shards that may be in the folder: a look at each that a name claims, 99,999 at worst, takes seconds.

    Names that differ in case, or in how accents are written, may be the same to the file system.
    """
    try:
        names = os.listdir(folder)
    except OSError:  # a folder that gives files but no list of them
        return range(1, shard.count + 1)
    whole = ShardName(folded(shard.prefix), shard.number, shard.count, folded(shard.suffix))
    return present_shards(whole, map(folded, names))


def folded(name: str) -> str:
    """What names have in common that many file systems take for one: those that differ in case, or in accents."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _ranges(numbers: list[int]) -> str:
    """Ascending numbers in words: ``2``, ``2 and 5``, ``1-3, 5 and 7-99``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = []
    for first, last in runs:
        if last - first >= 2:
            texts.append(f"{first}-{last}")
        else:
            texts.extend(str(number) for number in range(first, last + 1))
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]
