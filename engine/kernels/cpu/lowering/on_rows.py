"""Lowerings of the ops that work on the rows of buffers alone."""

from __future__ import annotations

import math

import numpy as np

from engine.kernels.cpu import layouts as slots
from engine.kernels.cpu.jit import KernelSource
from engine.kernels.cpu.lowering.program import Operands, Program, rows_kind
from engine.model.plan import (
    Activate,
    Add,
    Buffer,
    Clamp,
    Copy,
    GatedActivation,
    Norm,
    Scale,
    ScaleByPosition,
    SelectRows,
    SoftCap,
)


def norm(program: Program, op: Norm, residual: Buffer | None) -> None:
    """Norm of rows or of parts of them, added to ``residual`` where there is one."""
    memory, out = program.memory, residual or op.out
    vector = op.weight or op.bias
    has_own = vector is not None and op.num_groups > 1 and math.prod(vector.shape) == op.x.width
    operands: Operands = {
        slots.NORM_X: memory.buffer(op.x),
        slots.NORM_WEIGHT: memory.vector(op.weight) if op.weight is not None else 0,
        slots.NORM_OUT: memory.buffer(out),
        slots.NORM_WIDTH: op.x.width,
        slots.NORM_GROUPS: op.num_groups,
        slots.NORM_EPS: float(op.eps),
        slots.NORM_ROWS: rows_kind(op.x),
        slots.NORM_ACCUMULATE: int(residual is not None),
        slots.NORM_WEIGHT_GROUPS: op.num_groups if has_own else 1,
        slots.NORM_BIAS: memory.vector(op.bias) if op.bias is not None else 0,
    }
    source = KernelSource("norm", "layer_norm" if op.is_centered else "rms_norm")
    program.emit(source, operands, (op.x, out), (out,), op.x.rows)


def gated(program: Program, op: GatedActivation) -> None:
    """Activation of a gate times its input."""
    operands: Operands = {
        slots.GATED_GATE: program.memory.buffer(op.gate),
        slots.GATED_UP: program.memory.buffer(op.up),
        slots.GATED_OUT: program.memory.buffer(op.out),
        slots.GATED_WIDTH: op.out.width,
        slots.GATED_ROWS: rows_kind(op.out),
        slots.GATED_RUN: op.up.width // op.gate.width,
        slots.GATED_LIMIT: float(op.limit or 0.0),
        slots.GATED_IS_EARLY: int(op.is_limit_early),
        slots.GATED_OFFSET: float(op.up_offset),
    }
    is_wide = op.gate.width == op.up.width
    assert is_wide or (op.limit is None and not op.up_offset), "a gate of runs has neither limits nor an offset"
    source = KernelSource("activation", "gated_kernel" if is_wide else "gated_runs_kernel", (op.activation,))
    program.emit(source, operands, (op.gate, op.up), (op.out,), op.out.rows)


def activate(program: Program, op: Activate) -> None:
    """Activation of each value."""
    operands: Operands = {
        slots.ACTIVATE_X: program.memory.buffer(op.x),
        slots.ACTIVATE_OUT: program.memory.buffer(op.out),
        slots.ACTIVATE_WIDTH: op.out.width,
        slots.ACTIVATE_ROWS: rows_kind(op.out),
    }
    operands |= {slots.ACTIVATE_PARAMETERS + i: float(value) for i, value in enumerate(op.parameters or ())}
    source = KernelSource("activation", "activate_kernel", (op.activation,))
    program.emit(source, operands, (op.x,), (op.out,), op.out.rows)


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


def scale(program: Program, op: Scale) -> None:
    """A factor on each value."""
    operands: Operands = {
        slots.SCALE_X: program.memory.buffer(op.x),
        slots.SCALE_OUT: program.memory.buffer(op.out),
        slots.SCALE_WIDTH: op.x.width,
        slots.SCALE_ROWS: rows_kind(op.x),
        slots.SCALE_FACTOR: float(op.factor),
    }
    program.emit(KernelSource("elementwise", "scale"), operands, (op.x,), (op.out,), op.x.rows)


def scale_by_position(program: Program, op: ScaleByPosition) -> None:
    """A factor for each position, from a table."""
    positions = np.arange(program.memory.max_positions)
    factors = 1.0 + op.scale * np.log((positions + op.offset) // op.length + 1.0)
    key = ("position factors", op.scale, op.length, op.offset)
    table = program.memory.bytes_for(key, 4 * len(factors))
    table.view(np.float32)[:] = factors
    operands: Operands = {
        slots.SCALE_X: program.memory.buffer(op.x),
        slots.SCALE_WIDTH: op.x.width,
        slots.SCALE_TABLE: table.ctypes.data,
    }
    program.emit(KernelSource("elementwise", "scale_by_position"), operands, (op.x,), (op.x,), "tokens")


def clamp(program: Program, op: Clamp) -> None:
    """Limits on each value."""
    operands: Operands = {
        slots.CAP_X: program.memory.buffer(op.x),
        slots.CAP_OUT: program.memory.buffer(op.out),
        slots.CAP_WIDTH: op.x.width,
        slots.CAP_ROWS: rows_kind(op.x),
        slots.CAP_CAP: float(op.limit),
    }
    program.emit(KernelSource("elementwise", "clamp"), operands, (op.x,), (op.out,), op.x.rows)


def copy(program: Program, op: Copy) -> None:
    """A stretch of each head."""
    memory, heads = program.memory, op.num_heads
    operands: Operands = {
        slots.COPY_X: memory.buffer(op.x) + 4 * op.first,
        slots.COPY_OUT: memory.buffer(op.out) + 4 * op.out_first,
        slots.COPY_ROWS: rows_kind(op.out),
        slots.COPY_HEADS: heads,
        slots.COPY_COUNT: op.count,
        slots.COPY_X_ROW: op.x.width,
        slots.COPY_X_HEAD: 0 if op.is_shared else op.x.width // heads,
        slots.COPY_OUT_ROW: op.out.width,
        slots.COPY_OUT_HEAD: op.out.width // heads,
    }
    program.emit(KernelSource("elementwise", "copy"), operands, (op.x, op.out), (op.out,), op.out.rows)
