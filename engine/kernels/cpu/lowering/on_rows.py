"""Lowerings of the ops that work on the rows of buffers alone."""

from __future__ import annotations

from engine.kernels.cpu import layouts as slots
from engine.kernels.cpu.jit import KernelSource
from engine.kernels.cpu.lowering.program import Operands, Program, rows_kind
from engine.model.plan import Activation, Add, Buffer, GatedActivation, RmsNorm, SelectRows, SoftCap

_GATED = {Activation.SILU: "silu_gated", Activation.GELU: "gelu_gated"}


def norm(program: Program, op: RmsNorm, residual: Buffer | None) -> None:
    """Norm of rows or of parts of them, added to ``residual`` where there is one."""
    out = residual or op.out
    operands: Operands = {
        slots.NORM_X: program.memory.buffer(op.x),
        slots.NORM_WEIGHT: program.memory.vector(op.weight),
        slots.NORM_OUT: program.memory.buffer(out),
        slots.NORM_WIDTH: op.x.width,
        slots.NORM_GROUPS: op.num_groups,
        slots.NORM_EPS: float(op.eps),
        slots.NORM_ROWS: rows_kind(op.x),
        slots.NORM_ACCUMULATE: int(residual is not None),
    }
    program.emit(KernelSource("norm", "rms_norm"), operands, (op.x, out), (out,), op.x.rows)


def gated(program: Program, op: GatedActivation) -> None:
    """Activation of a gate times its input."""
    operands: Operands = {
        slots.GATED_GATE: program.memory.buffer(op.gate),
        slots.GATED_UP: program.memory.buffer(op.up),
        slots.GATED_OUT: program.memory.buffer(op.out),
        slots.GATED_WIDTH: op.out.width,
        slots.GATED_ROWS: rows_kind(op.out),
    }
    source = KernelSource("activation", _GATED[op.activation])
    program.emit(source, operands, (op.gate, op.up), (op.out,), op.out.rows)


def add(program: Program, op: Add) -> None:
    """Sum of two buffers."""
    operands: Operands = {
        slots.ADD_X: program.memory.buffer(op.x),
        slots.ADD_Y: program.memory.buffer(op.y),
        slots.ADD_OUT: program.memory.buffer(op.out),
        slots.ADD_WIDTH: op.out.width,
        slots.ADD_ROWS: rows_kind(op.out),
    }
    program.emit(KernelSource("elementwise", "add"), operands, (op.x, op.y), (op.out,), op.out.rows)


def select(program: Program, op: SelectRows) -> None:
    """Choice of the rows whose logits are wanted."""
    operands: Operands = {
        slots.SELECT_X: program.memory.buffer(op.x),
        slots.SELECT_OUT: program.memory.buffer(op.out),
        slots.SELECT_WIDTH: op.x.width,
    }
    program.emit(KernelSource("elementwise", "select_rows"), operands, (op.x,), (op.out,), "logits")


def soft_cap(program: Program, op: SoftCap) -> None:
    """Soft cap of each value."""
    operands: Operands = {
        slots.CAP_X: program.memory.buffer(op.x),
        slots.CAP_OUT: program.memory.buffer(op.out),
        slots.CAP_WIDTH: op.x.width,
        slots.CAP_ROWS: rows_kind(op.x),
        slots.CAP_CAP: float(op.cap),
    }
    program.emit(KernelSource("elementwise", "soft_cap"), operands, (op.x,), (op.out,))
