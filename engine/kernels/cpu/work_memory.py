"""How much memory the buffers of a step take. Light on purpose: no numba.

Follows ``memory`` and the lowerings, which make these arrays; here they are only counted, for plans of headers too.
"""

from __future__ import annotations

from typing import Final

from engine.kernels.cpu.formats import (
    TOKEN_TILE,
    ActivationFormat,
    activation_bytes,
    activation_format,
    activation_row_bytes,
)
from engine.model.plan import ExpertMatMul, MatMul, Plan

_LOGIT_ROWS: Final = 1  # of the room for logits, what an answer touches


def work_bytes(plan: Plan, max_batch_tokens: int) -> int:
    """Buffers of a plan in steps of so many tokens, and their quantised copies where a matmul reads them."""
    num_pairs = max_batch_tokens * plan.num_experts_used
    rows = {"tokens": max_batch_tokens, "logits": _LOGIT_ROWS, "pairs": num_pairs}
    total = sum(rows[buffer.rows] * buffer.width * 4 for buffer in plan.buffers)
    inputs: set[tuple[str, ActivationFormat]] = set()
    for op in plan.ops:
        if not isinstance(op, MatMul | ExpertMatMul):
            continue
        form = activation_format(op.weight.type)
        if (op.x.name, form) in inputs:
            continue
        inputs.add((op.x.name, form))
        if isinstance(op, MatMul):
            total += activation_bytes(form, op.x.width, rows[op.x.rows])
        else:  # each expert's run is filled up to whole tiles
            padding = min(num_pairs, op.weight.shape[0]) * (TOKEN_TILE - 1) + TOKEN_TILE
            total += (num_pairs + padding) * activation_row_bytes(form, op.x.width)
    return total
