"""The matmuls of each instruction set: run in a process of its own, or at least assembled for another processor."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.kernels.cpu import isa
from engine.kernels.cpu.isa import InstructionSet, available_instruction_sets, choose_instruction_set

ROOT = Path(__file__).parents[4]
TYPES = ("Q4_1", "Q8_0", "Q6_K", "IQ4_NL")  # unsigned, signed, a scale for 16 values, a table
EMULATED_TYPES = (*TYPES, "F16")
ASSEMBLE = """
import sys
from llvmlite import binding
from engine.kernels.cpu import isa
isa.ISA = isa.InstructionSet[sys.argv[1]]  # before anything reads it
from numba import types
from engine.gguf.tensor_types import TensorType
from engine.kernels.cpu import inline, matmul
binding.initialize_all_targets()
binding.initialize_all_asmprinters()
_, _, triple, processor, *names = sys.argv
machine = binding.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3)
for name in names:
    helper = inline._lower(matmul.matmul_kernel(TensorType[name]), (types.int64,) * 4)
    module = binding.parse_assembly(str(helper.library._shared_module))
    module.triple, module.data_layout = triple, str(machine.target_data)
    for function in module.functions:
        if function.name == helper.fndesc.llvm_func_name:
            function.linkage = "external"
    passes = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(module, passes)
    print(machine.emit_assembly(module))
"""


def run_python(arguments: list[str], wanted: str) -> str:
    environment = {**os.environ, "FIRESIDE_ISA": wanted}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", timeout=800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("instruction_set", available_instruction_sets()[1:], ids=lambda s: s.value)
def test_every_available_instruction_set_gives_the_same(instruction_set: InstructionSet) -> None:
    output = run_python(["-m", "tests.engine.kernels.cpu.matmul_oracle", *TYPES], instruction_set.value)
    assert [line.split()[:2] for line in output.splitlines()] == [[instruction_set.value, name] for name in TYPES]


@pytest.mark.parametrize("instruction_set", [InstructionSet.AVX512VNNI, InstructionSet.NEON], ids=lambda s: s.value)
def test_kernels_of_instructions_that_this_processor_may_lack(instruction_set: InstructionSet) -> None:
    arguments = ["-m", "tests.engine.kernels.cpu.matmul_oracle", "--few", *EMULATED_TYPES]
    output = run_python(arguments, f"{instruction_set.value}-emulated")
    assert [line.split()[:2] for line in output.splitlines()] == [
        [instruction_set.value, name] for name in EMULATED_TYPES
    ]


@pytest.mark.parametrize("instruction_set", [InstructionSet.NEON, InstructionSet.PORTABLE], ids=lambda s: s.value)
def test_matmuls_assemble_for_apple_silicon(instruction_set: InstructionSet) -> None:
    arguments = [instruction_set.name, "arm64-apple-macosx14.0", "apple-m1", "Q8_0", "IQ4_NL"]
    output = run_python(["-c", ASSEMBLE, *arguments], "portable")
    assert "fmla" in output
    is_neon = instruction_set is InstructionSet.NEON
    assert ("sdot" in output) == is_neon
    assert ("tbl" in output) or not is_neon


def test_matmuls_assemble_for_avx512() -> None:
    arguments = ["AVX512VNNI", "x86_64-unknown-linux-gnu", "icelake-server", "Q8_0", "IQ4_NL"]
    output = run_python(["-c", ASSEMBLE, *arguments], "portable")
    assert "vpdpbusd" in output
    assert "vpshufb" in output
    assert "%zmm" in output


def test_the_best_available_set_is_chosen() -> None:
    x86 = dict.fromkeys(("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"), True)
    assert available_instruction_sets("AMD64", lambda: x86) == (
        InstructionSet.AVX512VNNI,
        InstructionSet.AVX2,
        InstructionSet.PORTABLE,
    )
    older = {**x86, "avx512vnni": False}
    assert available_instruction_sets("x86_64", lambda: older)[0] is InstructionSet.AVX2
    assert available_instruction_sets("x86_64", lambda: {}) == (InstructionSet.PORTABLE,)
    assert available_instruction_sets("aarch64", lambda: {"dotprod": True})[0] is InstructionSet.NEON
    assert available_instruction_sets("riscv64", lambda: x86) == (InstructionSet.PORTABLE,)


def test_a_wanted_set_is_taken_or_refused() -> None:
    available = (InstructionSet.AVX2, InstructionSet.PORTABLE)
    assert choose_instruction_set(None, available) == (InstructionSet.AVX2, False)
    assert choose_instruction_set(" Portable ", available) == (InstructionSet.PORTABLE, False)
    assert choose_instruction_set("NEON-emulated", available) == (InstructionSet.NEON, True)
    for wanted in ("avx512vnni", "mmx", "mmx-emulated", "avx2-", "avx2-simulated"):
        with pytest.raises(EngineError, match=r"choose one of: avx2, portable\."):
            choose_instruction_set(wanted, available)


def test_the_terminal_says_in_one_sentence_that_there_is_no_such_set() -> None:
    environment = {**os.environ, "FIRESIDE_ISA": "mmx"}
    done = subprocess.run(
        [sys.executable, "-m", "engine", "--help"], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 1
    assert re.fullmatch(r"FIRESIDE_ISA=mmx is not available on this processor; choose one of: .*\n", done.stderr)


def test_this_process_uses_an_available_set() -> None:
    assert isa.IS_EMULATED or isa.ISA in available_instruction_sets()
