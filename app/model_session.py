"""The model of this session: which ones there are, which one is loaded or loading."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ModelEntry:
    """One model on disk, as the picker shows it.

    Attributes:
        path: the file, or the first shard of a set.
        name: without the ending and the tensor type.
        detail: "Q4_1 · 98 MB".
        problem: one sentence why it cannot be loaded; empty when it can.
    """

    path: Path
    name: str
    detail: str
    problem: str = ""
