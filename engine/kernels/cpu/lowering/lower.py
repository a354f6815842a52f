"""The pass over a plan that makes its program."""

from __future__ import annotations

from engine.kernels.cpu.kv_store import KVStore
from engine.kernels.cpu.lowering import on_cache, on_rows, on_weights
from engine.kernels.cpu.lowering.fusion import residual_of
from engine.kernels.cpu.lowering.program import LoweredOp, Program
from engine.kernels.cpu.memory import Memory
from engine.model.plan import (
    Add,
    Attention,
    Buffer,
    Embed,
    GatedActivation,
    MatMul,
    Op,
    Plan,
    RmsNorm,
    Rope,
    SelectRows,
    SoftCap,
    WriteKV,
)


def lower(plan: Plan, memory: Memory, kv_store: KVStore) -> list[LoweredOp]:
    """The plan's ops as rows; buffers and tables are made in ``memory``."""
    program = Program(plan, memory, kv_store)
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
    match op:
        case Embed():
            on_weights.embed(program, op)
        case MatMul():
            on_weights.matmul(program, op, residual)
        case Rope():
            on_cache.rope(program, op)
        case WriteKV():
            on_cache.write_kv(program, op)
        case Attention():
            on_cache.attention(program, op)
        case RmsNorm():
            on_rows.norm(program, op, residual)
        case GatedActivation():
            on_rows.gated(program, op)
        case Add():
            on_rows.add(program, op)
        case SelectRows():
            on_rows.select(program, op)
        case SoftCap():
            on_rows.soft_cap(program, op)
        case _:
            raise NotImplementedError(f"the CPU backend has no op {type(op).__name__}")
