"""Derived merges in the cache folder: what ``merges.derive_merges`` takes 0.3 s for with 262,144 tokens.

A file's name is a hash of all that its content is derived from: one that is stale is never found, and one under
another's name, whose merges would give other tokens without a word, counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from engine.cache_folder import cache_folder
from engine.checked_file import read_checked, write_checked
from engine.kernels.cpu.jit import source_hash
from engine.tokenizer.merges import Merges
from engine.tokenizer.texts import CodePoints

LEAST_TOKENS: Final = 16_384  # below, deriving is as quick as reading
MAX_FILES: Final = 8  # of 3 MB with 262,144 tokens; those used longest ago go
_KIND: Final = b"FIREMRG2"
_DERIVED_BY: Final = ("engine.tokenizer.merges", "engine.tokenizer.merge_kernels")

Derive = Callable[[CodePoints, npt.NDArray[np.float32], npt.NDArray[np.bool_]], Merges]


def cached_merges(
    derive: Derive, texts: CodePoints, scores: npt.NDArray[np.float32], mergeable: npt.NDArray[np.bool_]
) -> Merges:
    """What ``derive`` makes of the other arguments, those of ``derive_merges``; read where it was kept."""
    if texts.lengths.size < LEAST_TOKENS:
        return derive(texts, scores, mergeable)
    path = merges_folder() / f"{_key(texts, scores, mergeable)}.merges"
    merges = _read(path, texts.lengths.size)
    if merges is None:
        merges = derive(texts, scores, mergeable)
        with contextlib.suppress(OSError):
            _remove_oldest(path.parent)
        columns = (merges.left, merges.right, merges.made)
        write_checked(path, _KIND, b"".join(column.astype("<i4").tobytes() for column in columns))
    return merges


def merges_folder() -> Path:
    """Folder of the kept merges."""
    return cache_folder() / "merges"


def _key(texts: CodePoints, scores: npt.NDArray[np.float32], mergeable: npt.NDArray[np.bool_]) -> str:
    digest = hashlib.sha256("".join(map(source_hash, _DERIVED_BY)).encode())
    for array in (texts.codes, texts.lengths, scores, mergeable):
        digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()[:32]


def _read(path: Path, vocab_size: int) -> Merges | None:
    """The kept merges, or None where there are none that fit."""
    content = read_checked(path, _KIND)
    if content is None or len(content) % 12:
        return None
    columns = np.frombuffer(content, "<i4").astype(np.int32).reshape(3, -1)
    if columns.size and not 0 <= columns.min() <= columns.max() < vocab_size:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it is in use
    return Merges(*columns)


def _remove_oldest(folder: Path) -> None:
    """Make room for one more file."""
    kept = sorted(folder.glob("*.merges"), key=lambda path: path.stat().st_mtime)
    for path in kept[: max(0, len(kept) - MAX_FILES + 1)]:
        path.unlink(missing_ok=True)
