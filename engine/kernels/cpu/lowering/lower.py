"""The pass over a plan that makes its program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.kernels.cpu.kv_store import KVStore
from engine.kernels.cpu.lowering import on_cache, on_pairs, on_rows, on_states, on_streams, on_weights
from engine.kernels.cpu.lowering.fusion import residual_of
from engine.kernels.cpu.lowering.program import LoweredOp, Program
from engine.kernels.cpu.lowering.sharing import share_memory
from engine.kernels.cpu.memory import Memory
from engine.model import plan as ops
from engine.model.plan import Buffer, Op, Plan, Rope

_LOWERINGS: dict[type[Any], Callable[[Program, Any], None]] = {
    ops.Embed: on_weights.embed,
    ops.HeadMatMul: on_weights.head_matmul,
    ops.Rope: on_cache.rope,
    ops.WriteKV: on_cache.write_kv,
    ops.Attention: on_cache.attention,
    ops.GatedActivation: on_rows.gated,
    ops.Activate: on_rows.activate,
    ops.Add: on_rows.add,
    ops.Scale: on_rows.scale,
    ops.ScaleByPosition: on_rows.scale_by_position,
    ops.Clamp: on_rows.clamp,
    ops.Copy: on_rows.copy,
    ops.SelectRows: on_rows.select,
    ops.SoftCap: on_rows.soft_cap,
    ops.CausalConv: on_states.conv,
    ops.SelectiveScan: on_states.scan,
    ops.DeltaRule: on_states.delta_rule,
    ops.Route: on_pairs.route,
    ops.Dispatch: on_pairs.dispatch,
    ops.ExpertMatMul: on_pairs.expert_matmul,
    ops.Combine: on_pairs.combine,
    ops.MixStreams: on_streams.mix,
    ops.MatchLength: on_streams.match_length,
    ops.ScaleColumns: on_streams.scale_columns,
    ops.KeepLargest: on_streams.keep_largest,
}
# These can add what they make to a buffer.
_ADDING: dict[type[Any], Callable[[Program, Any, Buffer | None], None]] = {
    ops.MatMul: on_weights.matmul,
    ops.Norm: on_rows.norm,
}


def lower(plan: Plan, memory: Memory, kv_store: KVStore) -> list[LoweredOp]:
    """The plan's ops as rows; buffers and tables are made in ``memory``."""
    shares = share_memory(plan, memory)
    memory.share(shares.places)
    program = Program(plan, memory, kv_store, shares.others)
    for op in plan.ops:
        if isinstance(op, Rope):
            on_cache.prepare_angles(program, op.table)
    index = 0
    while index < len(plan.ops):
        residual = residual_of(plan.ops, index)
        _lower_op(program, plan.ops[index], residual)
        index += 1 if residual is None else 2
    return program.ops


def _lower_op(program: Program, op: Op, residual: Buffer | None) -> None:
    kind = type(op)
    if kind in _ADDING:
        _ADDING[kind](program, op, residual)
    elif kind in _LOWERINGS:
        _LOWERINGS[kind](program, op)
    else:
        raise NotImplementedError(f"the CPU backend has no op {kind.__name__}")
