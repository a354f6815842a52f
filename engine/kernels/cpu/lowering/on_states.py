"""Lowerings of the ops that go from one state of a sequence to the next."""

from __future__ import annotations

from engine.kernels.cpu import layouts as slots
from engine.kernels.cpu.jit import KernelSource
from engine.kernels.cpu.lowering.program import Operands, Program
from engine.model.plan import CausalConv, DeltaRule, SelectiveScan


def conv(program: Program, op: CausalConv) -> None:
    """A causal convolution."""
    operands = _operands(program, op) | {
        slots.CONV_WEIGHT: program.memory.vector(op.weight),
        slots.CONV_BIAS: program.memory.vector(op.bias) if op.bias is not None else 0,
        slots.CONV_TAPS: op.weight.shape[0],
    }
    source = KernelSource("recurrence", "conv_kernel", (op.activation,))
    program.emit(source, operands, (op.x,), (op.out, ("state", op.state)))


def scan(program: Program, op: SelectiveScan) -> None:
    """The recurrence of Mamba 2."""
    heads = op.step.width
    operands = _operands(program, op) | {
        slots.SCAN_STEP: program.memory.buffer(op.step),
        slots.SCAN_DECAY: program.memory.vector(op.decay),
        slots.SCAN_HEADS: heads,
        slots.SCAN_GROUPS: op.num_groups,
        slots.SCAN_HEAD_DIM: op.out.width // heads,
        slots.SCAN_STATE_DIM: op.state_dim,
        slots.SCAN_SKIP: program.memory.vector(op.skip),
    }
    source = KernelSource("recurrence", "selective_scan")
    program.emit(source, operands, (op.x, op.step), (op.out, ("state", op.state)))


def delta_rule(program: Program, op: DeltaRule) -> None:
    """The gated delta rule."""
    operands = _operands(program, op) | {
        slots.SCAN_STEP: program.memory.buffer(op.step),
        slots.SCAN_DECAY: program.memory.vector(op.decay),
        slots.SCAN_HEADS: op.step.width,
        slots.SCAN_GROUPS: op.num_key_heads,
        slots.SCAN_STATE_DIM: op.dim,
        slots.DELTA_RATE: program.memory.buffer(op.rate),
        slots.DELTA_EPS: float(op.eps),
        slots.DELTA_IS_GROUPED: int(op.has_grouped_heads),
    }
    source = KernelSource("recurrence", "delta_rule")
    program.emit(source, operands, (op.x, op.step, op.rate), (op.out, ("state", op.state)))


def _operands(program: Program, op: CausalConv | SelectiveScan | DeltaRule) -> Operands:
    sizes = program.plan.state_sizes
    return {
        slots.STATE_BASE: program.memory.states(sum(sizes)).ctypes.data + 4 * sum(sizes[: op.state]),
        slots.STATE_SLOT_BYTES: 4 * sum(sizes),
        slots.RECUR_X: program.memory.buffer(op.x),
        slots.RECUR_OUT: program.memory.buffer(op.out),
        slots.RECUR_X_ROW: op.x.width,
        slots.RECUR_OUT_ROW: op.out.width,
    }
