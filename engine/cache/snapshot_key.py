"""The key of snapshots: equal only where keys and values are the same for the same tokens.

It stands for the model's file, for the plan with its rotary angles, windows and scales, and for the backend's KV
type, layout and kernels, whose sources are the engine's version in this.
"""

from __future__ import annotations

import dataclasses
import hashlib
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from engine.model.plan import Buffer, Plan, Tensor


def snapshot_key(model_identity: bytes, plan: Plan, kv_format: str) -> bytes:
    """32 bytes.

    Args:
        model_identity: ``GGUFFile.identity``.
        plan: as the backend runs it.
        kv_format: of the backend.
    """
    digest = hashlib.blake2b(model_identity, digest_size=32)
    for part in (kv_format, plan.kv_layers, plan.vocab_size, *plan.ops):
        digest.update(_text(part).encode() + b"\0")
    return digest.digest()


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _text(value: object) -> str:
    """A text that differs where the value does; of a weight name, type and shape, for its bytes are the file's."""
    match value:
        case Tensor():
            return f"{value.name} {value.type.name} {value.shape}"
        case Buffer():
            return value.name
        case np.ndarray():
            return f"{value.dtype} {value.shape} {hashlib.blake2b(value.tobytes()).hexdigest()}"
        case Enum():
            return value.name
        case tuple():
            return f"({', '.join(map(_text, value))})"
        case _ if dataclasses.is_dataclass(value):
            kind: Any = type(value)
            fields = (f"{name}={_text(getattr(value, name))}" for name in _field_names(kind))
            return f"{kind.__name__}({', '.join(fields)})"
        case _:
            return repr(value)
