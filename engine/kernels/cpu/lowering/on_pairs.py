"""Lowerings of the ops of a mixture of experts; pairs of a token and an expert lie sorted by expert."""

from __future__ import annotations

from engine.kernels.cpu import layouts
from engine.kernels.cpu import operands as slots
from engine.kernels.cpu.formats import TOKEN_TILE, ActivationFormat, activation_format, activation_row_bytes
from engine.kernels.cpu.jit import KernelSource
from engine.kernels.cpu.lowering.program import Operands, Program
from engine.model.plan import Buffer, Combine, Dispatch, ExpertMatMul, Route

_TABLE = "routing table"
_BLOCKS_AN_EXPERT = 4  # pieces of an expert's matrix that threads share out
_LEAST_BLOCK_ROWS = 64


def route(program: Program, op: Route) -> None:
    """Choice of experts, then the order of the pairs."""
    memory, experts = program.memory, op.logits.width
    table = _table(program, experts)
    operands: Operands = {
        layouts.ROUTE_LOGITS: memory.buffer(op.logits),
        layouts.ROUTE_EXPERTS: experts,
        layouts.ROUTE_USED: program.plan.num_experts_used,
        layouts.ROUTE_BIAS: memory.vector(op.bias) if op.bias is not None else 0,
        layouts.ROUTE_GROUPS: op.num_groups,
        layouts.ROUTE_USED_GROUPS: op.num_used_groups,
        layouts.ROUTE_NORMALIZED: int(op.is_normalized),
        layouts.ROUTE_SCALE: float(op.scale),
        layouts.ROUTE_DIVISOR: op.divisor,
        layouts.ROUTE_TABLE: table,
    }
    source = KernelSource("route", "route_kernel", (op.gating,))
    program.emit(source, operands, (op.logits,), (_TABLE,))
    program.emit(KernelSource("route", "sort_pairs"), operands, (_TABLE,), (_TABLE,))


def dispatch(program: Program, op: Dispatch) -> None:
    """Rows of tokens to their pairs."""
    operands = _movement(program, op.x, op.out, op.is_weighted)
    program.emit(KernelSource("route", "dispatch"), operands, (op.x, _TABLE), (op.out,), "pairs")


def combine(program: Program, op: Combine) -> None:
    """Rows of pairs to their tokens."""
    operands = _movement(program, op.x, op.out, op.is_weighted)
    program.emit(KernelSource("route", "combine"), operands, (op.x, _TABLE), (op.out,), "tokens")


def expert_matmul(program: Program, op: ExpertMatMul) -> None:
    """A matmul with the experts' matrices, after the quantisation of its input unless that is done."""
    memory, (experts, all_rows, width) = program.memory, op.weight.shape
    form = activation_format(op.weight.type)
    unit = activation_row_bytes(form, width)
    activation = _activation(program, op.x, form, unit)
    if not program.is_quantized(op.x, form):
        quantize: Operands = {
            slots.QUANTIZE_X: memory.buffer(op.x),
            slots.QUANTIZE_ACTIVATION: activation,
            slots.QUANTIZE_WIDTH: width,
            slots.EXPERT_QUANTIZE_TABLE: _table(program, experts),
            slots.EXPERT_QUANTIZE_UNIT: unit,
        }
        source = KernelSource("matmul_many", "expert_quantize_kernel", (form,))
        program.emit(source, quantize, (op.x, _TABLE), ((op.x, form),))
        program.note_quantized(op.x, form)
    row_bytes, num_rows = op.weight.type.row_bytes(width), op.out.width
    block_rows = max(_LEAST_BLOCK_ROWS, -(-num_rows // _BLOCKS_AN_EXPERT // 16) * 16)
    operands: Operands = {
        slots.MATMUL_ACTIVATION: activation,
        slots.MATMUL_WEIGHT: memory.weight(op.weight) + op.first_row * row_bytes,
        slots.MATMUL_OUT: memory.buffer(op.out),
        slots.MATMUL_ROWS: num_rows,
        slots.MATMUL_WIDTH: width,
        slots.MATMUL_ROW_BYTES: row_bytes,
        slots.MATMUL_OUT_STRIDE: num_rows,
        slots.MATMUL_BIAS: memory.vector(op.bias) if op.bias is not None else 0,
        slots.MATMUL_COUNTER: program.counter(),
        slots.EXPERT_BYTES: all_rows * row_bytes,
        slots.EXPERT_TABLE: _table(program, experts),
        slots.EXPERT_ROW_UNIT: unit,
        slots.EXPERT_BLOCK_ROWS: block_rows,
    }
    source = KernelSource("matmul_many", "expert_matmul_kernel", (op.weight.type,))
    program.emit(source, operands, ((op.x, form), _TABLE), (op.out,))


def _movement(program: Program, x: Buffer, out: Buffer, is_weighted: bool) -> Operands:
    return {
        layouts.PAIRS_X: program.memory.buffer(x),
        layouts.PAIRS_OUT: program.memory.buffer(out),
        layouts.PAIRS_WIDTH: out.width,
        layouts.PAIRS_USED: program.plan.num_experts_used,
        layouts.PAIRS_IS_WEIGHTED: int(is_weighted),
        layouts.PAIRS_TABLE: _table(program, program.num_experts),
    }


def _activation(program: Program, x: Buffer, form: ActivationFormat, unit: int) -> int:
    """Address of the quantised rows of pairs, each expert's run up to a whole tile."""
    max_pairs = program.memory.max_pairs
    num_rows = max_pairs + min(max_pairs, program.num_experts) * (TOKEN_TILE - 1) + TOKEN_TILE
    return program.memory.bytes_for(("pairs", form, x), num_rows * unit).ctypes.data


def _table(program: Program, experts: int) -> int:
    """Address of the routing table, which is made with room for the experts of the first choice."""
    program.num_experts = max(program.num_experts, experts)
    memory = program.memory
    head = memory.bytes_for(_TABLE, layouts.TABLE_SLOTS * 8).view("int64")
    of_pairs = (layouts.TABLE_IDS, layouts.TABLE_WEIGHTS, layouts.TABLE_ORDER, layouts.TABLE_PLACES)
    of_experts = (layouts.TABLE_ACTIVE, layouts.TABLE_COUNTS, layouts.TABLE_STARTS, layouts.TABLE_TILE_STARTS)
    for slot in of_pairs:
        head[slot] = memory.bytes_for((_TABLE, slot), memory.max_pairs * 4).ctypes.data
    for slot in of_experts:
        head[slot] = memory.bytes_for((_TABLE, slot), program.num_experts * 4).ctypes.data
    return head.ctypes.data
