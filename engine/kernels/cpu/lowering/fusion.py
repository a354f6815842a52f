"""Which ops take the residual add after them: a matmul or a norm can add to what is in its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from itertools import islice
from typing import Any

from engine.model.plan import Add, Buffer, Copy, HeadMatMul, MatMul, Norm, Op


def residual_of(ops: Sequence[Op], index: int) -> Buffer | None:
    """The buffer that op ``index`` may add to itself, which makes the Add after it superfluous; None if none.

    That is so when the Add's other input is its output too, and nothing reads the result of the op otherwise.
    """
    op = ops[index]
    if not isinstance(op, MatMul | Norm) or index + 1 >= len(ops):
        return None
    add = ops[index + 1]
    if not isinstance(add, Add) or op.out in (op.x, add.out):
        return None
    other = add.y if add.x == op.out else add.x if add.y == op.out else None
    if other is None or other != add.out or other in (op.x, op.out) or _is_read(op.out, ops, index + 2):
        return None
    return other


def _is_read(buffer: Buffer, ops: Sequence[Op], begin: int) -> bool:
    """Whether one of the ops from ``begin`` on reads the buffer before another overwrites it."""
    for op in islice(ops, begin, None):
        if buffer in inputs(op):
            return True
        if getattr(op, "out", None) == buffer:
            return False
    return False


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def inputs(op: Op) -> tuple[Buffer, ...]:
    """The buffers an op reads: all it names but ``out``, and that too where the op writes only a part of it."""
    kind: Any = type(op)
    named = ((name, getattr(op, name)) for name in _field_names(kind))
    keeps_out = isinstance(op, Copy | HeadMatMul)
    return tuple(value for name, value in named if (keeps_out or name != "out") and isinstance(value, Buffer))
