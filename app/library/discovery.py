"""Which models lie in a folder: one entry per model, whatever state its file is in.

Looks at names and headers only; nothing is loaded. What is part of a download or of a byte split is no model.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from app.model_session import ModelEntry, split_model_name
from engine.errors import EngineError
from engine.gguf import GGUFFile, is_model_file, open_model, shard_of

_log = logging.getLogger(__name__)

MAX_DEPTH = 24
COMPANION_PREFIX = "mmproj"  # image encoders that accompany a model
_UNFINISHED = re.compile(r"\.(part|partial|tmp|temp|download|downloading|incomplete|crdownload|aria2)\b", re.I)


def find_models(folder: Path, described: dict[Path, tuple[object, ModelEntry]] | None = None) -> list[ModelEntry]:
    """The models below ``folder``, by name. A folder that cannot be read holds none.

    ``described`` keeps entries between calls; a file that has not changed is not opened again.
    """
    described = {} if described is None else described
    entries = []
    for path in model_files(folder):
        state = _state(path)
        known = described.get(path)
        if known is None or known[0] != state:
            known = described[path] = (state, describe(path))
        entries.append(known[1])
    return sorted(entries, key=lambda entry: (entry.name.casefold(), entry.detail, str(entry.path)))


def model_files(folder: Path) -> Iterator[Path]:
    """One path per model below ``folder``, at any depth: the file, or the first shard that a set has here."""
    visited: set[tuple[int, int]] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        try:
            status = os.stat(place)
        except OSError:
            folders.clear()
            continue
        identity = (status.st_dev, status.st_ino)
        if identity in visited or len(Path(place).relative_to(folder).parts) > MAX_DEPTH:
            folders.clear()  # a ring of links
            continue
        visited.add(identity)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        sets_seen: set[tuple[str, int]] = set()
        for name in sorted(names):
            if not _may_be_model(name) or not os.path.isfile(os.path.join(place, name)):
                continue
            shard = shard_of(name)
            if shard is not None:
                if (shard.prefix, shard.count) in sets_seen:
                    continue
                sets_seen.add((shard.prefix, shard.count))
            yield Path(place) / name


def describe(path: Path) -> ModelEntry:
    """What the picker shows of the model at ``path``; a file that cannot be opened comes with its problem."""
    name, type_in_name = split_model_name(path)
    try:
        with open_model(path) as file:
            tensor_type = type_in_name or _main_type(file)
            size = _size_text(file.file_bytes)
            return ModelEntry(path, name, f"{tensor_type} · {size}" if tensor_type else size)
    except EngineError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{path.name} cannot be read: {error.strerror or error}."
    except Exception:
        _log.exception("%s cannot be described", path)
        problem = f"{path.name} cannot be read; the log says more."
    try:
        detail = _size_text(path.stat().st_size)
    except OSError:
        detail = ""
    return ModelEntry(path, name, detail, problem)


def _may_be_model(name: str) -> bool:
    return (
        is_model_file(name)
        and not name.startswith(".")
        and not name.lower().startswith(COMPANION_PREFIX)
        and _UNFINISHED.search(name) is None
    )


def _state(path: Path) -> object:
    """Changes when a file of the model changes, or a shard comes or goes."""
    shard = shard_of(path.name)
    names = [path.name] if shard is None else [shard.name_of(number + 1) for number in range(shard.count)]
    state: list[tuple[int, int] | None] = []
    for name in names:
        try:
            status = os.stat(path.with_name(name))
            state.append((status.st_size, status.st_mtime_ns))
        except OSError:
            state.append(None)
    return state


def _main_type(file: GGUFFile) -> str:
    """The type in which most bytes of the weights are."""
    num_bytes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        num_bytes[tensor.type.name] += tensor.num_bytes
    return num_bytes.most_common(1)[0][0] if num_bytes else ""


def _size_text(num_bytes: int) -> str:
    if num_bytes >= 1e9:
        return f"{num_bytes / 1e9:.1f} GB"
    return f"{max(1, round(num_bytes / 1e6))} MB" if num_bytes else "0 MB"
