"""Lowerings of the ops around the KV cache: rope, the writing of keys and values, attention."""

from __future__ import annotations

from engine.kernels.cpu import layouts as slots
from engine.kernels.cpu.jit import KernelSource
from engine.kernels.cpu.lowering.program import Operands, Program
from engine.model.plan import Attention, Rope, RopeTable, WriteKV


def prepare_angles(program: Program, table: RopeTable) -> None:
    """Angles of the step's tokens, once a table, at the start of the program."""
    if id(table) in program.angles:
        return
    memory, pairs = program.memory, len(table.inv_freq)
    num_bytes = memory.max_batch_tokens * pairs * (16 if table.interleaved else 8)
    address = memory.bytes_for(("angles", id(table)), num_bytes).ctypes.data
    program.angles[id(table)] = address
    coarse, fine = memory.angle_tables(table)
    operands: Operands = {
        slots.ANGLES_COARSE: coarse,
        slots.ANGLES_FINE: fine,
        slots.ANGLES_OUT: address,
        slots.ANGLES_PAIRS: pairs,
    }
    name = "angles_of_pairs" if table.interleaved else "angles_of_halves"
    program.emit(KernelSource("rope", name), operands, (), (("angles", id(table)),), "tokens")


def rope(program: Program, op: Rope) -> None:
    """Rotation by the angles that ``prepare_angles`` made."""
    operands: Operands = {
        slots.ROPE_X: program.memory.buffer(op.x) + 4 * op.first,
        slots.ROPE_HEADS: op.num_heads,
        slots.ROPE_HEAD_DIM: op.head_dim,
        slots.ROPE_PAIRS: len(op.table.inv_freq),
        slots.ROPE_ANGLES: program.angles[id(op.table)],
    }
    name = "rotate_pairs" if op.table.interleaved else "rotate_halves"
    reads = (op.x, ("angles", id(op.table)))
    program.emit(KernelSource("rope", name), operands, reads, (op.x,), "tokens")


def write_kv(program: Program, op: WriteKV) -> None:
    """Store of the step's keys and values."""
    layer = program.plan.kv_layers[op.kv_layer]
    keys, values = program.kv_store.keys[op.kv_layer], program.kv_store.values[op.kv_layer]
    operands: Operands = {
        slots.WRITE_KEY: program.memory.buffer(op.key),
        slots.WRITE_VALUE: program.memory.buffer(op.value),
        slots.WRITE_KEYS: keys.ctypes.data,
        slots.WRITE_VALUES: values.ctypes.data,
        slots.WRITE_KEY_HEAD_BYTES: keys.strides[0],
        slots.WRITE_VALUE_HEAD_BYTES: values.strides[0],
        slots.WRITE_HEADS: layer.num_kv_heads,
        slots.WRITE_KEY_DIM: layer.key_dim,
        slots.WRITE_VALUE_DIM: layer.value_dim,
        slots.WRITE_KEY_BLOCK_BYTES: keys.strides[1],
        slots.WRITE_VALUE_BLOCK_BYTES: values.strides[1],
    }
    source = KernelSource("write_kv", f"write_kv_{program.kv_store.kv_type}")
    program.emit(source, operands, (op.key, op.value), (("kv", op.kv_layer),), "tokens")


def attention(program: Program, op: Attention) -> None:
    """Attention, with room for the results of parts of a context."""
    memory, layer = program.memory, program.plan.kv_layers[op.kv_layer]
    keys, values = program.kv_store.keys[op.kv_layer], program.kv_store.values[op.kv_layer]
    group = op.num_heads // layer.num_kv_heads
    num_partials = slots.MAX_SPLIT_SLICES * slots.MAX_SPLIT_ITEMS
    partial_bytes = slots.tile_bytes(slots.TILE_ROWS, layer.value_dim)  # none of a prompt, which is read whole
    operands: Operands = {
        slots.ATTENTION_QUERY: memory.buffer(op.query),
        slots.ATTENTION_OUT: memory.buffer(op.out),
        slots.ATTENTION_KEYS: keys.ctypes.data,
        slots.ATTENTION_VALUES: values.ctypes.data,
        slots.ATTENTION_KEY_HEAD_BYTES: keys.strides[0],
        slots.ATTENTION_VALUE_HEAD_BYTES: values.strides[0],
        slots.ATTENTION_KV_HEADS: layer.num_kv_heads,
        slots.ATTENTION_GROUP: group,
        slots.ATTENTION_KEY_DIM: layer.key_dim,
        slots.ATTENTION_VALUE_DIM: layer.value_dim,
        slots.ATTENTION_SCALE: float(op.scale),
        slots.ATTENTION_WINDOW: op.window or 0,
        slots.ATTENTION_SOFT_CAP: float(op.soft_cap or 0.0),
        slots.ATTENTION_SLOPES: memory.vector(op.slopes) if op.slopes is not None else 0,
        slots.ATTENTION_RUN: op.chunk or 0,
        slots.ATTENTION_SINKS: memory.vector(op.sinks) if op.sinks is not None else 0,
        slots.ATTENTION_COUNTER: program.counter(),
        slots.ATTENTION_PARTIALS: memory.bytes_for(
            ("partials", layer.value_dim), num_partials * partial_bytes
        ).ctypes.data,
        slots.ATTENTION_ARRIVALS: memory.bytes_for("arrivals", num_partials * 8).ctypes.data,
        slots.ATTENTION_KEY_BLOCK_BYTES: keys.strides[1],
        slots.ATTENTION_VALUE_BLOCK_BYTES: values.strides[1],
    }
    source = KernelSource("attention", "attention_kernel", (slots.decode_rows(group), program.kv_store.kv_type))
    program.emit(source, operands, (op.query, ("kv", op.kv_layer)), (op.out, "partials"))
