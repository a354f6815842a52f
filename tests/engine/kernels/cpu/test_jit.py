from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.kernels.cpu import jit
from engine.kernels.cpu.jit import KernelSource

SOURCE = KernelSource("elementwise", "add")
SCRIPT = """
import sys
from engine.kernels.cpu.jit import KernelSource, load_kernels
heard = []
kernels = load_kernels([KernelSource("elementwise", "add")], lambda text, fraction: heard.append((text, fraction)))
print(len(kernels), len(heard), "numba" in sys.modules)
"""


def run_script(cache: Path, folder: Path) -> list[str]:
    environment = {**os.environ, "FIRESIDE_CACHE_DIR": str(cache), "PYTHONPATH": str(Path(__file__).parents[4])}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    return result.stdout.split()


def test_second_process_loads_without_numba(tmp_path: Path) -> None:
    cache, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert run_script(cache, tmp_path)[:2] == ["1", "2"]
    assert run_script(cache, elsewhere) == ["1", "0", "False"]


def test_damaged_file_is_compiled_anew(tmp_path: Path) -> None:
    run_script(tmp_path, tmp_path)
    (path,) = (tmp_path / "kernels").glob("*.o")
    path.write_bytes(path.read_bytes()[:-7])
    assert run_script(tmp_path, tmp_path)[:2] == ["1", "2"]
    assert run_script(tmp_path, tmp_path) == ["1", "0", "False"]


def test_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    assert run_script(blocked, tmp_path)[:2] == ["1", "2"]


def test_hash_covers_what_a_module_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{jit.PACKAGE}.attention"
    sources = jit._module_sources(name)
    assert {name, f"{jit.PACKAGE}.simd", f"{jit.PACKAGE}.tile", f"{jit.PACKAGE}.layouts"} <= set(sources)
    before = jit.source_hash(name)
    monkeypatch.setenv("FIRESIDE_ISA", "portable" if os.environ.get("FIRESIDE_ISA") != "portable" else "avx2")
    assert jit.source_hash(name) != before


def test_kernel_gets_its_four_arguments() -> None:
    slot = np.zeros(1, np.int64)
    jit.compile_kernel(_store_arguments)(slot.ctypes.data, 7, 2, 3)
    assert slot[0] == 723


def test_code_that_calls_unknown_code_is_refused() -> None:
    with pytest.raises(RuntimeError, match="absent_function"):
        jit.compile_kernel(_call_absent)


def _make_kernels() -> tuple[jit.KernelFunction, jit.KernelFunction]:
    from llvmlite import ir
    from numba import types

    from engine.kernels.cpu.simd import call_llvm, define, store_i64

    call_absent = define(types.void, [], lambda b: call_llvm(b, "absent_function", ir.VoidType(), []))

    def store_arguments(op: int, step: int, thread: int, num_threads: int) -> None:
        store_i64(op, step * 100 + thread * 10 + num_threads)

    def call_absent_function(op: int, step: int, thread: int, num_threads: int) -> None:
        call_absent()

    return store_arguments, call_absent_function


_store_arguments, _call_absent = _make_kernels()


def test_address_is_code_of_this_process() -> None:
    (kernel,) = jit.load_kernels([SOURCE]).values()
    assert ctypes.string_at(kernel.address, 1)
    assert jit.load_kernels([SOURCE])[SOURCE] is kernel
