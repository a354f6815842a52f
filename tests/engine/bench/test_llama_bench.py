"""Native builds: both dialects of llama-bench, played by a script."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from engine.bench.llama_bench import LlamaBench
from engine.bench.results import SpeedTest
from engine.errors import EngineError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="scripts are no programs there")

PREFILL = SpeedTest("prefill", 512, 0, 2)
DECODE = SpeedTest("decode", 32, 0, 1)
DEEP = SpeedTest("decode", 32, 4096, 1)

SCRIPT = """#!{python} -S
import json, pathlib, sys
arguments = sys.argv[1:]
if "--help" in arguments:
    print({help!r})
    sys.exit(0)
with open({log!r}, "a", encoding="utf-8") as log:
    log.write(" ".join(arguments) + "\\n")
count = int(arguments[arguments.index("-r") + 1])
print("some banner")
print(json.dumps([{{"samples_ts": [10.0]}}, {{"samples_ts": [100.0 + index for index in range(count)]}}]))
"""


def program(folder: Path, text: str) -> Path:
    path = folder / "llama-bench"
    path.write_text(text, encoding="utf-8")
    os.chmod(path, 0o755)
    return path


def script(folder: Path, help_text: str) -> tuple[Path, Path]:
    log = folder / "log.txt"
    return program(folder, SCRIPT.format(python=sys.executable, help=help_text, log=str(log))), log


def test_each_test_has_its_arguments(tmp_path: Path) -> None:
    path, log = script(tmp_path, "  -d, --n-depth <n>")
    bench = LlamaBench(path, Path("m.gguf"), 3)
    assert [bench.sample(test) for test in (PREFILL, DECODE, DEEP)] == [100.0, 100.0, 100.0]
    assert log.read_text(encoding="utf-8").splitlines() == [
        "-m m.gguf -t 2 -r 1 -o json -p 512 -n 0",
        "-m m.gguf -t 1 -r 1 -o json -p 0 -n 32",
        "-m m.gguf -t 1 -r 3 -o json -p 0 -n 32 -d 4096",
    ]


def test_one_run_gives_all_deep_samples(tmp_path: Path) -> None:
    path, log = script(tmp_path, "--n-depth")
    bench = LlamaBench(path, Path("m.gguf"), 3)
    assert [bench.sample(DEEP) for _ in range(4)] == [100.0, 101.0, 102.0, 100.0]
    assert len(log.read_text(encoding="utf-8").splitlines()) == 2


def test_forks_without_depth_take_a_pair(tmp_path: Path) -> None:
    path, log = script(tmp_path, "-gp <pp,tg>")
    assert LlamaBench(path, Path("m.gguf"), 2).sample(DEEP) == 100.0
    assert log.read_text(encoding="utf-8").strip().endswith("-p 0 -n 0 -gp 4096,32")


def test_a_failing_program_is_quoted(tmp_path: Path) -> None:
    path = program(tmp_path, f"#!{sys.executable} -S\nimport sys\nsys.exit('no such model')\n")
    with pytest.raises(EngineError, match="failed with code 1: no such model"):
        LlamaBench(path, Path("m.gguf"), 1).sample(DECODE)


@pytest.mark.parametrize("printed", ["hello", "[]", '[{"samples_ts": []}]', "[1]", "[{"])
def test_other_output_is_no_result(tmp_path: Path, printed: str) -> None:
    path = program(tmp_path, f"#!{sys.executable} -S\nprint({printed!r})\n")
    with pytest.raises(EngineError, match="printed no"):
        LlamaBench(path, Path("m.gguf"), 1).sample(DECODE)


def test_what_is_no_program_is_said(tmp_path: Path) -> None:
    path = tmp_path / "llama-bench"
    path.write_text("text", encoding="utf-8")
    with pytest.raises(EngineError, match="cannot be run"):
        LlamaBench(path, Path("m.gguf"), 1).sample(DECODE)
