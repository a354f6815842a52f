"""Owns the choice of instruction set; knows nothing of kernels.

The choice is made once, when this module is imported, before anything is compiled: an instruction that the
processor lacks ends the process. ``FIRESIDE_ISA`` overrides it, so that tests run each path the machine has, and
with ``-emulated`` after the name those that it lacks (see ``emulation``).
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from llvmlite import binding

from engine.errors import EngineError


class InstructionSet(Enum):
    """What the kernels may use beyond plain vector arithmetic; the value is the name in ``FIRESIDE_ISA``."""

    PORTABLE = "portable"
    NEON = "neon"  # with dotprod (sdot)
    AVX2 = "avx2"  # with FMA and F16C
    AVX512VNNI = "avx512vnni"  # with BW, DQ and VL


_EMULATED = "-emulated"
_X86 = {"x86_64", "amd64", "x86"}
_ARM = {"arm64", "aarch64"}
_AVX2_FEATURES = ("avx2", "fma", "f16c")
_AVX512_FEATURES = (*_AVX2_FEATURES, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni")


def _host_features() -> Mapping[str, bool]:
    try:
        return dict(binding.get_host_cpu_features())
    except RuntimeError:  # LLVM cannot tell on this system
        return {}


def available_instruction_sets(
    machine: str = platform.machine(), features: Callable[[], Mapping[str, bool]] = _host_features
) -> tuple[InstructionSet, ...]:
    """What the processor can execute, best first; ``PORTABLE`` is always the last."""
    found: list[InstructionSet] = []
    has = features()
    if machine.lower() in _X86:
        if all(has.get(name) for name in _AVX512_FEATURES):
            found.append(InstructionSet.AVX512VNNI)
        if all(has.get(name) for name in _AVX2_FEATURES):
            found.append(InstructionSet.AVX2)
    elif machine.lower() in _ARM and (has.get("dotprod") or platform.system() == "Darwin"):
        found.append(InstructionSet.NEON)  # every Apple processor that macOS 11 runs on has dotprod
    return (*found, InstructionSet.PORTABLE)


def choose_instruction_set(
    wanted: str | None, available: tuple[InstructionSet, ...]
) -> tuple[InstructionSet, bool]:
    """The best of ``available``, or the one that ``wanted`` names; True with it where it is to be emulated.

    Raises EngineError when ``wanted`` is unknown or this processor lacks it.
    """
    if not wanted:
        return available[0], False
    name, dash, ending = wanted.strip().lower().partition("-")
    is_emulated = dash + ending == _EMULATED
    for instruction_set in InstructionSet if is_emulated else available:
        if instruction_set.value == (name if is_emulated else name + dash + ending):
            return instruction_set, is_emulated
    names = ", ".join(instruction_set.value for instruction_set in available)
    raise EngineError(f"FIRESIDE_ISA={wanted} is not available on this processor; choose one of: {names}.")


_CHOSEN: Final = choose_instruction_set(os.environ.get("FIRESIDE_ISA"), available_instruction_sets())
ISA: Final = _CHOSEN[0]
IS_EMULATED: Final = _CHOSEN[1]
