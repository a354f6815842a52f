"""Compilation in other processes: the same code, its errors, and what happens where there can be none."""

from __future__ import annotations

import logging
import sys

import pytest

from engine.kernels.cpu.compile_process import CompilerPool
from engine.kernels.cpu.jit import KernelSource

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
