"""Lowerings of the ops that read weight matrices."""

from __future__ import annotations

from engine.kernels.cpu import operands as slots
from engine.kernels.cpu.formats import activation_format
from engine.kernels.cpu.jit import KernelSource
from engine.kernels.cpu.lowering.program import Operands, Program, rows_kind
from engine.model.plan import Buffer, Embed, MatMul


def embed(program: Program, op: Embed) -> None:
    """Rows of the embedding, by token ids."""
    operands: Operands = {
        slots.EMBED_WEIGHT: program.memory.weight(op.weight),
        slots.EMBED_ROW_BYTES: op.weight.type.row_bytes(op.weight.shape[1]),
        slots.EMBED_WIDTH: op.weight.shape[1],
        slots.EMBED_OUT: program.memory.buffer(op.out),
        slots.EMBED_SCALE: float(op.scale),
    }
    program.emit(KernelSource("matmul", "embed_kernel", (op.weight.type,)), operands, (), (op.out,))


def matmul(program: Program, op: MatMul, residual: Buffer | None) -> None:
    """Rows are quantised once for all matmuls that read them."""
    memory, form = program.memory, activation_format(op.weight.type)
    activation = memory.activation(op.x, form)
    out = residual or op.out
    if (op.x, form) not in program.quantized:
        quantize: Operands = {
            slots.QUANTIZE_X: memory.buffer(op.x),
            slots.QUANTIZE_ACTIVATION: activation,
            slots.QUANTIZE_WIDTH: op.x.width,
            slots.QUANTIZE_ROWS_KIND: rows_kind(op.x),
        }
        program.emit(KernelSource("matmul", "quantize_kernel", (form,)), quantize, (op.x,), ((op.x, form),))
        program.quantized.add((op.x, form))
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
