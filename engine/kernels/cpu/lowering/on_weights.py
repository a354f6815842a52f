"""Lowerings of the ops that read weight matrices."""

from __future__ import annotations

from engine.kernels.cpu import operands as slots
from engine.kernels.cpu.formats import TOKEN_TILE, activation_format, activation_row_bytes
from engine.kernels.cpu.jit import KernelSource
from engine.kernels.cpu.lowering.program import Operands, Program, rows_kind
from engine.kernels.cpu.step_state import POSITIONS, TOKEN_IDS
from engine.model.plan import Buffer, Embed, HeadMatMul, MatMul

_SCRATCH_BYTES = 1 << 20  # of a thread, for the rows of one head
_MOST_TOKENS = 64  # that a thread takes of one head at once


def embed(program: Program, op: Embed) -> None:
    """Rows of an embedding, by token ids or positions."""
    operands: Operands = {
        slots.EMBED_WEIGHT: program.memory.weight(op.weight),
        slots.EMBED_ROW_BYTES: op.weight.type.row_bytes(op.weight.shape[1]),
        slots.EMBED_WIDTH: op.weight.shape[1],
        slots.EMBED_OUT: program.memory.buffer(op.out),
        slots.EMBED_SCALE: float(op.scale),
        slots.EMBED_IDS: POSITIONS if op.by_position else TOKEN_IDS,
    }
    program.emit(KernelSource("matmul", "embed_kernel", (op.weight.type,)), operands, (), (op.out,))


def matmul(program: Program, op: MatMul, residual: Buffer | None) -> None:
    """Rows are quantised once for all matmuls that read them."""
    memory, form = program.memory, activation_format(op.weight.type)
    activation = memory.activation(op.x, form)
    out = residual or op.out
    if not program.is_quantized(op.x, form):
        quantize: Operands = {
            slots.QUANTIZE_X: memory.buffer(op.x),
            slots.QUANTIZE_ACTIVATION: activation,
            slots.QUANTIZE_WIDTH: op.x.width,
            slots.QUANTIZE_ROWS_KIND: rows_kind(op.x),
        }
        program.emit(KernelSource("matmul", "quantize_kernel", (form,)), quantize, (op.x,), ((op.x, form),))
        program.note_quantized(op.x, form)
    operands: Operands = {
        slots.MATMUL_ACTIVATION: activation,
        slots.MATMUL_WEIGHT: memory.weight(op.weight),
        slots.MATMUL_OUT: memory.buffer(out),
        slots.MATMUL_ROWS: op.weight.shape[0],
        slots.MATMUL_WIDTH: op.weight.shape[1],
        slots.MATMUL_ROW_BYTES: op.weight.type.row_bytes(op.weight.shape[1]),
        slots.MATMUL_OUT_STRIDE: out.width,
        slots.MATMUL_BIAS: memory.vector(op.bias) if op.bias is not None else 0,
        slots.MATMUL_ACCUMULATE: int(residual is not None),
        slots.MATMUL_ROWS_KIND: rows_kind(op.x),
        slots.MATMUL_CAPACITY: memory.rows_of(op.x),
        slots.MATMUL_COUNTER: program.counter(),
    }
    source = KernelSource("matmul", "matmul_kernel", (op.weight.type,))
    program.emit(source, operands, ((op.x, form), out), (out,))


def head_matmul(program: Program, op: HeadMatMul) -> None:
    """A matrix for each head; a thread takes as many tokens at once as its scratch has room for."""
    memory, (heads, num_rows, width) = program.memory, op.weight.shape
    unit = activation_row_bytes(activation_format(op.weight.type), width)
    room = _SCRATCH_BYTES // (unit + 4 * width) // TOKEN_TILE * TOKEN_TILE
    assert room, "headers with wider heads are refused"
    row_bytes = op.weight.type.row_bytes(width)
    operands: Operands = {
        slots.MATMUL_WEIGHT: memory.weight(op.weight),
        slots.MATMUL_OUT: memory.buffer(op.out),
        slots.MATMUL_ROWS: num_rows,
        slots.MATMUL_WIDTH: width,
        slots.MATMUL_ROW_BYTES: row_bytes,
        slots.MATMUL_OUT_STRIDE: op.out.width,
        slots.MATMUL_COUNTER: program.counter(),
        slots.HEAD_X: memory.buffer(op.x),
        slots.HEAD_X_ROW: op.x.width,
        slots.HEAD_X_HEAD: op.x.width // heads,
        slots.HEAD_OUT_HEAD: op.out.width // heads,
        slots.HEAD_HEADS: heads,
        slots.HEAD_BYTES: num_rows * row_bytes,
        slots.HEAD_ROW_UNIT: unit,
        slots.HEAD_PIECE: min(room, _MOST_TOKENS),
    }
    source = KernelSource("matmul_many", "head_matmul_kernel", (op.weight.type,))
    program.emit(source, operands, (op.x, op.out), (op.out,))
