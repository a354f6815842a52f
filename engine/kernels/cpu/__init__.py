"""The CPU backend: plans executed by numba kernels on persistent threads.

    backend     CpuBackend: memory, step state, run
    lowering/   a plan to a program: rows of kernel addresses and operands
    memory      the arrays behind the operands, work_memory: what they take; kv_store, kv_layout: keys and values
    threads     the threads, executor: their loop, control: its layout, sleep: the system's calls
    run_ahead   the tokens that follow a step without Python, ahead: how
    jit         kernels as machine code from a cache of object files
    simd, tile, rows, isa         the words kernels are written in
    matmul, quantize, dequantize  ops on weights; operands, formats: their layouts
    norm, rope, activation, elementwise, write_kv, attention, attention_tiles  the other ops; layouts: operands

Imports no numba unless a kernel has to be compiled.
"""

from engine.kernels.cpu.backend import CpuBackend
from engine.kernels.cpu.kv_layout import kv_bytes_per_block
from engine.kernels.cpu.work_memory import work_bytes

__all__ = ["CpuBackend", "kv_bytes_per_block", "work_bytes"]
