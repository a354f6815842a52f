"""The fit advisor: what a model would need and how fast it would be on this machine, before it is downloaded.

shape     what a header says of a model's size: bytes by type, KV cache, work memory
machine   this machine: memory, disk, and speeds measured with the engine's own kernels
advice    both together: fits or not, tokens a second, seconds to read, and which version to take
measured  figures of models that have run, which replace the estimates
"""

from engine.advisor.advice import Advice, Fit, advise, most_parameters, recommend, supported_architectures
from engine.advisor.machine import (
    Machine,
    Speeds,
    known_speeds,
    look_at_machine,
    measure_speeds,
    needs_measuring,
)
from engine.advisor.measured import MeasuredFigures, MeasuredSpeed
from engine.advisor.shape import MemoryNeed, ModelShape, memory_need, shape_of

__all__ = [
    "Advice",
    "Fit",
    "Machine",
    "MeasuredFigures",
    "MeasuredSpeed",
    "MemoryNeed",
    "ModelShape",
    "Speeds",
    "advise",
    "known_speeds",
    "look_at_machine",
    "measure_speeds",
    "memory_need",
    "most_parameters",
    "needs_measuring",
    "recommend",
    "shape_of",
    "supported_architectures",
]
