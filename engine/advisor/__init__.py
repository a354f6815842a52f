"""The fit advisor: what a model would need and how fast it would be on this machine, before it is downloaded.

shape     what a header says of a model's size: bytes by type, KV cache, work memory
machine   this machine: memory, disk, and speeds of the engine's kernels
kernel_speeds  those speeds, measured once and kept; timing tells a kernel's time from a wait for the processor
advice    both together: fits or not, tokens a second, seconds to read, and which version to take
measured  figures of models that have run: they replace the estimates and correct those of others
"""

from engine.advisor.advice import (
    Advice,
    Fit,
    advise,
    expected_of,
    most_parameters,
    recommend,
    supported_architectures,
)
from engine.advisor.kernel_speeds import known_speeds, measure_speeds, needs_measuring
from engine.advisor.machine import Machine, look_at_machine, speeds_of_kernels
from engine.advisor.measured import Expected, MeasuredFigures, MeasuredModel
from engine.advisor.shape import MemoryNeed, ModelShape, memory_need, memory_so_far, shape_of
from engine.advisor.speeds import Speeds

__all__ = [
    "Advice",
    "Expected",
    "Fit",
    "Machine",
    "MeasuredFigures",
    "MeasuredModel",
    "MemoryNeed",
    "ModelShape",
    "Speeds",
    "advise",
    "expected_of",
    "known_speeds",
    "look_at_machine",
    "measure_speeds",
    "memory_need",
    "memory_so_far",
    "most_parameters",
    "needs_measuring",
    "recommend",
    "shape_of",
    "speeds_of_kernels",
    "supported_architectures",
]
