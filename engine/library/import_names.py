"""What an imported file is called: a name under which the scanner lists it.

Other programs keep models as ``sha256-...`` or ``model.bin``, browsers as ``x.part``; under such a name a file
would lie in the models folder and never be seen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from engine.gguf import ShardName, is_listed_name, open_model, raw_part_of, shard_of
from engine.gguf.quantizations import quantization_in
from engine.gguf.shards import UNFINISHED
from engine.hub.names import why_unsafe
from engine.library.scan import GENERIC_STEM
from engine.loader import tensor_type_name

MAX_STEM_BYTES = 150
_UNFIT = re.compile(r'[\x00-\x20\x7f-\x9f<>:"/\\|?*]+')
_LAST = "model"


def listed_names(paths: Sequence[Path]) -> list[str]:
    """The names in the models folder for all files of one sound model: their own where those are listed.

    Else they are made from the model's name in its header, or from the file's, and the quantization. Raises
    ModelFileError.
    """
    if all(is_listed_name(path.name) for path in paths):
        return [path.name for path in paths]
    with open_model(paths[0]) as file:  # refuses a part of a file that was cut up
        title = file.metadata.raw("general.name") if "general.name" in file.metadata else ""
        quantization = tensor_type_name(file) if file.tensors else ""
    titles = (str(title), _own_stem(paths[0]), _LAST)
    stem = next(stem for stem in map(_fit_stem, titles) if stem)
    if quantization and quantization_in(stem) is None:
        stem = f"{stem}-{quantization}"
    shard = shard_of(paths[0].name)
    if shard is None:
        return [f"{stem}.gguf"]
    return [ShardName(stem, number, shard.count).name_of(number) for number in range(1, shard.count + 1)]


def _own_stem(path: Path) -> str:
    """What the file's own name says without what keeps it from being listed."""
    shard = shard_of(path.name)
    name = UNFINISHED.split(path.name if shard is None else shard.prefix)[0]
    stem = re.sub(r"\.(gguf|bin)$", "", name, flags=re.I)
    return "" if GENERIC_STEM.fullmatch(stem.removeprefix("sha256-")) else stem


def _fit_stem(text: str) -> str:
    """The text as a file name without ending that is listed and that every system takes; "" where that fails."""
    text = text.encode("utf-8", "ignore")[:MAX_STEM_BYTES].decode("utf-8", "ignore")
    stem = _UNFIT.sub("-", text).strip(" .-_")
    name = f"{stem}.gguf"
    is_fit = bool(stem) and not why_unsafe(name) and is_listed_name(name) and shard_of(name) is None
    return stem if is_fit and raw_part_of(name) is None else ""
