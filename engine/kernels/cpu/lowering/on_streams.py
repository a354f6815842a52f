"""Lowerings of the ops of several residual streams."""

from __future__ import annotations

from engine.kernels.cpu import layouts as slots
from engine.kernels.cpu.jit import KernelSource
from engine.kernels.cpu.lowering.program import Operands, Program, rows_kind
from engine.model.plan import KeepLargest, MatchLength, MixStreams, ScaleColumns


def mix(program: Program, op: MixStreams) -> None:
    """Mixtures of streams."""
    width = op.x.width // op.num_inputs
    operands: Operands = {
        slots.MIX_X: program.memory.buffer(op.x),
        slots.MIX_WEIGHTS: program.memory.buffer(op.weights),
        slots.MIX_OUT: program.memory.buffer(op.out),
        slots.MIX_WIDTH: width,
        slots.MIX_INPUTS: op.num_inputs,
        slots.MIX_OUTPUTS: op.out.width // width,
        slots.MIX_ROWS: rows_kind(op.out),
    }
    source = KernelSource("streams", "mix_streams")
    program.emit(source, operands, (op.x, op.weights), (op.out,), op.out.rows)


def match_length(program: Program, op: MatchLength) -> None:
    """Parts of rows scaled to the length of another row."""
    operands: Operands = {
        slots.LENGTH_X: program.memory.buffer(op.x),
        slots.LENGTH_LIKE: program.memory.buffer(op.like),
        slots.LENGTH_OUT: program.memory.buffer(op.out),
        slots.LENGTH_WIDTH: op.like.width,
        slots.LENGTH_GROUPS: op.num_groups,
        slots.LENGTH_ROWS: rows_kind(op.out),
    }
    program.emit(KernelSource("streams", "match_length"), operands, (op.x, op.like), (op.out,), op.out.rows)


def scale_columns(program: Program, op: ScaleColumns) -> None:
    """A factor on each column."""
    operands: Operands = {
        slots.COLUMNS_X: program.memory.buffer(op.x),
        slots.COLUMNS_OUT: program.memory.buffer(op.out),
        slots.COLUMNS_WIDTH: op.x.width,
        slots.COLUMNS_ROWS: rows_kind(op.out),
        slots.COLUMNS_WEIGHT: program.memory.vector(op.weight),
    }
    program.emit(KernelSource("streams", "scale_columns"), operands, (op.x,), (op.out,), op.out.rows)


def keep_largest(program: Program, op: KeepLargest) -> None:
    """What stands out of a row."""
    operands: Operands = {
        slots.KEEP_X: program.memory.buffer(op.x),
        slots.KEEP_OUT: program.memory.buffer(op.out),
        slots.KEEP_WIDTH: op.x.width,
        slots.KEEP_ROWS: rows_kind(op.out),
        slots.KEEP_FACTOR: float(op.factor),
    }
    program.emit(KernelSource("streams", "keep_largest"), operands, (op.x,), (op.out,), op.out.rows)
