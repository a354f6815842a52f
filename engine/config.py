"""The engine's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from engine.plain_data import dataclass

KVType = Literal["f16", "q8_0"]  # how the KV cache stores a value: float16, or int8 with a scale for 32


@dataclass(frozen=True)
class EngineConfig:
    """What the person or the app may choose once for an engine.

    Attributes:
        backend: "cpu", or "reference" for the slow NumPy definition.
        num_threads: 0 is the number of physical cores.
        context_length: used where a load names none; 0 lets the memory plan choose.
        max_batch_tokens: most tokens of one step.
        kv_type: used where a load names none; the reference backend keeps float32 instead of float16.
        kv_bytes: most memory for the KV cache where a load names none; 0 is chosen from what is free.
        snapshot_folder: where conversations are kept for the next start; None keeps none.
        snapshot_quota_bytes: most that they take on the disk, see ``SetSnapshotQuota``; what is there beyond it is
            deleted at the start, unless another quota is set before.
        speculates: verify proposed tokens where that makes more tokens a second; the tokens are the same.
    """

    backend: Literal["cpu", "reference"] = "cpu"
    num_threads: int = 0
    context_length: int = 0
    max_batch_tokens: int = 512
    kv_type: KVType = "f16"
    kv_bytes: int = 0
    snapshot_folder: Path | None = None
    snapshot_quota_bytes: int = 4 << 30
    speculates: bool = True
