"""From a plan to a program: which kernels run in which order on which addresses.

    lower        the pass over the plan: one lowering function an op
    fusion       which ops take the residual add after them
    sharing      which buffers may lie in the same memory
    program      rows of a program, what they touch, and where threads must wait
    on_weights, on_cache, on_rows, on_pairs, on_states    the lowerings, by what their ops read

Knows the meaning of operands and nothing of architectures or threads.
"""

from engine.kernels.cpu.lowering.lower import lower
from engine.kernels.cpu.lowering.program import LoweredOp, assemble

__all__ = ["LoweredOp", "assemble", "lower"]
