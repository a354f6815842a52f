"""Compilation in other processes: the same code, its errors, and what happens where there can be none."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from engine.kernels.cpu.compile_process import CompilerPool
from engine.kernels.cpu.jit import KernelSource

ROOT = Path(__file__).parents[4]
SPIN = KernelSource("executor", "spin")
ABSENT = KernelSource("tests.engine.kernels.cpu.test_jit", "_call_absent")


def test_code_is_made_in_another_process_and_errors_come_back() -> None:
    pool = CompilerPool(2)
    spin, absent = pool.submit(SPIN), pool.submit(ABSENT)
    assert "spin" in spin.result(120)[0]
    with pytest.raises(RuntimeError, match="absent_function"):
        absent.result(120)


def test_without_processes_kernels_are_compiled_here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert "spin" in CompilerPool(1).submit(SPIN).result(120)[0]
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with caplog.at_level(logging.WARNING):
        assert "spin" in CompilerPool(2).submit(SPIN).result(120)[0]
    assert "compiling in this process" in caplog.text
    monkeypatch.setattr(sys, "executable", "")
    assert "spin" in CompilerPool(2).submit(SPIN).result(120)[0]


def test_no_module_of_the_working_folder_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "json.py").write_text("open('ran', 'w').close(); raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert "spin" in CompilerPool(2).submit(SPIN).result(120)[0]
    assert not (tmp_path / "ran").exists()
    assert "compiling in this process" not in caplog.text


SERVE_SLOWLY = """
import time
from engine.kernels.cpu import compile_process
compile_process._compile_here = lambda source: (print("begun", flush=True), time.sleep(300))
compile_process.serve()
"""


def test_a_process_ends_with_its_parent_in_the_middle_of_a_kernel() -> None:
    """Its standard input then ends, however the parent did."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", SERVE_SLOWLY], stdin=pipe, stderr=pipe, cwd=ROOT)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(pickle.dumps(SPIN))
    process.stdin.flush()
    assert process.stderr.readline().strip() == b"begun"  # what is printed goes to standard error
    process.stdin.close()
    assert process.wait(60) == 0
    process.stderr.close()
